//! Reads the elements of an array that is too long to be buffered as they arrive: bulk strings, and
//! elements of one line.

/// Longest line that is read: a type and a length.
const LINE_BYTES_MAX: usize = 32;

/// The current position in such an array.
#[derive(Debug, Default)]
pub struct Elements {
    /// The received part of the line that begins an element.
    line: Vec<u8>,
    /// Remaining bytes of the current element.
    left: usize,
}

/// Some bytes of one element.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether the element begins with them.
    pub begins: bool,
}

impl Elements {
    /// Begins to read an array: returns its number of elements, and the number of bytes before the
    /// first. `None` if `bytes` do not begin with an array.
    pub fn begin(bytes: &[u8]) -> Option<(usize, usize)> {
        let end = bytes.iter().take(LINE_BYTES_MAX).position(|&byte| byte == b'\n')?;
        let line = bytes.get(..end)?;
        Some((length(line.strip_prefix(b"*")?)?, end + 1))
    }

    /// Cuts the next piece off `bytes`; `None` if there are none.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
        if bytes.is_empty() {
            return None;
        }
        let begins = self.left == 0 && self.line.is_empty();
        let count = if self.left > 0 {
            let count = self.left.min(bytes.len());
            self.left -= count;
            count
        } else {
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let count = end.map_or(bytes.len(), |end| end + 1);
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend(bytes.iter().take(count.min(room)));
            if end.is_some() {
                let digits = self.line.strip_prefix(b"$").unwrap_or_default();
                self.left = length(digits).map_or(0, |length| length.saturating_add(2));
                self.line.clear();
            }
            count
        };
        let (piece, rest) = bytes.split_at_checked(count)?;
        *bytes = rest;
        Some(Piece { bytes: piece, begins })
    }
}

/// Parses the length in a line; `None` if it is not one, for example `-1`.
fn length(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_however_they_are_cut() {
        let elements =
            ["$5\r\na\r\nbc\r\n", "$-1\r\n", "$0\r\n\r\n", "_\r\n", "$3\r\n$9\r\r\n", "+OK\r\n"];
        let all = elements.concat();
        for size in 1..=all.len() {
            let (mut seen, mut cut) = (Vec::<Vec<u8>>::new(), Elements::default());
            for mut part in all.as_bytes().chunks(size) {
                while let Some(piece) = cut.next(&mut part) {
                    if piece.begins {
                        seen.push(Vec::new());
                    }
                    seen.last_mut().expect("it begins").extend(piece.bytes);
                }
            }
            assert_eq!(seen, elements.map(|element| element.as_bytes().to_vec()), "in {size}s");
        }
    }

    #[test]
    fn an_array_says_how_many() {
        assert_eq!(Elements::begin(b"*12\r\n$1"), Some((12, 5)));
        for other in [&b"-ERR x\r\n"[..], b"*-1\r\n", b"*1", b"$1\r\nx\r\n", b"*x\r\n", b""] {
            assert_eq!(Elements::begin(other), None, "{}", other.escape_ascii());
        }
    }
}
