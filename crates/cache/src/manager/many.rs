//! Reads of several keys: stored answers are combined with those of the origin.

use std::time::Duration;

use smallvec::SmallVec;
use tracing::debug;

use super::client::Fillable;
use crate::{
    expected::{Action, Expected, Fill, Merge, Part},
    filter::{Filter, Read, ReadMany},
    session::Session,
    stats::WhyNot,
    storage::{Answer, Grant, Question, Storage},
};

impl<F: Filter> Session<F> {
    /// Asks storage for every key; only missing keys are fetched, and their answers inserted in
    /// place.
    pub(super) fn read_many<S: Storage>(
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
            return self.expect_read(tag, Action::Forward, now);
        };
        let mut command = None;
        let mut merge = Merge::new(read.keys.len());
        let mut hits = 0;
        let mut missing = SmallVec::<[&[u8]; 8]>::new();
        let mut probes = Vec::new();
        let mut probe_tags = SmallVec::<[F::Tag; 8]>::new();
        for &key in &read.keys {
            storage.stats().busiest.see(&key, ("", ""), now);
            let start = merge.stored.len();
            let question = Question { key, variant, principal: self.standing.principal(now) };
            let (filter, stored) = (&mut self.filter, &mut merge.stored);
            let Err(grant) = look_up(filter, question, &tag, stored, storage, now) else {
                hits += 1;
                merge.parts.push(Part::Stored(start..merge.stored.len()));
                if merge.stored.len() > self.config.buffered_bytes_max {
                    // More than the client may keep waiting: the origin paces it better.
                    storage.stats().why_not(WhyNot::Option);
                    return self.pass_whole(merge, tag, original, storage, now);
                }
                continue;
            };
            missing.push(key.bytes);
            let single = Read { key, variant, place: ("", "") };
            let grant = self.granted(&single, grant, (original, &mut command), storage, now);
            let fillable = self.prepare(&single, grant, storage);
            let lease = fillable.and_then(|Fillable { lease, probe, probe_tag, .. }| {
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
            let fill = Fill::new(&single, lease, probed, now, self.ttl_of(&single));
            merge.parts.push(Part::Missing(Box::new(fill)));
        }
        storage.stats().hits.add(hits);
        let (connection, command, keys) = (self.ticket.0, self.command, read.keys.len());
        debug!(connection, command, keys, hits, "read of several keys");
        if missing.is_empty() {
            self.answer_stored(&tag, &merge, now);
            return;
        }
        if self.standing.is_detached() {
            // The principal of the answer will be known only on the next connection to the origin.
            return self.pass_whole(merge, tag, original, storage, now);
        }
        if missing.len() == read.keys.len() {
            self.forward(original);
        } else {
            let out = self.to_server.buffer();
            self.filter.request_missing(&tag, missing.iter().copied(), out);
        }
        self.expect_read(tag, Action::Merge(Box::new(merge)), now);
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
        now: Duration,
    ) {
        let expected = Expected::new(tag.clone(), Action::Merge(Box::new(merge)));
        let _nothing_written = expected.abandon(storage);
        self.forward(original);
        self.expect_read(tag, Action::Forward, now);
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

    fn answer_stored(&mut self, tag: &F::Tag, merge: &Merge, now: Duration) {
        let first = self.has_turn();
        let mut later = Vec::new();
        let out = if first { self.to_client.buffer() } else { &mut later };
        self.filter.answer_many(tag, merge.parts.len(), out);
        out.extend_from_slice(&merge.stored);
        self.filter.end_many(tag, out);
        if first {
            self.hit_at(now);
        } else {
            self.answer_later(tag.clone(), later);
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
