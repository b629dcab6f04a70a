//! Whether a session waits for nothing, or for a reply that may never arrive.

use super::{Reading, Session};
use crate::{expected::Action, filter::Filter};

impl<F: Filter> Session<F> {
    /// Whether no reply is outstanding and everything is written. Then the session can be drained.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.expected.is_empty()
            && self.parked.is_none()
            && self.to_client.is_empty()
            && self.to_server.is_empty()
            && self.reading == Reading::Boundary
            && !self.streams
            && !self.held_up
            && !self.passing
    }

    /// Whether the next reply may never arrive. Then draining does not wait for it, nor for later
    /// ones.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let stuck = self.expected.front().map_or(self.streams, |expected| {
            matches!(expected.action, Action::Stream) || self.filter.waits(&expected.tag)
        });
        let unwritten = !self.to_client.is_empty() || self.reading != Reading::Boundary;
        self.is_quiet() || (stuck && !unwritten)
    }

    /// Whether the origin sends messages unasked, or answers only after other clients have acted.
    /// Then it must learn at once that the client has disconnected.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.streams || self.expected.iter().any(|expected| self.filter.waits(&expected.tag))
    }
}
