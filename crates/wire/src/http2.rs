//! HTTP/2, only to bound the memory of a connection: counts the DATA frames received (RFC 9113
//! §4.1, §6.1).

const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;

/// Position in a client's bytes: it counts frames without parsing them.
#[derive(Debug)]
pub struct Frames {
    /// The received part of the next frame's head.
    head: [u8; HEAD_BYTES],
    come: usize,
    /// Bytes before it.
    before: usize,
}

impl Default for Frames {
    /// The state at the start of a connection.
    fn default() -> Self {
        Self { head: [0; HEAD_BYTES], come: 0, before: PREFACE_BYTES }
    }
}

impl Frames {
    /// Takes the client's next bytes; returns how many non-empty DATA frames begin in them.
    pub fn bodies(&mut self, mut bytes: &[u8]) -> usize {
        let mut begun = 0;
        while !bytes.is_empty() {
            let skipped = self.before.min(bytes.len());
            self.before -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let more = (HEAD_BYTES - self.come).min(bytes.len());
            let (of_head, rest) = bytes.split_at(more);
            self.head.iter_mut().skip(self.come).zip(of_head).for_each(|(to, byte)| *to = *byte);
            self.come += more;
            bytes = rest;
            if self.come == HEAD_BYTES {
                let [high, middle, low, kind, ..] = self.head;
                self.before = u32::from_be_bytes([0, high, middle, low]) as usize;
                begun += usize::from(kind == DATA && self.before > 0);
                self.come = 0;
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, bytes: usize) -> Vec<u8> {
        let [_, length @ ..] = (bytes as u32).to_be_bytes();
        // The payload looks like frames of bodies.
        [&length[..], &[kind, 0, 0, 0, 0, 1], &[0, 0, 1].repeat(bytes)[..bytes]].concat()
    }

    #[test]
    fn frames_are_counted_however_they_are_cut() {
        let frames = [(4, 0), (1, 40), (DATA, 1), (0xfa, 16_000), (DATA, 0), (DATA, 300), (8, 4)];
        let frames = frames.map(|(kind, bytes)| frame(kind, bytes)).concat();
        let all = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frames[..]].concat();
        for piece in [1, 2, 3, 8, 9, 10, 24, 25, 1_000, all.len()] {
            let mut seen = Frames::default();
            let begun: usize = all.chunks(piece).map(|bytes| seen.bodies(bytes)).sum();
            assert_eq!(begun, 2, "in pieces of {piece}");
        }
    }
}
