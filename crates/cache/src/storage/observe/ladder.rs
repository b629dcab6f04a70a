//! Caches of the sample, of several sizes.

use std::{fmt, time::Duration};

use smallvec::SmallVec;
use store::{Config, Followed, Miniature};

use super::{
    forecast::Size,
    sample::{Counts, Sample, Share, Sums},
};
use crate::variants::VARIANTS_MAX;

/// Each size is twice the one before; the middle one is that of the configuration.
const RUNGS: usize = 9;
const CONFIGURED: usize = RUNGS / 2;
/// Bytes of the generation before a key, and of the lengths before an answer, at least.
const GENERATION_BYTES: usize = 1;
const FRAMING_BYTES: usize = 2;

pub(super) struct Ladder {
    rungs: Vec<Rung>,
}

struct Rung {
    cache: Miniature<Kept>,
    hits: Sums,
}

/// What a cache holds of a key.
#[derive(Clone)]
struct Kept {
    generation: u64,
    key_bytes: usize,
    asked_at: Duration,
    /// Newest first.
    answers: SmallVec<[Answer; 1]>,
}

/// One of the answers of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    /// Hash of the question and its principal.
    pub(super) variant: u64,
    /// Bytes of question, principal and answer.
    pub(super) record_bytes: usize,
    pub(super) answer_bytes: usize,
    /// Until when it proves the right to it.
    pub(super) until: Duration,
}

/// What has to follow an observed read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    Nothing,
    /// The largest cache holds the answer and another one does not.
    Refill,
    /// The largest cache would ask the origin.
    Fill,
}

impl Ladder {
    pub(super) fn new(whole: &Config) -> Self {
        let rungs = (0..RUNGS).map(|rung| {
            let scaled = |size: usize| (size >> CONFIGURED).max(1).saturating_mul(1 << rung);
            let items_max = match whole.items_max {
                usize::MAX => usize::MAX,
                items => scaled(items),
            };
            let config = Config { items_max, bytes_max: scaled(whole.bytes_max), ..*whole };
            Rung { cache: Miniature::new(config), hits: Sums::default() }
        });
        Self { rungs: rungs.collect() }
    }

    /// Counts a read of a key by what each cache would answer; `question` is the generation and the
    /// variant, unless nothing may be answered. Returns the length of the answer that a cache of
    /// the configured size would give.
    pub(super) fn read(
        &mut self,
        hash: u64,
        question: Option<(u64, u64)>,
        fills: bool,
        counts: Option<Counts>,
        now: Duration,
    ) -> (Option<usize>, Wants) {
        let mut configured = None;
        let (mut lacks, mut largest) = (false, false);
        for (at, rung) in self.rungs.iter_mut().enumerate() {
            let found = question.and_then(|question| rung.find(hash, question, now));
            lacks |= found.is_none();
            largest = found.is_some();
            // The length of an answer that is waited for is not known yet.
            let found = found.or(fills.then_some(0));
            if let Some(counts) = counts.filter(|_| found.is_some()) {
                rung.hits.add(counts, 1.0);
            }
            if at == CONFIGURED {
                configured = found;
            }
        }
        let wants = match (largest, lacks) {
            _ if fills => Wants::Nothing,
            (false, _) => Wants::Fill,
            (true, true) => Wants::Refill,
            (true, false) => Wants::Nothing,
        };
        (configured, wants)
    }

    /// Lets every cache without it hold the answer of the largest.
    pub(super) fn refill(
        &mut self,
        key: Followed,
        variant: u64,
        until: Duration,
        ttl: Duration,
        now: Duration,
    ) {
        let Some((largest, smaller)) = self.rungs.split_last_mut() else { return };
        let Some((kept, expires_at)) = largest.cache.peek(key.hash, now) else { return };
        let Some(answer) = kept.answers.iter().find(|answer| answer.variant == variant) else {
            return;
        };
        // The expiry of the key at the origin stays; else the ttl begins with this read.
        let by_ttl = expires_at >= kept.asked_at.saturating_add(ttl);
        let expires_at = if by_ttl { now.saturating_add(ttl) } else { expires_at };
        let kept = Kept { answers: SmallVec::new(), asked_at: now, ..kept.clone() };
        for rung in smaller {
            rung.fill(key, &kept, Answer { until, ..*answer }, expires_at, now);
        }
    }

    /// Lets every cache without it hold an answer. `times`: when it was asked for, and when it
    /// expires.
    pub(super) fn fill(
        &mut self,
        key: Followed,
        key_bytes: usize,
        generation: u64,
        answer: Answer,
        (asked_at, expires_at): (Duration, Duration),
        now: Duration,
    ) {
        let kept = Kept { generation, key_bytes, asked_at, answers: SmallVec::new() };
        for rung in &mut self.rungs {
            rung.fill(key, &kept, answer, expires_at, now);
        }
    }

    /// Drops a key.
    pub(super) fn remove(&mut self, hash: u64) {
        self.rungs.iter_mut().for_each(|rung| rung.cache.remove(hash));
    }

    /// Changes what a key stands for.
    pub(super) fn restate(&mut self, hash: u64, is_sampled: bool) {
        let key = Followed { hash, is_sampled };
        self.rungs.iter_mut().for_each(|rung| rung.cache.restate(key));
    }

    /// Keeps only the keys of a sample.
    pub(super) fn follow(&mut self, sample: &Sample) {
        for Rung { cache, .. } in &mut self.rungs {
            cache.retain(|key| sample.followed(key.hash).is_some());
            cache.set_scale(sample.scale());
        }
    }

    pub(super) fn expire(&mut self, now: Duration) {
        self.rungs.iter_mut().for_each(|rung| rung.cache.expire(now));
    }

    pub(super) fn clear(&mut self) {
        self.rungs.iter_mut().for_each(|rung| rung.cache.clear());
    }

    pub(super) fn value_bytes_max(&self) -> usize {
        self.rungs.first().map_or(0, |rung| rung.cache.config().value_bytes_max)
    }

    /// Number of sampled keys in the cache that holds most of them.
    pub(super) fn sampled(&self) -> usize {
        self.rungs.iter().map(|rung| rung.cache.sampled()).max().unwrap_or(0)
    }

    /// Number of keys in the cache that holds most of them.
    pub(super) fn keys(&self) -> usize {
        self.rungs.iter().map(|rung| rung.cache.len()).max().unwrap_or(0)
    }

    /// Every size, ascending; hit ratios are shares of `reads`.
    pub(super) fn sizes(&self, of_others: Share, reads: u64) -> Vec<Size> {
        let size = |rung: &Rung| {
            let Config { items_max, bytes_max, .. } = *rung.cache.config();
            Size {
                memory_bytes: bytes_max,
                items_max: (items_max != usize::MAX).then_some(items_max),
                held_bytes: rung.cache.bytes(),
                held_items: rung.cache.items(),
                hit_ratio: (rung.hits.all(of_others) / reads.max(1) as f64).min(1.0),
            }
        };
        self.rungs.iter().map(size).collect()
    }
}

impl Rung {
    /// The length of the answer to a question: generation and variant.
    fn find(
        &mut self,
        hash: u64,
        (generation, variant): (u64, u64),
        now: Duration,
    ) -> Option<usize> {
        let kept = self.cache.lookup(hash, now)?;
        if kept.generation != generation {
            self.cache.remove(hash);
            return None;
        }
        let is_it = |answer: &&Answer| answer.variant == variant && now < answer.until;
        kept.answers.iter().find(is_it).map(|answer| answer.answer_bytes)
    }

    /// Holds an answer beside those that are held of the key, as [`crate::variants::put`] does,
    /// unless it is held.
    fn fill(
        &mut self,
        key: Followed,
        kept: &Kept,
        answer: Answer,
        expires_at: Duration,
        now: Duration,
    ) {
        let (mut kept, mut expires_at) = (kept.clone(), expires_at);
        let older = self.cache.peek(key.hash, now);
        let older = older.filter(|(older, _)| older.generation == kept.generation);
        kept.answers.push(answer);
        if let Some((older, older_expires_at)) = older {
            let is_it = |older: &Answer| older.variant == answer.variant;
            if older.answers.iter().any(|older| is_it(older) && now < older.until) {
                return;
            }
            kept.answers.extend(older.answers.iter().filter(|older| !is_it(older)).copied());
            expires_at = expires_at.min(older_expires_at);
        }
        let value_bytes = |kept: &Kept| -> usize {
            kept.answers.iter().map(|answer| answer.record_bytes + FRAMING_BYTES).sum()
        };
        kept.answers.truncate(VARIANTS_MAX);
        while kept.answers.len() > 1 && value_bytes(&kept) > self.cache.config().value_bytes_max {
            kept.answers.pop();
        }
        let key_bytes = kept.key_bytes + GENERATION_BYTES;
        let bytes = self.cache.item_bytes(key_bytes, value_bytes(&kept) - FRAMING_BYTES / 2);
        self.cache.insert(key, bytes, kept, expires_at);
    }
}

impl fmt::Debug for Ladder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ladder").field("keys", &self.keys()).finish_non_exhaustive()
    }
}
