//! How a session gains and loses its origin connection, or ends: waiting requests are answered or
//! forwarded, leases are returned, and unanswered writes go into quarantine.

use std::{mem, time::Duration};

use super::{Hold, Reading, Session};
use crate::{
    expected::{Action, Expected},
    filter::{Ends, Filter, Hush},
    input::Input,
    key::Sent,
    lease::Outcome,
    storage::{Storage, Write},
};

/// What remains possible for a session that lost its origin connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterlife {
    /// Hits continue, and a new origin connection may replace the lost one.
    Continue,
    /// The client must be disconnected: a reply it waits for, or state it relies on, is lost.
    Close,
}

/// How the connection to the origin ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The origin closed the connection: it has not executed the request that it did not
    /// understand.
    Ended,
    /// The connection broke or was given up: requests that were sent may still be executed.
    Broken,
}

/// A write whose answer will never arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The command; "" if it is not known.
    pub command: &'static str,
    /// Scope that stays closed for the quarantine.
    pub scope: Sent,
}

impl<F: Filter> Session<F> {
    /// A connection to the origin was made. Call it before writing to it.
    pub fn origin_connected(&mut self, now: Duration) {
        let mut first = Vec::new();
        let restored = self.filter.restore(&mut first);
        if self.standing.is_detached() {
            // A proof given on another connection does not apply to this one.
            let asked = self.standing.is_asked();
            let check = if asked { None } else { self.filter.check(true, &mut first) };
            self.standing.attach(asked || check.is_some());
            if let Some(tag) = check {
                self.expected.push_front(Expected::new(tag, Action::Check { asked_at: now }));
            }
        }
        if let Some(tag) = restored {
            self.expected.push_front(Expected::new(tag, Action::Restore));
        }
        self.to_server.put_first(&first);
    }

    /// The origin could not be reached, so nothing that waits for it was ever sent: every request
    /// is answered with the protocol's own error. Ask [`Self::can_proceed`] afterwards.
    ///
    /// `why` is the reason in these errors, without a full stop.
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
                action if action.is_ours() || self.hush == Hush::On => {}
                Action::Local(answer) => out.extend_from_slice(answer),
                action => {
                    filter.unavailable(&expected.tag, why, &mut error, now);
                    out.extend_from_slice(&error);
                    if matches!(action, Action::Rewrite | Action::Observe) {
                        filter.observe(&expected.tag, &error, &mut self.standing);
                    }
                }
            }
            if expected.ends != Ends::Nothing {
                self.filter.verdict(&expected.tag, &error);
            }
            for write in expected.abandon(storage) {
                storage.write_settled(write, Outcome::Refused);
            }
        }
        self.endings = 0;
        for write in mem::take(&mut self.held) {
            storage.write_settled(write, Outcome::Refused);
        }
        self.standing.give_up();
        let held = mem::replace(&mut self.hold, Hold::No) != Hold::No;
        self.unreachable = held.then(|| why.to_owned());
        self.standing.presume(held);
        // The origin lacks state that the client has set up, and messages after the start of a
        // stream have no place in the queue.
        let keeps = self.filter.is_stateless() && !self.streams && !self.passing;
        (self.streams, self.streaming) = (false, false);
        if keeps { Afterlife::Continue } else { Afterlife::Close }
    }

    /// The connection to the origin was lost. Writes under way may have been applied or not.
    pub fn origin_lost<S: Storage>(
        &mut self,
        loss: Loss,
        storage: &mut S,
        now: Duration,
    ) -> Afterlife {
        let waiting =
            !self.expected.is_empty() || self.reading != Reading::Boundary || self.streams;
        let waiting = waiting || self.passing;
        self.abandon(loss, storage, now);
        self.to_server.clear();
        self.from_server = Input::default();
        self.standing.detach();
        self.hold = Hold::No;
        let keeps = !waiting && !self.ended && self.filter.is_stateless();
        if keeps { Afterlife::Continue } else { Afterlife::Close }
    }

    /// Ends the session and returns its leases; the scopes of unanswered writes are quarantined.
    pub fn close<S: Storage>(&mut self, storage: &mut S, now: Duration) {
        self.abandon(Loss::Broken, storage, now);
        self.parked = None;
    }

    /// The client has disconnected. Its writes may still be executed at the origin: call this,
    /// continue the origin side while [`Self::awaits_writes`], then close the session. This avoids
    /// a quarantine.
    pub fn client_gone(&mut self) {
        self.deserted = true;
        self.parked = None;
        self.from_client = Input::default();
        self.to_client.clear();
    }

    /// Whether the client has asked to be disconnected.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether a write is under way that is still to be answered, or a request that is expected to
    /// be refused but may write.
    #[must_use]
    pub fn awaits_writes(&self) -> bool {
        let awaits = |expected: &Expected<F::Tag>| {
            let writes =
                !expected.writes.is_empty() || matches!(expected.action, Action::Refused { .. });
            writes && !expected.partial
        };
        !self.held.is_empty() || self.expected.iter().any(awaits)
    }

    /// The first write lost since the last call.
    pub fn take_lost(&mut self) -> Option<Lost> {
        self.lost.take()
    }

    fn abandon<S: Storage>(&mut self, loss: Loss, storage: &mut S, now: Duration) {
        self.waiting_bytes = 0;
        self.endings = 0;
        self.queued = Vec::new();
        for expected in mem::take(&mut self.expected) {
            let name = expected.name;
            // Its reply has arrived: it was executed or refused.
            let answered = expected.action.is_proof();
            let refused = expected.partial
                || (loss == Loss::Ended
                    && matches!(expected.action, Action::Fence { known: false }));
            for write in expected.abandon(storage) {
                if answered {
                    storage.write_settled(write, Outcome::Applied);
                } else if refused {
                    storage.stats().writes_refused.add(1);
                    storage.write_settled(write, Outcome::Refused);
                } else {
                    self.lose(name, write, storage, now);
                }
            }
        }
        for fill in mem::take(&mut self.probing) {
            fill.lease.into_iter().for_each(|lease| storage.release(lease));
        }
        for write in mem::take(&mut self.held) {
            self.lose("exec", write, storage, now);
        }
    }

    pub(crate) fn lose<S: Storage>(
        &mut self,
        command: &'static str,
        write: Write,
        storage: &mut S,
        now: Duration,
    ) {
        self.lost.get_or_insert(Lost { command, scope: write.scope });
        storage.stats().writes_lost.add(1);
        storage.write_lost(write, now);
    }
}
