//! Client Manager: the manipulation flow meets storage; the rest is forwarded.

use std::time::Duration;

use smallvec::SmallVec;

use crate::{
    expected::{Action, Expected, Fill, Merge, Part, Stated},
    filter::{self, Ends, Filter, Flow, Hush, Read, ReadMany, Reply, Request},
    lease::{Closed, Lease},
    session::{Hold, Reading, Session},
    stats::WhyNot,
    storage::{Answer, Grant, Question, Refusal, Storage, Write},
};

impl<F: Filter> Session<F> {
    /// May storage answer reads now?
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
            Flow::Bypass(reason) => storage.stats().why_not(*reason),
            Flow::NeedsLogin => return self.await_login(request, original, storage, now),
            Flow::NeedsReplies => {
                self.hold = Hold::Waits;
                return false;
            }
            Flow::Write(_) | Flow::Coordination => {}
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
        let Some(principal) = self.standing.principal(now) else {
            self.read_unproven(read, tag, original, storage, now);
            return true;
        };
        let question =
            Question { key: read.key, variant: read.variant, principal: Some(principal) };
        // Not `has_turn`, which would borrow the principal too.
        let first = self.expected.is_empty() && self.reading == Reading::Boundary;
        // A client with other replies outstanding does not wait: it would hold those up.
        let ticket = (first && !self.waited).then_some(self.ticket);
        let mut later = Vec::new();
        let out = if first { self.to_client.buffer() } else { &mut later };
        let filter = &mut self.filter;
        let hit = |packed: &[u8]| filter.answer(tag, read.key.bytes, packed, out);
        match storage.read(question, ticket, now, hit) {
            Answer::Hit => {
                storage.stats().hits.add(1);
                if self.waited {
                    storage.stats().coalesced.add(1);
                }
                if !first {
                    self.answer_later(tag.clone(), later);
                }
            }
            Answer::Pending(_) => {
                self.parked = Some(now + self.config.coalesce_wait_max);
                return false;
            }
            Answer::Miss(granted) => {
                let reason = granted
                    .as_ref()
                    .map_or_else(|refusal| (*refusal).into(), |_| WhyNot::NotStored);
                storage.stats().why_not(reason);
                let fillable = self.prepare(read, granted.ok(), storage);
                self.fetch(read, fillable, tag, original, now);
            }
        }
        true
    }

    /// Passes a read whose answer may be stored if it is fillable.
    fn fetch(
        &mut self,
        read: &Read<'_>,
        fillable: Option<Fillable<F::Tag>>,
        tag: &F::Tag,
        original: &[u8],
        now: Duration,
    ) {
        self.forward(original);
        let end = self.filter.delimit(tag, self.to_server.buffer());
        let Some(Fillable { lease, probe, probe_tag }) = fillable else {
            self.expect(tag.clone(), Action::Forward);
            return self.expect_end(end);
        };
        let fill = Fill::new(read.key, read.variant, Some(lease), probe_tag.is_some(), now);
        self.expect(tag.clone(), Action::Fill(Box::new(fill)));
        self.expect_end(end);
        if let Some(probe_tag) = probe_tag {
            self.forward(&probe);
            self.expect(probe_tag, Action::Probe { asked_at: now });
        }
    }

    /// Prepares the probe that is sent with a read so that its reply can be stored; `None` if it
    /// cannot be stored.
    fn prepare<S: Storage>(
        &mut self,
        read: &Read<'_>,
        grant: Option<Grant>,
        storage: &mut S,
    ) -> Option<Fillable<F::Tag>> {
        let Grant { lease, character } = grant?;
        let mut probe = Vec::new();
        match self.filter.probe(read, character, &mut probe) {
            Ok(probe_tag) => Some(Fillable { lease, probe, probe_tag }),
            Err(reason) => {
                storage.stats().not_filled(reason);
                storage.release(lease);
                None
            }
        }
    }

    /// A read by a connection of which the origin has not said what it may read. If it is being
    /// asked, it says so before it answers the read, whose answer can then be stored.
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
        self.check_if_due(now);
        let mut grant = None;
        if self.standing.is_asked() {
            let question = Question { key: read.key, variant: read.variant, principal: None };
            if let Answer::Miss(Ok(granted)) = storage.read(question, None, now, |_| {}) {
                grant = Some(granted);
            }
        }
        let fillable = self.prepare(read, grant, storage);
        self.fetch(read, fillable, tag, original, now);
    }

    /// Asks storage for every key; what is missing is fetched alone, and put in its place.
    fn read_many<S: Storage>(
        &mut self,
        read: &ReadMany<'_>,
        tag: F::Tag,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) {
        let Some(variant) = self.variant_of_many(read, now) else {
            storage.stats().why_not(WhyNot::Unproven);
            self.check_if_due(now);
            self.forward(original);
            return self.expect(tag, Action::Forward);
        };
        let mut merge = Merge::new(read.keys.len());
        let mut hits = 0;
        let mut missing = SmallVec::<[&[u8]; 8]>::new();
        let mut probes = Vec::new();
        let mut probe_tags = SmallVec::<[F::Tag; 8]>::new();
        for &key in &read.keys {
            let start = merge.stored.len();
            let question = Question { key, variant, principal: self.standing.principal(now) };
            let (filter, stored) = (&mut self.filter, &mut merge.stored);
            let Err(grant) = look_up(filter, question, &tag, stored, storage, now) else {
                hits += 1;
                merge.parts.push(Part::Stored(start..merge.stored.len()));
                if merge.stored.len() > self.config.buffered_bytes_max {
                    // More than the client may have waiting: the origin paces it better.
                    storage.stats().why_not(WhyNot::Option);
                    return self.pass_whole(merge, tag, original, storage);
                }
                continue;
            };
            missing.push(key.bytes);
            let single = Read { key, variant, place: ("", "") };
            let fillable = self.prepare(&single, grant, storage);
            let lease = fillable.and_then(|Fillable { lease, probe, probe_tag }| {
                let Some(probe_tag) = probe_tag else {
                    // Null may stand for no record or for one of another type.
                    storage.release(lease);
                    return None;
                };
                probes.extend_from_slice(&probe);
                probe_tags.push(probe_tag);
                Some(lease)
            });
            let probed = lease.is_some();
            merge.parts.push(Part::Missing(Fill::new(key, variant, lease, probed, now)));
        }
        storage.stats().hits.add(hits);
        if missing.is_empty() {
            self.answer_stored(&tag, &merge);
            return;
        }
        if self.standing.is_detached() {
            // The principal of the answer will be known only on the next connection to the origin.
            return self.pass_whole(merge, tag, original, storage);
        }
        if missing.len() == read.keys.len() {
            self.forward(original);
        } else {
            let out = self.to_server.buffer();
            self.filter.request_missing(&tag, missing.iter().copied(), out);
        }
        self.expect(tag, Action::Merge(Box::new(merge)));
        self.forward(&probes);
        for probe_tag in probe_tags {
            self.expect(probe_tag, Action::Probe { asked_at: now });
        }
    }

    /// Passes a read of several keys after all, with nothing to be stored of it.
    fn pass_whole<S: Storage>(
        &mut self,
        merge: Merge,
        tag: F::Tag,
        original: &[u8],
        storage: &mut S,
    ) {
        let expected = Expected::new(tag.clone(), Action::Merge(Box::new(merge)));
        let _nothing_written = expected.abandon(storage);
        self.forward(original);
        self.expect(tag, Action::Forward);
    }

    /// Returns the variant under which each part of a read of several keys is stored; `None` if the
    /// read has to pass.
    fn variant_of_many<'r>(&self, read: &ReadMany<'r>, now: Duration) -> Option<&'r [u8]> {
        let principal = self.standing.principal(now)?;
        if principal.is_unrestricted() {
            return Some(read.variant);
        }
        (principal.combines() || read.keys.len() == 1).then_some(read.restricted)
    }

    fn answer_stored(&mut self, tag: &F::Tag, merge: &Merge) {
        let first = self.has_turn();
        let mut later = Vec::new();
        let out = if first { self.to_client.buffer() } else { &mut later };
        self.filter.answer_many(tag, merge.parts.len(), out);
        out.extend_from_slice(&merge.stored);
        self.filter.end_many(tag, out);
        if !first {
            self.answer_later(tag.clone(), later);
        }
    }

    fn answer_later(&mut self, tag: F::Tag, answer: Vec<u8>) {
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
        let mut expected = Expected::new(tag, Action::of(reply));
        (expected.ends, expected.partial) = (ends, self.passing);
        // The scope is closed before the bytes leave: the origin must not apply what storage still
        // answers.
        if let Flow::Write(write) = flow {
            expected.name = write.name;
            expected.writes = self.send_writes(&write, storage);
            if let Some(states) = write.states
                && states.len() == expected.writes.len()
                && reply == Reply::Plain
            {
                let stated = states.into_iter().map(|states| Stated {
                    key: states.key.into(),
                    variant: SmallVec::from_slice(states.variant),
                    answer: states.answer,
                    expires_at: states.lives.map(|lives| now + lives),
                });
                expected.action = Action::State(stated.collect());
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
            // Nothing will say when it is done.
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

    /// Returns whether a reply settles the request. If none does, a fence is sent after it.
    fn is_answered(&mut self, reply: Reply, expected: &mut Expected<F::Tag>) -> bool {
        if !matches!(reply, Reply::Never | Reply::Unknown) {
            return true;
        }
        if expected.writes.is_empty() {
            return false;
        }
        // Behind the whole request, of which only the beginning may have come.
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
        self.to_server.buffer().extend_from_slice(bytes);
    }

    /// Expects the reply to the request that [`Filter::delimit`] has written, if any.
    fn expect_end(&mut self, tag: Option<F::Tag>) {
        if let Some(tag) = tag {
            let end = Expected::new(tag, Action::Fence { known: true });
            self.expected.push_back(Expected { partial: self.passing, ..end });
        }
    }

    fn expect(&mut self, tag: F::Tag, action: Action) {
        self.waiting_bytes += action.held_bytes();
        self.expected.push_back(Expected::new(tag, action));
    }
}

/// A read whose reply may be stored.
struct Fillable<T> {
    lease: Lease,
    /// The request that asks what must be known first, and its tag.
    probe: Vec<u8>,
    probe_tag: Option<T>,
}

impl From<Refusal> for WhyNot {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotHot => Self::NotHot,
            Refusal::Closed(Closed::WritePending) => Self::WritePending,
            Refusal::Closed(Closed::Quarantine) => Self::Quarantine,
            // Another session fills it; for this read it is a miss.
            Refusal::Closed(Closed::FillPending) => Self::NotStored,
            Refusal::Closed(Closed::Derived) => Self::Derived,
            Refusal::Closed(Closed::NamespaceLimit) => Self::NamespaceLimit,
        }
    }
}

/// Asks storage for one of several keys and appends its answer to `stored`; else what may be
/// filled.
fn look_up<F: Filter, S: Storage>(
    filter: &mut F,
    question: Question<'_>,
    tag: &F::Tag,
    stored: &mut Vec<u8>,
    storage: &mut S,
    now: Duration,
) -> Result<(), Option<Grant>> {
    let hit = |packed: &[u8]| filter.answer(tag, question.key.bytes, packed, stored);
    match storage.read(question, None, now, hit) {
        Answer::Hit => Ok(()),
        Answer::Miss(Ok(grant)) => {
            storage.stats().why_not(WhyNot::NotStored);
            Err(Some(grant))
        }
        Answer::Miss(Err(refusal)) => {
            storage.stats().why_not(refusal.into());
            Err(None)
        }
        Answer::Pending(_) => Err(None),
    }
}
