//! Settles writes when their replies arrive, and handles writes that the origin queues inside
//! MULTI.
//!
//! A write that the origin has queued has done nothing yet: its scope opens again, and is closed
//! once more before the request that executes it is sent. If that request is already under way, the
//! scope stays closed until it is answered.

use std::{mem, time::Duration};

use smallvec::SmallVec;

use crate::{
    expected::{Action, Expected, Stated},
    filter::{Ends, Filter, Kept, Reply, Verdict},
    key::Sent,
    lease::{Character, Outcome},
    principal::Principal,
    session::Session,
    stats::NotFilled,
    storage::{Storage, Write},
};

impl<F: Filter> Session<F> {
    /// Closes again what a transaction is about to write.
    pub(crate) fn end_transaction<S: Storage>(
        &mut self,
        expected: &mut Expected<F::Tag>,
        storage: &mut S,
    ) {
        self.endings += 1;
        if expected.ends == Ends::Executes {
            expected.name = "exec";
            expected.writes.extend(self.queued.iter().map(|&scope| storage.write_sent(scope)));
        }
    }

    /// Settles the writes of a request by its reply.
    pub(crate) fn settle<S: Storage>(
        &mut self,
        mut writes: SmallVec<[Write; 1]>,
        ends: Ends,
        verdict: Verdict,
        storage: &mut S,
    ) {
        if ends != Ends::Nothing {
            self.endings -= 1;
            writes.extend(self.held.drain(..));
            if verdict == Verdict::Unclear {
                // It may still be carried out by the next request that ends a transaction.
                writes.iter().for_each(|write| self.queue(write.scope));
            } else {
                self.queued = Vec::new();
            }
        }
        match verdict {
            Verdict::Queued if self.endings > 0 => self.hold(writes, storage),
            Verdict::Queued => {
                for write in writes {
                    self.queue(write.scope);
                    storage.write_settled(write, Outcome::Refused);
                }
            }
            Verdict::Refused => {
                storage.stats().writes_refused.add(writes.len() as u64);
                writes.into_iter().for_each(|write| storage.write_settled(write, Outcome::Refused));
            }
            Verdict::Applied | Verdict::Unclear | Verdict::Claimed => {
                writes.into_iter().for_each(|write| storage.write_settled(write, Outcome::Applied));
            }
        }
    }

    /// Settles accepted writes and stores the values that they state, or leaves that to the reply
    /// to the probe that was sent after them.
    pub(crate) fn settle_with<S: Storage>(
        &mut self,
        writes: &mut SmallVec<[Write; 1]>,
        values: Box<[Stated]>,
        probed: bool,
        storage: &mut S,
        now: Duration,
    ) {
        let may_read = |of: &&Principal| values.iter().all(|value| value.is_readable_by(of));
        let Some(receiver) = self.standing.receiver().filter(may_read) else { return };
        if probed {
            if let Some(probe) = self.expected.front_mut() {
                probe.writes = mem::take(writes);
                probe.action = Action::ProbeStated(Some(values));
                self.waiting_bytes += probe.action.held_bytes();
            }
            return;
        }
        for (write, value) in writes.drain(..).zip(&values) {
            storage.write_settled_with(write, &value.given_to(receiver, now), now);
        }
    }

    /// Settles writes by the reply to a probe: what they state is stored if the probe allows it.
    pub(crate) fn probed_stated<S: Storage>(
        &mut self,
        reply: &[u8],
        values: Option<Box<[Stated]>>,
        writes: &mut SmallVec<[Write; 1]>,
        storage: &mut S,
        now: Duration,
    ) {
        let Some(values) = values else { return };
        let kept = Kept { variant: &[], packed: &[] };
        let probed = self.filter.probed(reply, kept, now);
        let character = match &probed {
            Ok(probed) => Some(probed.character),
            Err(NotFilled::Derived) => Some(Character::Derived),
            Err(_) => None,
        };
        if let Some(character) = character {
            writes.iter().for_each(|write| storage.learn_by(write, character));
        }
        match probed {
            Ok(_) => self.settle_with(writes, values, false, storage, now),
            Err(reason) => storage.stats().not_filled(reason),
        }
        for write in writes.drain(..) {
            storage.write_settled(write, Outcome::Applied);
        }
    }

    /// Whether the origin reads nothing after the last request until it has answered it. Then
    /// nothing is sent after it: a write that the origin cannot have read must not keep a scope
    /// closed.
    pub(crate) fn is_blocked(&self) -> bool {
        self.expected.back().is_some_and(|last| {
            matches!(last.action, Action::Fence { known: false } | Action::Confirmed(_))
                || F::ONE_AT_A_TIME
                || self.filter.waits(&last.tag)
        })
    }

    /// Notes what the origin has queued; too much of it counts as everything of the origin.
    fn queue(&mut self, scope: Sent) {
        let everything = Sent::Origin(scope.origin());
        if self.queued.len() >= self.config.held_writes_max {
            self.queued.clear();
            self.queued.push(everything);
        } else if self.queued.first() != Some(&everything) {
            self.queued.push(scope);
        }
    }

    /// Keeps queued writes closed until the end of their transaction, which is on its way, is
    /// answered.
    fn hold<S: Storage>(&mut self, writes: SmallVec<[Write; 1]>, storage: &mut S) {
        self.held.extend(writes);
        let Some(first) = self.held.first() else { return };
        if self.held.len() > self.config.held_writes_max {
            let everything = storage.write_sent(Sent::Origin(first.scope.origin()));
            for write in mem::replace(&mut self.held, vec![everything]) {
                // It is covered by everything, which drops it or serves it again.
                storage.write_settled(write, Outcome::Refused);
            }
        }
    }
}

impl Action {
    /// Returns the default handling of a reply.
    pub(crate) fn of(reply: Reply) -> Self {
        match reply {
            Reply::Plain | Reply::Last => Self::Forward,
            Reply::Observed => Self::Observe,
            Reply::Rewritten => Self::Rewrite,
            Reply::Stream => Self::Stream,
            Reply::Confirmed(count) => Self::Confirmed(count),
            Reply::Hush(hush) => Self::Hush(hush),
            Reply::Never => Self::Fence { known: true },
            Reply::Unknown => Self::Fence { known: false },
        }
    }
}
