//! HTTP/2, as far as the memory of a connection is concerned: the frames of bodies that a client
//! sends, and where a request with a body begins (RFC 9113 §4.1, §6.1, §6.2).

pub mod unread;

const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The first bit of a stream identifier is reserved.
const STREAM: u32 = u32::MAX >> 1;

/// Found in a client's bytes, with the identifier of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The header of a DATA frame: one that has a payload, or ends its stream.
    Data(u32),
    /// The end of the headers of a request that has a body.
    Request(u32),
}

/// Position in a client's bytes: it finds frames without parsing their payload.
#[derive(Debug)]
pub struct Frames {
    /// The received part of the next frame's header.
    head: [u8; HEAD_BYTES],
    come: usize,
    /// Bytes before it.
    before: usize,
    /// The newest stream that a request has opened.
    newest: u32,
    /// The request with a body whose headers are being received ...
    begins: Option<u32>,
    /// ... and that of which the last headers are in the bytes before the next frame.
    begun: Option<u32>,
}

impl Default for Frames {
    /// The state at the start of a connection.
    fn default() -> Self {
        let (head, before) = ([0; HEAD_BYTES], PREFACE_BYTES);
        Self { head, come: 0, before, newest: 0, begins: None, begun: None }
    }
}

impl Frames {
    /// The client's next bytes: what is found first, and how many bytes lead to it; all of them if
    /// nothing is found.
    pub fn next(&mut self, bytes: &[u8]) -> (usize, Option<Found>) {
        let mut rest = bytes;
        loop {
            let skipped = self.before.min(rest.len());
            self.before -= skipped;
            rest = rest.get(skipped..).unwrap_or_default();
            let found = if self.before > 0 {
                None
            } else if let Some(stream) = self.begun.take() {
                Some(Found::Request(stream))
            } else {
                let more = (HEAD_BYTES - self.come).min(rest.len());
                let (of_head, after) = rest.split_at(more);
                self.head
                    .iter_mut()
                    .skip(self.come)
                    .zip(of_head)
                    .for_each(|(to, from)| *to = *from);
                self.come += more;
                rest = after;
                if self.come == HEAD_BYTES { self.frame() } else { None }
            };
            if found.is_some() || rest.is_empty() && (self.before > 0 || self.begun.is_none()) {
                return (bytes.len() - rest.len(), found);
            }
        }
    }

    /// A frame begins whose header is complete.
    fn frame(&mut self) -> Option<Found> {
        self.come = 0;
        let [high, middle, low, kind, flags, stream @ ..] = self.head;
        self.before = u32::from_be_bytes([0, high, middle, low]) as usize;
        let stream = u32::from_be_bytes(stream) & STREAM;
        let ends_stream = flags & END_STREAM != 0;
        match kind {
            DATA => return (self.before > 0 || ends_stream).then_some(Found::Data(stream)),
            // Trailers are on a stream that is not new.
            HEADERS => {
                self.begins = (stream > self.newest && !ends_stream).then_some(stream);
                self.newest = self.newest.max(stream);
            }
            CONTINUATION => {}
            _ => return None,
        }
        if flags & END_HEADERS != 0 {
            self.begun = self.begins.take();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, bytes: usize) -> Vec<u8> {
        let [_, length @ ..] = (bytes as u32).to_be_bytes();
        // The payload could be mistaken for DATA frames.
        let payload = &[0, 0, 1].repeat(bytes)[..bytes];
        [&length[..], &[kind, flags, 0x80, 0, 0, stream], payload].concat()
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let frames = [
            (4, 0, 0, 0),
            (HEADERS, END_HEADERS | END_STREAM, 1, 40),
            // Headers in three frames, then a body with trailers.
            (HEADERS, 0, 3, 40),
            (CONTINUATION, 0, 3, 7),
            (CONTINUATION, END_HEADERS, 3, 0),
            (DATA, 0, 3, 1),
            (0xfa, 0, 3, 16_000),
            (HEADERS, END_HEADERS, 5, 30),
            (DATA, 0, 5, 0),
            (DATA, 0, 3, 300),
            (HEADERS, END_HEADERS | END_STREAM, 3, 8),
            (DATA, END_STREAM, 5, 0),
            (8, 0, 0, 4),
        ];
        let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut ends = Vec::new();
        for (kind, flags, stream, bytes) in frames {
            all.extend(frame(kind, flags, stream, bytes));
            ends.push(all.len());
        }
        let expected = [
            (ends[4], Found::Request(3)),
            (ends[4] + HEAD_BYTES, Found::Data(3)),
            (ends[7], Found::Request(5)),
            (ends[8] + HEAD_BYTES, Found::Data(3)),
            (ends[10] + HEAD_BYTES, Found::Data(5)),
        ];
        for piece in [1, 2, 3, 8, 9, 10, 24, 25, 1_000, all.len()] {
            let (mut frames, mut found, mut at) = (Frames::default(), Vec::new(), 0);
            for mut bytes in all.chunks(piece) {
                while !bytes.is_empty() {
                    let (more, next) = frames.next(bytes);
                    (at, bytes) = (at + more, &bytes[more..]);
                    found.extend(next.map(|next| (at, next)));
                }
            }
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }
}
