//! How a session loses its origin, or ends: what waits is answered or let go, leases go back, and
//! writes without an answer go into quarantine.

use std::{mem, time::Duration};

use super::{Reading, Session};
use crate::{
    expected::Action,
    filter::Filter,
    input::Input,
    storage::{Storage, Write},
};

/// What is left of a session that lost its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterlife {
    /// Hits go on, and a new origin connection may take over.
    Continue,
    /// The client must be let go: a reply it waits for, or state it relies on, is gone.
    Close,
}

impl<F: Filter> Session<F> {
    /// The origin could not be reached, so nothing that waits for it was ever sent: every request
    /// is answered with the protocol's own error. Ask [`Self::can_proceed`] afterwards.
    ///
    /// `why` is what they are told, without a full stop.
    pub fn origin_unreachable<S: Storage>(
        &mut self,
        why: &str,
        storage: &mut S,
        now: Duration,
    ) -> Afterlife {
        self.to_server.clear();
        self.waiting_bytes = 0;
        let mut error = Vec::new();
        for expected in mem::take(&mut self.expected) {
            let (filter, out) = (&mut self.filter, self.to_client.buffer());
            error.clear();
            match &expected.action {
                Action::Local(answer) => out.extend_from_slice(answer),
                Action::Probe { .. } | Action::Restore => {}
                action => {
                    filter.unavailable(&expected.tag, why, &mut error, now);
                    out.extend_from_slice(&error);
                    if matches!(action, Action::Rewrite | Action::Observe) {
                        filter.observe(&expected.tag, &error);
                    }
                }
            }
            for write in expected.abandon(storage) {
                storage.write_settled(write);
            }
        }
        for write in mem::take(&mut self.held) {
            storage.write_settled(write);
        }
        // What the client believes to have set up, no origin knows of; and what came behind the
        // start of a stream has no place in the queue.
        let keeps = self.filter.is_stateless() && !self.streams && !self.passing;
        (self.streams, self.streaming) = (false, false);
        if keeps { Afterlife::Continue } else { Afterlife::Close }
    }

    /// The connection to the origin was lost. Writes under way may have been applied or not.
    pub fn origin_lost<S: Storage>(&mut self, storage: &mut S, now: Duration) -> Afterlife {
        let waiting =
            !self.expected.is_empty() || self.reading != Reading::Boundary || self.streams;
        let waiting = waiting || self.passing;
        self.abandon(storage, now);
        self.to_server.clear();
        self.from_server = Input::default();
        if waiting || !self.filter.is_stateless() { Afterlife::Close } else { Afterlife::Continue }
    }

    /// The session is over: gives back its leases; writes without an answer go into quarantine.
    pub fn close<S: Storage>(&mut self, storage: &mut S, now: Duration) {
        self.abandon(storage, now);
        self.parked = None;
    }

    fn abandon<S: Storage>(&mut self, storage: &mut S, now: Duration) {
        self.waiting_bytes = 0;
        for expected in mem::take(&mut self.expected) {
            for write in expected.abandon(storage) {
                self.lose(write, storage, now);
            }
        }
        for fill in mem::take(&mut self.probing) {
            fill.lease.into_iter().for_each(|lease| storage.release(lease));
        }
        for write in mem::take(&mut self.held) {
            self.lose(write, storage, now);
        }
    }

    pub(crate) fn lose<S: Storage>(&self, write: Write, storage: &mut S, now: Duration) {
        storage.stats().writes_lost.add(1);
        storage.write_lost(write, now);
    }
}
