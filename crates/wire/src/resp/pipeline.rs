//! The client's side of a RESP2 connection, without I/O: the caller adds commands and received
//! bytes, and takes replies in the order of their commands.
//!
//! The caller writes what [`Pipeline::take_output`] returns, appends what it reads to
//! [`Pipeline::room`], then takes replies until there is none. After an error the connection is
//! lost.

use std::mem;

use super::{Frame, Kind, Limits, PROTOCOL, Reply, frame::Decoder, request};
use crate::{Error, Result};

/// A string of at least this length is not copied out of the input buffer.
const OWN_BUFFER_BYTES_MIN: usize = 16 * 1024;
/// Number of bytes that the error shows of a reply without a command.
const SHOWN_BYTES: usize = 32;

/// Commands and replies of one connection.
#[derive(Debug)]
pub struct Pipeline {
    outstanding_max: usize,
    outstanding: usize,
    output: Vec<u8>,
    input: Vec<u8>,
    /// Bytes at the start of `input` that replies have taken.
    taken: usize,
    decoder: Decoder,
}

impl Pipeline {
    /// A pipeline of up to `outstanding_max` unanswered commands. A reply may have up to
    /// `limits.reply_bytes_max` bytes and `limits.nesting_max` levels.
    pub fn new(outstanding_max: usize, limits: &Limits) -> Self {
        let (output, input, decoder) = (Vec::new(), Vec::new(), Decoder::new(limits));
        Self { outstanding_max, outstanding: 0, output, input, taken: 0, decoder }
    }

    /// Whether a reply must be taken before the next command.
    pub fn is_full(&self) -> bool {
        self.outstanding >= self.outstanding_max
    }

    /// Number of unanswered commands.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Encodes one command, its name first.
    ///
    /// # Errors
    /// [`is_full`](Self::is_full).
    pub fn command(&mut self, words: &[impl AsRef<[u8]>]) -> Result<()> {
        if self.is_full() {
            return Err(Error::TooLarge {
                protocol: PROTOCOL,
                offset: 0,
                what: "outstanding commands",
                limit: self.outstanding_max as u64,
                got: self.outstanding as u64 + 1,
            });
        }
        self.outstanding += 1;
        request::write_command(&mut self.output, words);
        Ok(())
    }

    /// Takes the encoded commands that have not been taken yet.
    pub fn take_output(&mut self) -> Vec<u8> {
        mem::take(&mut self.output)
    }

    /// Returns the buffer to which received bytes are appended; it has room for at least `bytes`.
    pub fn room(&mut self, bytes: usize) -> &mut Vec<u8> {
        self.input.drain(..mem::take(&mut self.taken));
        self.input.reserve(bytes);
        &mut self.input
    }

    /// The reply to the oldest unanswered command, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// The bytes violate the protocol, exceed a limit, or answer no command.
    pub fn reply(&mut self) -> Result<Option<Reply>> {
        if self.outstanding == 0 && self.taken < self.input.len() {
            let unread = self.input.get(self.taken..).unwrap_or_default();
            let shown = unread.get(..SHOWN_BYTES).unwrap_or(unread);
            return Err(Error::Malformed {
                protocol: PROTOCOL,
                offset: 0,
                expected: "no reply, because no command is outstanding",
                got: shown.escape_ascii().to_string(),
            });
        }
        let reply = self.message()?;
        self.outstanding -= usize::from(reply.is_some());
        Ok(reply)
    }

    /// The next message that answers no command: one published on a channel that a command has
    /// subscribed to.
    ///
    /// # Errors
    /// The bytes violate the protocol or exceed a limit.
    pub fn message(&mut self) -> Result<Option<Reply>> {
        let bytes = self.input.get(self.taken..).unwrap_or_default();
        let Some((frame, length)) = self.decoder.decode(bytes)? else { return Ok(None) };
        let own_bytes = long_string(&frame).filter(|&bytes| bytes > self.input.len() / 2);
        let reply = own_bytes.is_none().then(|| Reply::from(&frame));
        self.taken += length;
        Ok(Some(reply.unwrap_or_else(|| self.split_off(own_bytes.unwrap_or_default()))))
    }

    /// Takes the string of this length that ends, with CR LF, at the end of the taken replies. It
    /// keeps the buffer; the bytes after it, which are fewer, are copied.
    fn split_off(&mut self, bytes: usize) -> Reply {
        let rest = self.input.split_off(mem::take(&mut self.taken));
        let mut string = mem::replace(&mut self.input, rest);
        string.truncate(string.len().saturating_sub(2));
        string.drain(..string.len().saturating_sub(bytes));
        Reply::Bytes(string)
    }
}

/// The length of a string that is long enough for its own buffer.
fn long_string(frame: &Frame<'_>) -> Option<usize> {
    let string = frame.payload().filter(|_| frame.kind() == Kind::Bulk)?;
    (string.len() >= OWN_BUFFER_BYTES_MIN).then_some(string.len())
}

#[cfg(test)]
mod tests;
