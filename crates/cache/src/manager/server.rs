//! Server Manager: forwards responses first, then fills storage.

use std::{mem, time::Duration};

use smallvec::SmallVec;
use tracing::{debug, trace};

use super::observe;
use crate::{
    Error,
    expected::{Action, Expected, Fill},
    filter::{Combines, Cut, Ends, Filter, Hush, Kept, VERDICT_BYTES, Verdict},
    session::{Captured, Reading, Session},
    stats::NotFilled,
    storage::{Storage, Write},
};

impl<F: Filter> Session<F> {
    /// Handles a piece of the origin's byte stream.
    ///
    /// # Errors
    /// A reply that must be withheld until it is complete exceeds the limit.
    pub(crate) fn handle_part<S: Storage>(
        &mut self,
        part: &[u8],
        cut: Cut,
        storage: &mut S,
        now: Duration,
    ) -> Result<(), Error> {
        let Some(seen) = self.expects(cut) else {
            // A push, or an unsolicited reply (a server that refuses connections sends an error
            // first).
            self.to_client.buffer().extend_from_slice(part);
            let whole = cut.ends && self.reading == Reading::Boundary;
            self.reading = if cut.ends { Reading::Boundary } else { Reading::Unasked };
            if whole {
                self.confirm(part);
            }
            if cut.ends {
                self.advance_queue();
            }
            return Ok(());
        };
        if seen.passes && self.hush == Hush::Off {
            self.to_client.buffer().extend_from_slice(part);
        }
        let whole_at_once = cut.ends && self.reading == Reading::Boundary;
        self.reading = if cut.ends { Reading::Boundary } else { Reading::Answer };
        if whole_at_once {
            self.finish(Some(part), cut.continues, storage, now);
            return Ok(());
        }
        self.capture(part, seen)?;
        if cut.ends {
            let captured = mem::take(&mut self.captured);
            let reply = (!captured.overflowed).then_some(captured.bytes.as_slice());
            self.finish(reply, cut.continues, storage, now);
        }
        Ok(())
    }

    /// The origin has sent `message` unasked; the oldest request may wait for it.
    fn confirm(&mut self, message: &[u8]) {
        let Some(Expected { tag, action: Action::Confirmed(left), .. }) = self.expected.front_mut()
        else {
            return;
        };
        if self.filter.confirms(tag, message) {
            *left -= 1;
            if *left == 0 {
                self.expected.pop_front();
                self.hear();
            }
        }
    }

    /// Returns how to handle a piece of a reply; `None` if the piece belongs to no reply.
    fn expects(&mut self, cut: Cut) -> Option<Seen> {
        let front = self.expected.front();
        let front = front.filter(|front| !matches!(front.action, Action::Local(_)));
        let seen = front.map(|front| front.seen(F::COMBINES));
        match self.reading {
            Reading::Boundary => seen.filter(|_| cut.answers),
            Reading::Unasked => None,
            Reading::Answer if cut.answers => seen,
            Reading::Answer => {
                // The message begins with an attribute, which belongs to the push after it.
                let captured = mem::take(&mut self.captured);
                if seen.is_some_and(|seen| !seen.passes) {
                    self.to_client.buffer().extend_from_slice(&captured.bytes);
                }
                None
            }
        }
    }

    fn capture(&mut self, part: &[u8], seen: Seen) -> Result<(), Error> {
        let length = self.captured.bytes.len() + part.len();
        let limit = match seen.capture {
            Capture::Never => return Ok(()),
            Capture::Head => {
                let room = VERDICT_BYTES.saturating_sub(self.captured.bytes.len()).min(part.len());
                self.captured.bytes.extend_from_slice(part.get(..room).unwrap_or_default());
                return Ok(());
            }
            Capture::IfSmall | Capture::Splice => self.config.captured_bytes_max,
            Capture::Always => self.config.withheld_bytes_max,
        };
        if length <= limit && !self.captured.overflowed {
            self.captured.bytes.extend_from_slice(part);
            return Ok(());
        }
        if let Capture::Splice = seen.capture {
            if self.captured.overflowed {
                self.go_on_splicing(part);
            } else {
                self.begin_to_splice(part);
            }
            return Ok(());
        }
        self.captured = Captured { bytes: Vec::new(), overflowed: true };
        match seen.capture {
            Capture::Always => Err(Error::Withheld { limit, got: length }),
            Capture::Never | Capture::Head | Capture::IfSmall | Capture::Splice => Ok(()),
        }
    }

    /// Handles a complete reply; `reply` is `None` if it was too large to be kept aside.
    fn finish<S: Storage>(
        &mut self,
        reply: Option<&[u8]>,
        continues: bool,
        storage: &mut S,
        now: Duration,
    ) {
        let whole = reply.unwrap_or_default();
        if continues {
            if let Some(Expected { tag, action: Action::Rewrite, .. }) = self.expected.front() {
                let (out, standing) = (self.to_client.buffer(), &mut self.standing);
                self.filter.rewrite(tag, whole, out, standing, now);
            }
            return;
        }
        let Some(expected) = self.expected.pop_front() else { return };
        self.waiting_bytes = self.waiting_bytes.saturating_sub(expected.action.held_bytes());
        let Expected { tag, action, mut writes, ends, name, asked_at, .. } = expected;
        if let Some(asked_at) = asked_at {
            storage.stats().miss_latency.record(now.saturating_sub(asked_at), 1);
        }
        trace!(connection = self.ticket.0, bytes = whole.len(), "origin: reply");
        let tag = &tag;
        let (heard, ours) = (self.to_client.len(), action.is_ours());
        let fence = matches!(action, Action::Fence { .. });
        match action {
            Action::Forward
            | Action::Fence { .. }
            | Action::Proof
            | Action::Confirmed(_)
            | Action::Local(_)
            | Action::Stream => {}
            Action::Foreseen(hit) => observe::took(storage, hit, asked_at, now),
            Action::Hush(hush) => return self.hush(hush, tag, whole),
            Action::Observe => {
                self.filter.observe(tag, whole, &mut self.standing);
                self.filter.remember(tag, whole, now);
                self.look_again();
            }
            Action::Restore => self.filter.observe(tag, whole, &mut self.standing),
            Action::Check { asked_at } => self.checked(tag, whole, asked_at, now),
            Action::Refused { streams } => self.refused(tag.clone(), whole, streams, storage),
            Action::Rewrite => {
                let (out, standing) = (self.to_client.buffer(), &mut self.standing);
                self.filter.rewrite(tag, whole, out, standing, now);
                self.look_again();
            }
            Action::Fill(fill) => self.fill(tag, *fill, reply, storage, now),
            Action::Probe { asked_at } => self.probed(whole, asked_at, storage, now),
            Action::Merge(merge) => self.merge(tag, *merge, reply, storage, now),
            Action::State { values, probed } => {
                if self.filter.accepts(tag, whole) {
                    self.settle_with(&mut writes, values, probed, storage, now);
                }
            }
            Action::ProbeStated(values) => {
                self.probed_stated(whole, values, &mut writes, storage, now);
            }
        }
        if !writes.is_empty() || ends != Ends::Nothing {
            // A fence only shows that the origin has processed the write.
            let verdict = if fence { Verdict::Applied } else { self.filter.verdict(tag, whole) };
            let (connection, command) = (self.ticket.0, name);
            debug!(connection, command, scopes = writes.len(), ?verdict, "write answered");
            self.conclude(writes, ends, verdict, storage);
        }
        if self.hush != Hush::Off && !ours {
            self.to_client.truncate(heard);
            self.hear();
        }
        self.advance_queue();
    }

    /// Settles writes by their reply, or leaves them to the request sent after them as proof.
    fn conclude<S: Storage>(
        &mut self,
        writes: SmallVec<[Write; 1]>,
        ends: Ends,
        verdict: Verdict,
        storage: &mut S,
    ) {
        match self.expected.front_mut() {
            Some(proof) if verdict == Verdict::Claimed && proof.action.is_proof() => {
                proof.writes = writes;
            }
            _ => self.settle(writes, ends, verdict, storage),
        }
        if ends != Ends::Nothing {
            self.look_again();
        }
    }

    /// The client has chosen the replies that it wants, and the origin was asked for all.
    fn hush(&mut self, hush: Hush, tag: &F::Tag, reply: &[u8]) {
        let accepted = self.filter.accepts(tag, reply);
        let passes = !accepted || hush == Hush::Off;
        match (accepted, hush, self.hush) {
            (false, ..) | (true, Hush::Next, Hush::On) => self.hear(),
            (true, hush, _) => self.hush = hush,
        }
        if passes && self.hush == Hush::Off {
            self.to_client.buffer().extend_from_slice(reply);
        }
        self.advance_queue();
    }

    /// A reply that the client did not want was discarded.
    pub(crate) fn hear(&mut self) {
        if self.hush == Hush::Next {
            self.hush = Hush::Off;
        }
    }

    pub(crate) fn fill<S: Storage>(
        &mut self,
        tag: &F::Tag,
        mut fill: Fill,
        reply: Option<&[u8]>,
        storage: &mut S,
        now: Duration,
    ) {
        if fill.verifies.is_some() {
            return self.verified(tag, fill, reply, storage, now);
        }
        let key = fill.key.borrow();
        let admitted = match reply {
            Some(reply) => self.filter.admit(tag, key.bytes, reply, &mut fill.packed),
            None => Err(NotFilled::TooLarge),
        };
        if let Err(reason) = admitted
            && let Some(lease) = fill.lease.take()
        {
            storage.stats().not_filled(reason);
            storage.release(lease);
        }
        if fill.probed {
            self.probing.push_back(fill);
        } else {
            fill.store(self.standing.receiver(), None, storage, now);
        }
    }

    fn probed<S: Storage>(
        &mut self,
        reply: &[u8],
        asked_at: Duration,
        storage: &mut S,
        now: Duration,
    ) {
        let Some(mut fill) = self.probing.pop_front() else { return };
        let kept = Kept { variant: &fill.variant, packed: &fill.packed };
        let probed = self.filter.probed(reply, kept, asked_at);
        let Some(lease) = fill.lease.take() else { return };
        match probed {
            Ok(probed) => {
                storage.learn(&lease, probed.character);
                fill.lease = Some(lease);
                fill.store(self.standing.receiver(), probed.expires_at, storage, now);
            }
            Err(reason) => {
                if reason == NotFilled::Derived {
                    storage.learn(&lease, crate::lease::Character::Derived);
                }
                storage.stats().not_filled(reason);
                storage.release(lease);
            }
        }
    }

    /// Sends the local answers that are now at the front of the queue, and starts a stream that is
    /// at the front.
    pub(crate) fn advance_queue(&mut self) {
        if self.reading != Reading::Boundary {
            return;
        }
        while let Some(Expected { action: Action::Local(answer), .. }) = self.expected.front() {
            if self.hush == Hush::Off {
                self.to_client.buffer().extend_from_slice(answer);
            }
            self.waiting_bytes = self.waiting_bytes.saturating_sub(answer.len());
            self.expected.pop_front();
            self.hear();
        }
        self.streaming =
            matches!(self.expected.front(), Some(Expected { action: Action::Stream, .. }));
    }
}

/// Handling of the bytes of a reply while they arrive.
#[derive(Clone, Copy)]
struct Seen {
    /// The bytes pass to the client at once.
    passes: bool,
    capture: Capture,
}

/// The part of a reply that is kept aside until it is complete.
#[derive(Clone, Copy)]
enum Capture {
    Never,
    /// The whole reply, unless it is large: an incomplete reply is never stored.
    IfSmall,
    /// The beginning only, which contains the outcome of a write.
    Head,
    /// The whole reply, unless it is large: then the rest passes, with stored answers inserted.
    Splice,
    /// The whole reply, whatever its size.
    Always,
}

impl<T> Expected<T> {
    fn seen(&self, combines: Combines) -> Seen {
        let plain = self.writes.is_empty() && self.ends == Ends::Nothing;
        let (passes, capture) = match &self.action {
            Action::Forward if !plain => (true, Capture::Head),
            Action::Forward
            | Action::Foreseen(_)
            | Action::Confirmed(_)
            | Action::Stream
            | Action::Local(_) => (true, Capture::Never),
            Action::Fill(_) | Action::State { .. } => (true, Capture::IfSmall),
            Action::Merge(merge) if !merge.is_partial() => (true, Capture::IfSmall),
            Action::Merge(_) if combines == Combines::Whole => (false, Capture::Always),
            Action::Merge(_) => (false, Capture::Splice),
            Action::Observe => (true, Capture::Always),
            Action::Fence { .. } | Action::Proof => (false, Capture::Head),
            Action::Rewrite
            | Action::Hush(_)
            | Action::Restore
            | Action::Check { .. }
            | Action::Refused { .. }
            | Action::ProbeStated(_)
            | Action::Probe { .. } => (false, Capture::Always),
        };
        Seen { passes, capture }
    }
}

impl Action {
    /// Whether it answers a request of the cache itself.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(
            self,
            Self::Fence { .. }
                | Self::Proof
                | Self::Probe { .. }
                | Self::ProbeStated(_)
                | Self::Restore
                | Self::Check { .. }
        )
    }

    /// Whether its reply shows if the write before it was refused.
    pub(crate) fn is_proof(&self) -> bool {
        matches!(self, Self::Proof)
    }
}
