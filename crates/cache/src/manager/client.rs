//! Client Manager: the manipulation flow meets storage; the rest is forwarded.

use std::{mem, time::Duration};

use smallvec::SmallVec;

use crate::{
    expected::{Action, Expected, Fill, Merge, Part, Stated},
    filter::{self, Filter, Flow, Read, ReadMany, Reply, Request},
    key::Scope,
    lease::Closed,
    session::Session,
    stats::WhyNot,
    storage::{Answer, Refusal, Storage, Write},
};

impl<F: Filter> Session<F> {
    /// Handles one request; `false` if it waits for another client's fill and must come again.
    #[inline]
    pub(crate) fn handle_request<S: Storage>(
        &mut self,
        request: Request<'_, F::Tag>,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> bool {
        match &request.flow {
            Flow::Read(_) | Flow::ReadMany(_) if self.streams => {
                storage.stats().why_not(WhyNot::Stream);
            }
            Flow::Read(read) => return self.read(read, &request.tag, original, storage, now),
            Flow::ReadMany(read) => {
                self.read_many(read, request.tag, original, storage, now);
                return true;
            }
            Flow::Bypass(reason) => storage.stats().why_not(*reason),
            Flow::Write(_) | Flow::Coordination => {}
        }
        self.forward_request(request, original, storage, now);
        true
    }

    #[inline]
    fn read<S: Storage>(
        &mut self,
        read: &Read<'_>,
        tag: &F::Tag,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) -> bool {
        let first = self.has_turn();
        // A client with other replies outstanding does not wait: it would hold those up.
        let ticket = (first && !self.waited).then_some(self.ticket);
        let mut later = Vec::new();
        let out = if first { self.to_client.buffer() } else { &mut later };
        let filter = &mut self.filter;
        let hit = |packed: &[u8]| filter.answer(tag, packed, out);
        match storage.read(read.key, read.variant, ticket, now, hit) {
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
            Answer::Miss(Ok(grant)) => {
                storage.stats().why_not(WhyNot::NotStored);
                self.forward(original);
                let mut probe = Vec::new();
                let probe_tag = self.filter.probe(read, grant.character, &mut probe);
                let probed = probe_tag.is_some();
                let fill = Fill::new(read.key, read.variant, Some(grant.lease), probed);
                self.expect(tag.clone(), Action::Fill(Box::new(fill)));
                if let Some(probe_tag) = probe_tag {
                    self.forward(&probe);
                    self.expect(probe_tag, Action::Probe { asked_at: now });
                }
            }
            Answer::Miss(Err(refusal)) => {
                storage.stats().why_not(refusal.into());
                self.forward(original);
                self.expect(tag.clone(), Action::Forward);
            }
        }
        true
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
        let mut merge = Merge { parts: Vec::with_capacity(read.keys.len()), stored: Vec::new() };
        let mut hits = 0;
        let mut missing = SmallVec::<[&[u8]; 8]>::new();
        let mut probes = Vec::new();
        let mut probe_tags = SmallVec::<[F::Tag; 8]>::new();
        for &key in &read.keys {
            let start = merge.stored.len();
            let (filter, stored) = (&mut self.filter, &mut merge.stored);
            let hit = |packed: &[u8]| filter.answer(&tag, packed, stored);
            let grant = match storage.read(key, read.variant, None, now, hit) {
                Answer::Hit => {
                    hits += 1;
                    merge.parts.push(Part::Stored(start..merge.stored.len()));
                    if merge.stored.len() > self.config.buffered_bytes_max {
                        // More than the client may have waiting: the origin paces it better.
                        let expected = Expected::new(tag.clone(), Action::Merge(Box::new(merge)));
                        let _nothing_written = expected.abandon(storage);
                        storage.stats().why_not(WhyNot::Option);
                        self.forward(original);
                        self.expect(tag, Action::Forward);
                        return;
                    }
                    continue;
                }
                Answer::Miss(Ok(grant)) => {
                    storage.stats().why_not(WhyNot::NotStored);
                    Some(grant)
                }
                Answer::Miss(Err(refusal)) => {
                    storage.stats().why_not(refusal.into());
                    None
                }
                Answer::Pending(_) => None,
            };
            missing.push(key.bytes);
            let mut probed = false;
            if let Some(grant) = &grant {
                let single = Read { key, variant: read.variant, place: ("", "") };
                let probe_tag = self.filter.probe(&single, grant.character, &mut probes);
                probed = probe_tag.is_some();
                probe_tags.extend(probe_tag);
            }
            let lease = grant.map(|grant| grant.lease);
            merge.parts.push(Part::Missing(Fill::new(key, read.variant, lease, probed)));
        }
        storage.stats().hits.add(hits);
        if missing.is_empty() {
            self.answer_stored(&tag, &merge);
            return;
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

    fn answer_stored(&mut self, tag: &F::Tag, merge: &Merge) {
        let first = self.has_turn();
        let mut later = Vec::new();
        let out = if first { self.to_client.buffer() } else { &mut later };
        self.filter.answer_many(tag, merge.parts.len(), out);
        out.extend_from_slice(&merge.stored);
        if !first {
            self.answer_later(tag.clone(), later);
        }
    }

    fn answer_later(&mut self, tag: F::Tag, answer: Vec<u8>) {
        self.expect(tag, Action::Local(answer));
    }

    /// Forwards everything but reads that storage was asked for.
    fn forward_request<S: Storage>(
        &mut self,
        request: Request<'_, F::Tag>,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) {
        let mut writes = SmallVec::new();
        let mut action = match request.reply {
            Reply::Plain | Reply::Never => Action::Forward,
            Reply::Observed => Action::Observe,
            Reply::Rewritten => Action::Rewrite,
            Reply::Stream => Action::Stream,
        };
        // Invalidation stands before the bytes: the origin must not apply what storage still answers.
        if let Flow::Write(write) = request.flow {
            writes = self.send_writes(&write, storage);
            if let (Some(states), 1, Reply::Plain) = (write.states, writes.len(), request.reply) {
                action = Action::State(Box::new(Stated {
                    key: states.key.into(),
                    variant: SmallVec::from_slice(states.variant),
                    answer: states.answer,
                    expires_at: states.lives.map(|lives| now + lives),
                }));
            }
        }
        self.forward(original);
        if self.streams || request.reply == Reply::Never {
            // Nobody will say when it is done.
            for write in writes {
                self.lose(write, storage, now);
            }
            return;
        }
        if request.settles_held {
            writes.extend(mem::take(&mut self.held));
        }
        if request.holds_writes {
            self.hold(&mut writes, storage);
        }
        self.waiting_bytes += action.held_bytes();
        self.expected.push_back(Expected { tag: request.tag, action, writes });
        if request.reply == Reply::Stream {
            self.streams = true;
            self.advance_queue();
        }
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
                storage.write_sent(scope)
            })
            .collect()
    }

    /// Keeps writes until a later reply settles them.
    fn hold<S: Storage>(&mut self, writes: &mut SmallVec<[Write; 1]>, storage: &mut S) {
        self.held.extend(mem::take(writes));
        if let Some(first) = self.held.first()
            && self.held.len() > self.config.held_writes_max
        {
            let everything = storage.write_sent(Scope::Origin(first.scope.origin()));
            for write in mem::replace(&mut self.held, vec![everything]) {
                storage.write_settled(write);
            }
        }
    }

    pub(crate) fn forward(&mut self, bytes: &[u8]) {
        self.to_server.buffer().extend_from_slice(bytes);
    }

    fn expect(&mut self, tag: F::Tag, action: Action) {
        self.waiting_bytes += action.held_bytes();
        self.expected.push_back(Expected::new(tag, action));
    }
}

impl From<Refusal> for WhyNot {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotHot => Self::NotHot,
            Refusal::Closed(Closed::WritePending) => Self::WritePending,
            // Somebody else fills it; for this read it is simply not there yet.
            Refusal::Closed(Closed::FillPending) => Self::NotStored,
            Refusal::Closed(Closed::Derived) => Self::Derived,
            Refusal::Closed(Closed::NamespaceLimit) => Self::NamespaceLimit,
        }
    }
}
