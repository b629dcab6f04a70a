//! Memory of request bodies that an HTTP/2 server has received and its application has not read.
//!
//! Flow control bounds the bytes of such bodies, not their memory: hyper keeps each frame, and a
//! frame keeps the whole buffer into which it was read. The bound is the lower of two values: all
//! bytes read since the oldest frame that was not taken, and one buffer for each such frame.
//!
//! A frame is released with its body, whose stream hyper does not report. hyper hands over all
//! requests that it has read before its task waits. So nothing is read beyond the headers of a
//! request with a body until the task runs again: the next body belongs to that request.

use std::collections::{HashMap, VecDeque};

use super::{Found, Frames};

/// Length of hyper's read buffer: the longest frame.
const BUFFER_BYTES: u64 = 16 << 10;
/// Memory of a frame besides its buffer.
const FRAME_BYTES: u64 = 1 << 10;
/// Taken frames are dropped from the list when they outnumber the others by this many.
const TAKEN_MAX: usize = 64;

/// The bodies of one connection's requests.
#[derive(Debug, Default)]
pub struct Bodies {
    frames: Frames,
    /// Bytes passed on to hyper.
    read: u64,
    /// Bytes that were received and are not passed on yet.
    held: u64,
    /// The stream whose body hyper hands over next, if it accepts the request.
    begun: Option<u32>,
    /// Bodies that were not dropped, by stream.
    bodies: HashMap<u32, Numbers>,
    /// The frames of bodies in the order in which they were read; the first is not taken.
    order: VecDeque<Waiting>,
    /// Number of frames that are not taken.
    waiting: usize,
}

/// Numbers of a body's frames.
#[derive(Debug, Default)]
struct Numbers {
    read: u64,
    taken: u64,
}

#[derive(Debug)]
struct Waiting {
    stream: u32,
    /// Number of the frame within its body.
    number: u64,
    /// Number of bytes read before it.
    from: u64,
}

impl Bodies {
    /// Takes received bytes, of which at most `most` can be passed on; returns how many may be in
    /// this turn, and whether it ends there. The rest is held, and must be passed again.
    pub fn pass(&mut self, bytes: &[u8], most: usize) -> (usize, bool) {
        // A request that has not been handed over was refused.
        self.begun = None;
        let (mut at, most) = (0, most.min(bytes.len()));
        while at < most && self.begun.is_none() {
            let (more, found) = self.frames.next(bytes.get(at..most).unwrap_or_default());
            at += more;
            self.read += more as u64;
            match found {
                Some(Found::Data(stream)) => self.came(stream),
                Some(Found::Request(stream)) => self.begun = Some(stream),
                None => {}
            }
        }
        self.held = (bytes.len() - at) as u64;
        (at, self.begun.is_some())
    }

    /// The stream whose body is handed over now, counted until it has [ended](Self::ended); `None`
    /// if no request was read in this turn.
    pub fn begin(&mut self) -> Option<u32> {
        let stream = self.begun.take()?;
        self.bodies.insert(stream, Numbers::default());
        Some(stream)
    }

    /// A frame of this stream's body was read. hyper keeps no frames of a dropped body.
    fn came(&mut self, stream: u32) {
        if let Some(body) = self.bodies.get_mut(&stream) {
            self.order.push_back(Waiting { stream, number: body.read, from: self.read });
            body.read += 1;
            self.waiting += 1;
        }
    }

    /// The oldest frame of this body was taken.
    pub fn taken(&mut self, stream: u32) {
        if let Some(body) = self.bodies.get_mut(&stream).filter(|body| body.taken < body.read) {
            body.taken += 1;
            self.left(1);
        }
    }

    /// This body was dropped with its frames.
    pub fn ended(&mut self, stream: u32) {
        if let Some(body) = self.bodies.remove(&stream) {
            self.left((body.read - body.taken) as usize);
        }
    }

    fn left(&mut self, frames: usize) {
        self.waiting -= frames;
        let bodies = &self.bodies;
        let waits = |frame: &Waiting| {
            bodies.get(&frame.stream).is_some_and(|body| body.taken <= frame.number)
        };
        while self.order.front().is_some_and(|frame| !waits(frame)) {
            self.order.pop_front();
        }
        if self.order.len() > 2 * self.waiting + TAKEN_MAX {
            self.order.retain(waits);
        }
    }

    /// Upper bound of the memory of unread frames and of held bytes.
    #[must_use]
    pub fn kept(&self) -> usize {
        let waiting = self.waiting as u64;
        // Its buffer may begin before it.
        let oldest = self.order.front().map(|frame| frame.from.saturating_sub(BUFFER_BYTES));
        let read = oldest.map_or(0, |oldest| self.read - oldest);
        let by_frames = waiting.saturating_mul(BUFFER_BYTES + FRAME_BYTES);
        let frames = read.saturating_add(FRAME_BYTES * waiting).min(by_frames);
        (frames + self.held) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn begun() -> Bodies {
        let mut bodies = Bodies::default();
        pass(&mut bodies, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        bodies
    }

    /// Receives and passes all of `bytes`; returns whether the turn ends.
    fn pass(bodies: &mut Bodies, bytes: &[u8]) -> bool {
        let (passed, is_over) = bodies.pass(bytes, bytes.len());
        assert_eq!(passed, bytes.len());
        is_over
    }

    fn frame(kind: u8, flags: u8, stream: u32, bytes: usize) -> Vec<u8> {
        let length = (bytes as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), &vec![b'x'; bytes]].concat()
    }

    fn data(stream: u32, bytes: usize) -> Vec<u8> {
        frame(0, 0, stream, bytes)
    }

    /// The headers of a request with a body.
    fn request(stream: u32) -> Vec<u8> {
        frame(1, 4, stream, 20)
    }

    fn upload(bodies: &mut Bodies, stream: u32) {
        assert!(pass(bodies, &request(stream)), "the turn ends after a request");
        assert_eq!(bodies.begin(), Some(stream), "the turn of this stream");
    }

    fn kept(bodies: &Bodies) -> u64 {
        bodies.kept() as u64
    }

    #[test]
    fn refused_uploads_next_to_a_long_one_leave_nothing_in_the_count() {
        let mut bodies = begun();
        upload(&mut bodies, 1);
        for number in 1..2_000 {
            let stream = 2 * number + 1;
            upload(&mut bodies, stream);
            pass(&mut bodies, &data(stream, 1_000));
            bodies.ended(stream);
            // Sent by the client before it received the response.
            pass(&mut bodies, &[data(stream, 1_000), data(1, 1_000)].concat());
            assert!(kept(&bodies) < 64 << 10, "{} after {number}", kept(&bodies));
            bodies.taken(1);
            assert_eq!(kept(&bodies), 0);
        }
        assert!(bodies.order.len() <= TAKEN_MAX);
    }

    #[test]
    fn a_body_that_waits_costs_its_own_frames_while_another_is_read() {
        let mut bodies = begun();
        upload(&mut bodies, 1);
        pass(&mut bodies, &[data(1, 100), data(1, 100)].concat());
        upload(&mut bodies, 3);
        for _ in 0..10_000 {
            pass(&mut bodies, &data(3, 1_000));
            bodies.taken(3);
        }
        assert_eq!(kept(&bodies), 2 * (BUFFER_BYTES + FRAME_BYTES));
        assert!(bodies.order.len() <= 4 + TAKEN_MAX, "the order list is bounded");
        bodies.ended(1);
        assert_eq!(kept(&bodies), 0);
    }

    #[test]
    fn what_comes_with_a_request_is_counted() {
        let mut bodies = begun();
        // The turn ends between the two frames.
        let both = [request(1), data(1, MIB as usize)].concat();
        let (passed, is_over) = bodies.pass(&both, both.len());
        assert!(is_over && kept(&bodies) >= MIB, "held bytes are counted");
        assert_eq!(bodies.begin(), Some(1), "the turn of stream 1");
        pass(&mut bodies, &both[passed..]);
        assert_eq!(kept(&bodies), BUFFER_BYTES + FRAME_BYTES);
        pass(&mut bodies, &data(1, 10));
        assert_eq!(kept(&bodies), 2 * (BUFFER_BYTES + FRAME_BYTES));
    }

    #[test]
    fn a_request_that_is_not_handed_over_is_forgotten() {
        let mut bodies = begun();
        assert!(pass(&mut bodies, &request(1)));
        assert!(!pass(&mut bodies, &data(1, 1_000)));
        assert!(bodies.begin().is_none() && kept(&bodies) == 0);
    }
}
