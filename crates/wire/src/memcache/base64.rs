//! Keys in base64, as meta commands with the flag `b` have them.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` in base64, padded.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) as usize & 63;
            let letter = ALPHABET.get(digit).filter(|_| place <= group.len());
            out.push(letter.copied().unwrap_or(b'='));
        }
    }
}

/// Decodes `text`; `None` if it is not the output of [`encode`] for these bytes. Decoders differ in
/// what else they accept.
#[must_use]
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.chunks(4) {
        let padding = group.iter().rev().take_while(|&&letter| letter == b'=').count();
        let mut bits = 0;
        for &letter in group.iter().take(group.len() - padding) {
            let digit = ALPHABET.iter().position(|&known| known == letter)?;
            bits = bits << 6 | digit as u32;
        }
        bits <<= 6 * padding;
        let [_, first, second, third] = bits.to_be_bytes();
        bytes.extend([first, second, third].iter().take(3usize.checked_sub(padding)?));
    }
    let mut again = Vec::with_capacity(text.len());
    encode(&bytes, &mut again);
    (!bytes.is_empty() && again == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn what_is_encoded_is_decoded() {
        for bytes in [&b"a"[..], b"ab", b"abc", b"\0\xff\r\n ", b"user:42"] {
            let mut text = Vec::new();
            encode(bytes, &mut text);
            assert_eq!(decode(&text).as_deref(), Some(bytes), "{}", text.escape_ascii());
        }
        assert_eq!(decode(b"YQ=="), Some(b"a".to_vec()));
    }

    #[test]
    fn what_decoders_read_differently_is_none() {
        for text in ["", "Y", "YQ", "YQ=", "YR==", "Y===", "====", "YQ==YQ==", "Y Q=", "YWI\r"] {
            assert_eq!(decode(text.as_bytes()), None, "{text:?}");
        }
    }
}
