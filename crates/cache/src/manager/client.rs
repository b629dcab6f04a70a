//! Client Manager: answers the manipulation flow from storage; forwards the rest.

use std::time::Duration;

use smallvec::SmallVec;
use tracing::{debug, trace};

use super::verify;
use crate::{
    expected::{Action, Expected, Fill, Stated},
    filter::{self, Ends, Filter, Flow, Hush, Read, Reply, Request, States, subject},
    key::Shown,
    lease::{Character, Closed, Lease},
    session::{Hold, Reading, Session},
    stats::WhyNot,
    storage::{Answer, Grant, Question, Refusal, Storage, Write},
};

impl<F: Filter> Session<F> {
    /// Whether storage may answer reads now.
    #[inline]
    pub(crate) fn may_answer(&self) -> bool {
        !self.streams && self.hush == Hush::Off && self.unreachable.is_none()
    }

    /// Handles one request; `false` if it waits for another client's fill and must be repeated.
    pub(crate) fn handle_request<S: Storage>(
        &mut self,
        request: Request<'_, F::Tag>,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> bool {
        match &request.flow {
            Flow::Read(_) | Flow::ReadMany(_) if self.streams || self.hush != Hush::Off => {
                storage.stats().why_not(WhyNot::Stream);
            }
            Flow::Read(read) => return self.read(read, &request.tag, original, storage, now),
            Flow::ReadMany(read) => {
                self.read_many(read, request.tag, original, storage, now);
                return true;
            }
            Flow::Bypass(reason) => {
                storage.stats().why_not(*reason);
                let (connection, command, why_not) = (self.ticket.0, self.command, reason.name());
                debug!(connection, command, why_not, "miss");
            }
            Flow::NeedsLogin => return self.await_login(request, original, storage, now),
            Flow::NeedsReplies => {
                self.hold = Hold::Waits;
                return false;
            }
            Flow::Write(write) => {
                let (connection, command, scopes) = (self.ticket.0, self.command, &write.scopes);
                debug!(connection, command, scopes = scopes.len(), "write");
            }
            Flow::Coordination => {
                debug!(connection = self.ticket.0, command = self.command, "forwarded");
            }
        }
        self.forward_request(request, original, storage, now);
        true
    }

    /// A read of one key; `false` if it waits for another client's fill and must be repeated.
    #[inline]
    pub(crate) fn read<S: Storage>(
        &mut self,
        read: &Read<'_>,
        tag: &F::Tag,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> bool {
        storage.stats().busiest.see(&read.key, read.place, now);
        let sampled = self.is_sampled();
        let Some(principal) = self.standing.principal(now) else {
            self.read_unproven(read, tag, original, storage, now);
            return true;
        };
        let question =
            Question { key: read.key, variant: read.variant, principal: Some(principal) };
        // Not `has_turn`, which would borrow the principal too.
        let first = self.expected.is_empty() && self.reading == Reading::Boundary;
        // A client with other outstanding replies does not wait, because that would delay them.
        let ticket = (first && !self.waited).then_some(self.ticket);
        let mut later = Vec::new();
        let out = if first { self.to_client.buffer() } else { &mut later };
        let filter = &mut self.filter;
        let mut stored = 0;
        let hit = |packed: &[u8]| match sampled {
            true => stored = verify::hash(filter, read.key, read.variant, packed),
            false => filter.answer(tag, read.key.bytes, packed, out),
        };
        let answer = storage.read(question, ticket, now, hit);
        let (connection, command) = (self.ticket.0, self.command);
        trace!(connection, command, key = %Shown(read.key.bytes), ?answer, "storage: asked");
        match answer {
            Answer::Hit if sampled => {
                debug!(connection, command, key = %Shown(read.key.bytes), "hit, to be verified");
                storage.stats().why_not(WhyNot::Verified);
                self.verify((read, stored), tag, original, storage, now);
            }
            Answer::Hit => {
                debug!(connection, command, key = %Shown(read.key.bytes), "hit");
                storage.stats().hits.add(1);
                match (first, self.waited) {
                    (true, false) => self.hit_at(now),
                    (true, true) => storage.stats().coalesced.add(1),
                    (false, waited) => {
                        storage.stats().coalesced.add(u64::from(waited));
                        self.answer_later(tag.clone(), later);
                    }
                }
            }
            Answer::Pending(_) => {
                debug!(connection, command, key = %Shown(read.key.bytes), "waits for a fill");
                self.parked = Some(now + self.config.coalesce_wait_max);
                return false;
            }
            Answer::Miss(Err(Refusal::Observed)) => {
                self.observe(read, tag, original, ticket.is_some(), storage, now);
            }
            Answer::Miss(granted) => {
                let reason = granted
                    .as_ref()
                    .map_or_else(|refusal| (*refusal).into(), |_| WhyNot::NotStored);
                let why_not = reason.name();
                debug!(connection, command, key = %Shown(read.key.bytes), why_not, "miss");
                storage.stats().why_not(reason);
                let fillable = self.prepare(read, granted.ok(), storage);
                self.fetch(read, fillable, tag, original, now);
            }
        }
        true
    }

    /// Passes a read whose answer may be stored if it is fillable.
    pub(super) fn fetch(
        &mut self,
        read: &Read<'_>,
        fillable: Option<Fillable<F::Tag>>,
        tag: &F::Tag,
        original: &[u8],
        now: Duration,
    ) {
        self.forward(original);
        let end = self.filter.delimit(tag, self.to_server.buffer());
        let Some(Fillable { lease, probe, probe_tag, verifies }) = fillable else {
            self.expect_read(tag.clone(), Action::Forward, now);
            return self.expect_end(end);
        };
        let fill = Fill::new(read, Some(lease), probe_tag.is_some(), now, self.ttl_of(read));
        let fill = Box::new(Fill { verifies, ..fill });
        self.expect_read(tag.clone(), Action::Fill(fill), now);
        self.expect_end(end);
        if let Some(probe_tag) = probe_tag {
            self.forward(&probe);
            self.expect(probe_tag, Action::Probe { asked_at: now });
        }
    }

    /// Longest time for which the reply to `read` may be served. Called when its lease is taken: if
    /// a ttl is shortened after that, the lease is revoked.
    pub(super) fn ttl_of(&self, read: &Read<'_>) -> Duration {
        self.filter.rules().current().ttl_of(&read.subject()).0
    }

    /// Prepares the probe that is sent with a read so that its reply can be stored; `None` if it
    /// cannot be stored.
    pub(super) fn prepare<S: Storage>(
        &mut self,
        read: &Read<'_>,
        grant: Option<Grant>,
        storage: &mut S,
    ) -> Option<Fillable<F::Tag>> {
        let Grant { lease, character } = grant?;
        let mut probe = Vec::new();
        match self.filter.probe(read, character, &mut probe) {
            Ok(probe_tag) => Some(Fillable { lease, probe, probe_tag, verifies: None }),
            Err(reason) => {
                storage.stats().not_filled(reason);
                storage.release(lease);
                None
            }
        }
    }

    /// Handles a read by a connection whose rights the origin has not reported. If a check was
    /// sent, its reply arrives before that of the read, which can then be stored.
    #[cold]
    fn read_unproven<S: Storage>(
        &mut self,
        read: &Read<'_>,
        tag: &F::Tag,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) {
        storage.stats().why_not(WhyNot::Unproven);
        let (connection, command, why_not) = (self.ticket.0, self.command, "unproven");
        debug!(connection, command, key = %Shown(read.key.bytes), why_not, "miss");
        self.check_if_due(now);
        let mut grant = None;
        if self.standing.is_asked() {
            let question = Question { key: read.key, variant: read.variant, principal: None };
            if let Answer::Miss(Ok(granted)) = storage.read(question, None, now, |_| {}) {
                grant = Some(granted);
            }
        }
        let grant = self.granted(read, grant, (original, &mut None), storage, now);
        let fillable = self.prepare(read, grant, storage);
        self.fetch(read, fillable, tag, original, now);
    }

    pub(super) fn answer_later(&mut self, tag: F::Tag, answer: Vec<u8>) {
        self.expect(tag, Action::Local(answer));
    }

    /// Forwards every request except reads that are looked up in storage.
    fn forward_request<S: Storage>(
        &mut self,
        request: Request<'_, F::Tag>,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) {
        if F::CHECKS_EARLY || !matches!(request.flow, Flow::Coordination) {
            self.check_if_due(now);
        }
        let Request { flow, tag, reply, ends } = request;
        let (mut probe, mut probe_tag) = (Vec::new(), None);
        let mut expected = Expected::new(tag, Action::of(reply));
        (expected.ends, expected.partial) = (ends, self.passing);
        // The scope is closed before the bytes are sent: the origin must not apply a write whose
        // old value storage still serves.
        if let Flow::Write(write) = flow {
            expected.name = write.name;
            expected.writes = self.send_writes(&write, storage);
            if let Some(states) = write.states
                && states.len() == expected.writes.len()
                && reply == Reply::Plain
                && self.may_read_stated(&states)
            {
                probe_tag = self.probe_stated(&states, &expected.writes, &mut probe);
                let (values, probed) = (self.stated(states, now), probe_tag.is_some());
                expected.action = Action::State { values, probed };
            }
        }
        if ends != Ends::Nothing {
            self.end_transaction(&mut expected, storage);
        }
        if matches!(reply, Reply::Hush(_)) && !self.streams {
            self.filter.keep_answering(self.to_server.buffer());
        } else {
            self.forward(original);
        }
        if self.streams || !self.is_answered(reply, &mut expected) {
            // Nothing will show when it is done.
            for write in expected.writes {
                self.lose(expected.name, write, storage, now);
            }
            return;
        }
        self.ended |= reply == Reply::Last;
        self.waiting_bytes += expected.action.held_bytes();
        let out = if self.passing { &mut self.behind } else { self.to_server.buffer() };
        let end = self.filter.delimit(&expected.tag, out);
        let proof = self.filter.proof(&expected.tag, out);
        let (name, partial) = (expected.name, expected.partial);
        self.expected.push_back(expected);
        self.expect_end(end);
        if let Some(tag) = probe_tag {
            self.forward(&probe);
            self.expect(tag, Action::ProbeStated(None));
        }
        if let Some(tag) = proof {
            let proof = Expected::new(tag, Action::Proof);
            self.expected.push_back(Expected { name, partial, ..proof });
        }
        if reply == Reply::Stream {
            self.streams = true;
            self.standing.presume(true);
            self.advance_queue();
        }
    }

    /// Prepares the probe that is sent with a write so that what it states can be stored.
    fn probe_stated(
        &mut self,
        states: &[States<'_>],
        writes: &[Write],
        probe: &mut Vec<u8>,
    ) -> Option<F::Tag> {
        let unknown = writes.iter().find(|write| write.character == Character::Unknown)?;
        self.filter.probe_stated(states.first()?.place, unknown.character, probe)
    }

    /// Whether the connection may read what a write states, or its rights are not known yet.
    fn may_read_stated(&self, states: &[States<'_>]) -> bool {
        let all = || states.iter().all(|states| self.filter.may_read(states.place));
        self.standing.receiver().is_none_or(|writer| writer.reads_everything() || all())
    }

    /// Called after the scope was closed: as for a lease.
    fn stated(&mut self, states: Box<[States<'_>]>, now: Duration) -> Box<[Stated]> {
        let rules = self.filter.rules().current();
        let writer = self.standing.receiver().filter(|writer| !writer.reads_everything());
        let stated = states.into_iter().map(|states| {
            let (ttl, _) = rules.ttl_of(&subject(states.key, states.place));
            Stated {
                key: states.key.into(),
                variants: states.variants.into_iter().map(SmallVec::from_slice).collect(),
                answer: states.answer,
                expires_at: now + states.lives.map_or(ttl, |lives| lives.min(ttl)),
                reader: writer.cloned(),
            }
        });
        stated.collect()
    }

    /// Returns whether a reply settles the request. If none does, a fence is sent after it.
    fn is_answered(&mut self, reply: Reply, expected: &mut Expected<F::Tag>) -> bool {
        if !matches!(reply, Reply::Never | Reply::Unknown) {
            return true;
        }
        if expected.writes.is_empty() {
            return false;
        }
        // After the whole request, of which only the beginning may have arrived.
        let out = if self.passing { &mut self.behind } else { self.to_server.buffer() };
        let Some(tag) = self.filter.fence(out) else { return false };
        expected.tag = tag;
        true
    }

    fn send_writes<S: Storage>(
        &mut self,
        write: &filter::Write<'_>,
        storage: &mut S,
    ) -> SmallVec<[Write; 1]> {
        write
            .scopes
            .iter()
            .map(|&scope| {
                storage.stats().wrote(scope);
                storage.write_sent(scope.into())
            })
            .collect()
    }

    pub(crate) fn forward(&mut self, bytes: &[u8]) {
        trace!(connection = self.ticket.0, bytes = bytes.len(), "manager: sent to the origin");
        self.to_server.buffer().extend_from_slice(bytes);
    }

    /// Expects the reply to the request that [`Filter::delimit`] has written, if any.
    pub(super) fn expect_end(&mut self, tag: Option<F::Tag>) {
        if let Some(tag) = tag {
            let end = Expected::new(tag, Action::Fence { known: true });
            self.expected.push_back(Expected { partial: self.passing, ..end });
        }
    }

    /// Expects the reply to a read by key that is forwarded now.
    pub(super) fn expect_read(&mut self, tag: F::Tag, action: Action, now: Duration) {
        self.expect(tag, action);
        if let Some(read) = self.expected.back_mut() {
            read.asked_at = Some(now);
        }
    }

    pub(super) fn expect(&mut self, tag: F::Tag, action: Action) {
        self.waiting_bytes += action.held_bytes();
        self.expected.push_back(Expected::new(tag, action));
    }
}

/// A read whose reply may be stored.
pub(super) struct Fillable<T> {
    pub(super) lease: Lease,
    /// The request that asks what must be known first, and its tag.
    pub(super) probe: Vec<u8>,
    pub(super) probe_tag: Option<T>,
    /// Hash of what is stored: the reply is compared with it, and not stored.
    pub(super) verifies: Option<u64>,
}

impl From<Refusal> for WhyNot {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotHot => Self::NotHot,
            Refusal::Observed => Self::Observed,
            Refusal::Upgrading => Self::Upgrading,
            Refusal::Closed(Closed::WritePending) => Self::WritePending,
            Refusal::Closed(Closed::Quarantine) => Self::Quarantine,
            // Another session fills it; for this read it is a miss.
            Refusal::Closed(Closed::FillPending) => Self::NotStored,
            Refusal::Closed(Closed::Derived) => Self::Derived,
            Refusal::Closed(Closed::NamespaceLimit) => Self::NamespaceLimit,
        }
    }
}
