//! Memory of a session, and how it is released.

use std::mem;

use super::Session;
use crate::{filter::Filter, input::Input};

/// Approximate bytes of an outstanding request with its records in the lease table, besides keys
/// and answers, which are counted individually.
const EXPECTED_BYTES: usize = 512;

impl<F: Filter> Session<F> {
    /// Bytes kept for the client: requests that wait, and replies not yet sent.
    #[inline]
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.from_client.capacity()
            + self.from_server.capacity()
            + self.to_client.held_bytes()
            + self.to_server.held_bytes()
            + self.captured.bytes.capacity()
            + self.waiting_bytes
            + self.expected.len() * EXPECTED_BYTES
    }

    /// Sets how many bytes may wait to be written to one side; with none, nothing is read at all.
    pub fn set_room(&mut self, bytes: usize) {
        self.room = bytes.min(self.config.buffered_bytes_max);
    }

    /// Releases the session's buffers, because all clients together use too much. Writes only an
    /// error, and only if the client would recognize it as one. Close the session afterwards.
    pub fn shed(&mut self) {
        let at_start = self.has_turn() && self.to_client.is_empty();
        self.from_client = Input::default();
        self.from_server = Input::default();
        self.captured = super::Captured::default();
        drop(mem::take(&mut self.to_client));
        drop(mem::take(&mut self.to_server));
        if at_start {
            self.filter.overloaded(self.to_client.buffer());
        }
    }
}
