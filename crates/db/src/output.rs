//! Output of a connection: bytes that may be sent, and bytes that wait until a write is durable.

use std::collections::VecDeque;

use store::elastic::Position;

/// Empty buffers with more capacity than this are freed.
const BUFFER_BYTES_KEPT: usize = 64 << 10;

/// Output that must not be sent before a write is durable.
struct Hold {
    /// Offset of its first byte, counted from the first byte ever written to this client.
    start: u64,
    shard: usize,
    position: Position,
}

/// Replies to be sent to one client.
#[derive(Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Number of bytes of `bytes` that are sent.
    sent: usize,
    /// Number of bytes sent before `bytes` began.
    past: u64,
    holds: VecDeque<Hold>,
}

impl Output {
    /// The buffer, to append to.
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Offset at which the next reply begins, counted from the first byte ever written to this
    /// client.
    #[inline]
    pub fn end(&self) -> u64 {
        self.past + self.bytes.len() as u64
    }

    /// Holds output from `start` on until `position` of a shard is durable. Calls come in the order
    /// of the replies.
    #[inline]
    pub fn hold(&mut self, start: u64, shard: usize, position: Position) {
        self.holds.push_back(Hold { start, shard, position });
    }

    /// Whether output waits for the disk.
    #[inline]
    pub fn is_held(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Bytes that are not sent.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Returns the end of the output that may be sent now, for [`Output::next`].
    ///
    /// # Errors
    /// That of `is_durable`.
    #[inline]
    pub fn release<E>(
        &mut self,
        is_durable: impl Fn(usize, Position) -> Result<bool, E>,
    ) -> Result<usize, E> {
        while let Some(hold) = self.holds.front() {
            if !is_durable(hold.shard, hold.position)? {
                return Ok((hold.start - self.past) as usize);
            }
            self.holds.pop_front();
        }
        Ok(self.bytes.len())
    }

    /// Returns the unsent output up to `end`.
    #[inline]
    pub fn next(&self, end: usize) -> &[u8] {
        &self.bytes[self.sent..end]
    }

    /// Notes that `count` bytes were sent.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
    }

    /// Begins anew if everything is sent; returns how much that was.
    #[inline]
    pub fn clear(&mut self) -> Option<usize> {
        if self.sent < self.bytes.len() {
            return None;
        }
        let sent = std::mem::take(&mut self.sent);
        self.past += sent as u64;
        self.bytes.clear();
        if self.bytes.capacity() > BUFFER_BYTES_KEPT {
            self.bytes = Vec::new();
        }
        Some(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_and_what_follows_it_wait_until_its_write_is_durable() {
        let mut output = Output::default();
        let durable = |up_to: u64| move |_, position: Position| Ok::<_, ()>(position.0 <= up_to);
        output.bytes().extend_from_slice(b"+PONG\r\n");
        let start = output.end();
        output.bytes().extend_from_slice(b"+OK\r\n");
        output.hold(start, 0, Position(5));
        let later = output.end();
        output.bytes().extend_from_slice(b":1\r\n");
        output.hold(later, 1, Position(9));
        assert_eq!(output.release(|_, _| Err("failed")), Err("failed"));
        let end = output.release(durable(4)).expect("no failure");
        assert_eq!(output.next(end), b"+PONG\r\n");
        output.advance(end);
        assert_eq!((output.clear(), output.unsent()), (None, 9));
        let end = output.release(durable(8)).expect("no failure");
        assert_eq!(output.next(end), b"+OK\r\n");
        output.advance(5);
        let end = output.release(durable(9)).expect("no failure");
        assert_eq!((output.next(end), output.is_held()), (&b":1\r\n"[..], false));
        output.advance(4);
        assert_eq!((output.clear(), output.end()), (Some(16), 16));
        // Offsets continue after the bytes that were sent.
        output.bytes().push(b'x');
        output.hold(16, 0, Position(10));
        assert_eq!(output.release(durable(9)), Ok(0));
    }
}
