//! Reads of several keys: stored answers are combined with those of the origin.

use std::time::Duration;

use smallvec::SmallVec;
use tracing::debug;

use super::client::Fillable;
use crate::{
    expected::{Action, Expected, Fill, Merge, Part},
    filter::{Answers, Filter, ReadMany},
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
        let Some(has_all_rights) = self.may_combine(read, now) else {
            storage.stats().why_not(WhyNot::Unproven);
            self.check_if_due(now);
            self.forward(original);
            return self.expect_read(tag, Action::Forward, now);
        };
        let (mut command, mut hits) = (None, 0);
        let mut merge = Merge::new(read.keys.len());
        let mut missing = SmallVec::<[&[u8]; 8]>::new();
        let mut probes = Vec::new();
        let mut probe_tags = SmallVec::<[F::Tag; 8]>::new();
        let is_explicit = matches!(read.answers, Answers::Each(_));
        for (place, &key) in read.keys.iter().enumerate() {
            let single = read.single(place, key, has_all_rights);
            storage.stats().busiest.see(&key, single.place, now);
            let start = merge.stored.len();
            let principal = self.standing.principal(now);
            let question = Question { key, variant: single.variant, principal };
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
            let grant = self.granted(&single, grant, (original, &mut command), storage, now);
            let fillable = self.prepare(&single, grant, storage);
            let mut probed = false;
            let lease = fillable.and_then(|Fillable { lease, probe, probe_tag, .. }| {
                probed = probe_tag.is_some();
                if !probed && !is_explicit {
                    // Null may stand for no record or for one of another type.
                    storage.release(lease);
                    return None;
                }
                probes.extend_from_slice(&probe);
                probe_tags.extend(probe_tag);
                Some(lease)
            });
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
        self.request_missing(&missing, keys, &tag, original);
        self.expect_read(tag, Action::Merge(Box::new(merge)), now);
        self.forward(&probes);
        for probe_tag in probe_tags {
            self.expect(probe_tag, Action::Probe { asked_at: now });
        }
    }

    /// Requests the `missing` ones of a number of `keys`; all of them by the original request.
    fn request_missing(&mut self, missing: &[&[u8]], keys: usize, tag: &F::Tag, original: &[u8]) {
        if missing.len() == keys {
            return self.forward(original);
        }
        let out = self.to_server.buffer();
        self.filter.request_missing(tag, original, missing.iter().copied(), out);
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

    /// Whether the principal has all rights; `None` if a read of several keys has to pass.
    fn may_combine(&self, read: &ReadMany<'_>, now: Duration) -> Option<bool> {
        let principal = self.standing.principal(now)?;
        let has_all_rights = principal.is_unrestricted();
        let may = has_all_rights
            || principal.combines()
            || read.keys.len() == 1
            || matches!(read.answers, Answers::Each(_));
        may.then_some(has_all_rights)
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
