//! Requests that are too long to be held: interpreted by their beginning, and forwarded as they
//! arrive.

use std::time::Duration;

use super::Session;
use crate::{
    Error,
    filter::{Filter, Flow, Scratch},
    principal::Login,
    storage::Storage,
};

/// Outcome of handling bytes of an incomplete request.
pub(super) enum Passage {
    /// This number of bytes was taken.
    Taken(usize),
    /// More bytes are needed.
    Wait,
}

impl<F: Filter> Session<F> {
    /// Whether the origin has accepted this client. Until then, only little of its data is held.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.standing.login() == Login::Accepted
    }

    /// Begins to forward a request that starts with `bytes`, if it is too long to be held.
    pub(super) fn begin_passing<S: Storage>(
        &mut self,
        bytes: &[u8],
        scratch: &mut Scratch,
        storage: &mut S,
        now: Duration,
    ) -> Result<Passage, Error> {
        let held_max = match self.is_proven() {
            true => self.config.request_held_bytes_max,
            false => self.config.stranger_held_bytes_max,
        };
        if bytes.len() < held_max {
            return Ok(Passage::Wait);
        }
        scratch.clear();
        let standing = &mut self.standing;
        let (request, taken) = match self.filter.begin(bytes, scratch, standing, now) {
            Ok(Some(begun)) => begun,
            Ok(None) => return Ok(Passage::Wait),
            Err(error) => return Ok(self.breaks(error)),
        };
        let original = bytes.get(..taken).unwrap_or_default();
        if self.streams && matches!(request.flow, Flow::Write(_)) {
            // It is unknown when it will have been sent completely, and nothing would show when it
            // is done.
            return Err(Error::Stream);
        }
        self.passing = true;
        if self.handle_request(request, original, storage, now) {
            return Ok(Passage::Taken(taken));
        }
        // It is repeated once the origin has reported whether the client is logged in.
        self.passing = false;
        Ok(Passage::Wait)
    }

    /// Forwards the bytes received so far of such a request.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Passage {
        let passed = match self.filter.pass(bytes) {
            Ok(passed) => passed,
            Err(error) => return self.breaks(error),
        };
        self.forward(bytes.get(..passed.bytes).unwrap_or_default());
        self.passing = !passed.ends;
        if passed.ends {
            self.to_server.buffer().append(&mut self.behind);
            // The request, followed by the request that proves its outcome.
            self.expected.iter_mut().rev().take(2).for_each(|last| last.partial = false);
        }
        match passed.bytes {
            0 if self.passing => Passage::Wait,
            taken => Passage::Taken(taken),
        }
    }

    /// The client breaks its protocol: the rest of what it sends is discarded.
    fn breaks(&mut self, error: wire::Error) -> Passage {
        self.broken = Some(error);
        Passage::Taken(0)
    }
}
