//! LZF, with which Redis compresses strings of more than twenty bytes.

/// The text of `compressed`; `None` if it is not exactly `length` bytes long.
pub(super) fn decompress(mut compressed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while let Some((&control, rest)) = compressed.split_first() {
        compressed = rest;
        if control < 32 {
            let (literal, rest) = compressed.split_at_checked(usize::from(control) + 1)?;
            text.extend_from_slice(literal);
            compressed = rest;
        } else {
            let mut count = usize::from(control >> 5);
            if count == 7 {
                let (&more, rest) = compressed.split_first()?;
                count += usize::from(more);
                compressed = rest;
            }
            let (&low, rest) = compressed.split_first()?;
            compressed = rest;
            let back = usize::from(control & 31) << 8 | usize::from(low);
            let from = text.len().checked_sub(back + 1)?;
            // What is copied may overlap what it is copied to.
            for at in from..from + count + 2 {
                text.push(text[at]);
            }
        }
        if text.len() > length {
            return None;
        }
    }
    (text.len() == length).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_copies_that_overlap_are_read_and_others_refused() {
        // Two bytes as they are, then 3 + 4 of them again, then 7 + 2 + 200 of the last.
        let compressed = [1, b'a', b'b', 5 << 5, 1, 7 << 5, 200, 0];
        let text = [b"ababababa".as_slice(), &[b'a'; 209]].concat();
        assert_eq!(decompress(&compressed, text.len()), Some(text.clone()));
        for length in [0, text.len() - 1, text.len() + 1] {
            assert_eq!(decompress(&compressed, length), None);
        }
        for end in 1..compressed.len() {
            assert_eq!(decompress(&compressed[..end], text.len()), None, "the first {end} bytes");
        }
        assert_eq!(decompress(&[1, b'a', b'b', 1 << 5, 2], 5), None, "before its beginning");
        assert_eq!(decompress(&[], 0), Some(Vec::new()));
    }
}
