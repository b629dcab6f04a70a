//! The client's end of a RESP2 connection, without the connection: commands are encoded, bytes are
//! fed, and replies are taken in the order of their commands.
//!
//! The caller writes what [`Pipeline::take_output`] returns, appends what it reads to
//! [`Pipeline::room`], then takes replies until there is none. After an error the connection is
//! lost.

use std::mem;

use super::{Frame, Kind, Limits, PROTOCOL, Reply, frame::Decoder, request};
use crate::{Error, Result};

/// A string at least this long is not copied out of the buffer it came in.
const OWN_BUFFER_BYTES_MIN: usize = 16 * 1024;
/// Bytes of a reply without a command that an error shows.
const SHOWN_BYTES: usize = 32;

/// One connection's commands and replies.
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
    /// A pipeline of up to `outstanding_max` commands that are not answered yet. A reply passes at
    /// most `limits.reply_bytes_max` and `limits.nesting_max`.
    pub fn new(outstanding_max: usize, limits: &Limits) -> Self {
        let (output, input, decoder) = (Vec::new(), Vec::new(), Decoder::new(limits));
        Self { outstanding_max, outstanding: 0, output, input, taken: 0, decoder }
    }

    /// Whether no further command may be given before a reply is taken.
    pub fn is_full(&self) -> bool {
        self.outstanding >= self.outstanding_max
    }

    /// Commands that are not answered yet.
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
                what: "commands without a reply",
                limit: self.outstanding_max as u64,
                got: self.outstanding as u64 + 1,
            });
        }
        self.outstanding += 1;
        request::write_command(&mut self.output, words);
        Ok(())
    }

    /// The encoded commands, to be written; empty if all were taken.
    pub fn take_output(&mut self) -> Vec<u8> {
        mem::take(&mut self.output)
    }

    /// Returns the buffer to which received bytes are appended; it has room for at least `bytes`.
    pub fn room(&mut self, bytes: usize) -> &mut Vec<u8> {
        self.input.drain(..mem::take(&mut self.taken));
        self.input.reserve(bytes);
        &mut self.input
    }

    /// The reply to the oldest command that is not answered yet, or `None` if more bytes are
    /// needed.
    ///
    /// # Errors
    /// The bytes break the protocol, pass a limit, or answer no command.
    pub fn reply(&mut self) -> Result<Option<Reply>> {
        if self.outstanding == 0 && self.taken < self.input.len() {
            let unread = self.input.get(self.taken..).unwrap_or_default();
            let shown = unread.get(..SHOWN_BYTES).unwrap_or(unread);
            return Err(Error::Malformed {
                protocol: PROTOCOL,
                offset: 0,
                expected: "no reply, as no command waits for one",
                got: shown.escape_ascii().to_string(),
            });
        }
        let reply = self.message()?;
        self.outstanding -= usize::from(reply.is_some());
        Ok(reply)
    }

    /// The next message, which answers no command: what is published on a channel that a command
    /// has subscribed to.
    ///
    /// # Errors
    /// The bytes break the protocol or pass a limit.
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

/// The length of a string that is worth a buffer of its own.
fn long_string(frame: &Frame<'_>) -> Option<usize> {
    let string = frame.payload().filter(|_| frame.kind() == Kind::Bulk)?;
    (string.len() >= OWN_BUFFER_BYTES_MIN).then_some(string.len())
}

#[cfg(test)]
mod tests;
