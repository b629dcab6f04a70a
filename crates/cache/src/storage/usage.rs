//! How useful memory is to the origin of a part of storage: sampled reuse distances of its lookups
//! ([`store::elastic::Reuse`]).
//!
//! A lookup counts if it was a hit or was filled: no memory would have answered the others. A hit
//! of a key that is not selected costs one comparison; how many are selected follows the load.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;
use store::elastic::{Advice, Reuse};

/// Maximum number of sampled keys of an origin: about 140 KiB.
const SAMPLES_MAX: usize = 2_048;
/// Lookups that are followed in a second: more select fewer keys. Each takes about 200 ns.
const FOLLOWED_MAX: f64 = 16_384.0;
/// Fewer select more keys, unless that would be more than [`FOLLOWED_MAX`].
const FOLLOWED_MIN: f64 = 256.0;
/// The least part of the hashes that is selected: a few selected keys may have most lookups.
const SELECTED_MIN: f64 = 1.0 / 4_096.0;
/// Half-life of the rates, in seconds.
const HALF_LIFE: f64 = 10.0;
/// Curves of fewer sampled lookups say nothing.
pub(super) const SAMPLED_MIN: u64 = 128;
/// Approximate memory of an item besides key and answer.
const ITEM_BYTES: usize = 96;
/// The part of its bytes that holes in the log take beside an item.
const HOLES_PART: usize = 8;

/// Lookups of one origin.
pub(super) struct Usage {
    /// That of `seen`, so that most lookups need no lock.
    threshold: AtomicU64,
    seen: Mutex<Seen>,
}

struct Seen {
    reuse: Reuse,
    followed: u64,
    lookups: Rate,
    hits: Rate,
    at: Duration,
}

/// A count that only grows, and its recent increase per second.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    count: u64,
    per_second: f64,
}

impl Rate {
    /// Returns the increase.
    fn note(&mut self, count: u64, seconds: f64) -> u64 {
        let more = count.saturating_sub(self.count);
        self.count = count;
        let keep = (-seconds / HALF_LIFE).exp2();
        self.per_second = keep * self.per_second + (1.0 - keep) * more as f64 / seconds;
        more
    }
}

/// What was measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    /// Lookups per second.
    pub(super) lookups: f64,
    /// Those that were hits.
    pub(super) hits: f64,
    /// The share of lookups that are hits, by bytes.
    pub(super) curve: Advice,
}

impl Measured {
    /// Hits per second with this memory.
    pub(super) fn hits_with(&self, bytes: u64) -> f64 {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.lookups * self.curve.hit_ratio(bytes)
    }
}

impl Usage {
    pub(super) fn new() -> Self {
        let reuse = Reuse::new(SAMPLES_MAX, 1);
        let (lookups, hits) = (Rate::default(), Rate::default());
        Self {
            threshold: AtomicU64::new(reuse.threshold()),
            seen: Mutex::new(Seen { reuse, followed: 0, lookups, hits, at: Duration::ZERO }),
        }
    }

    /// Notes a lookup of a key with this hash, whose key and answer are this long.
    #[inline]
    pub(super) fn note(&self, hash: u64, bytes: usize) {
        if Reuse::selects(self.threshold.load(Relaxed), hash) {
            self.follow(hash, bytes);
        }
    }

    #[cold]
    fn follow(&self, hash: u64, bytes: usize) {
        let mut seen = self.seen.lock();
        // Another worker may have reduced it.
        if Reuse::selects(seen.reuse.threshold(), hash) {
            seen.followed += 1;
            let bytes = bytes + ITEM_BYTES;
            seen.reuse.follow(hash, (bytes + bytes / HOLES_PART) as u64);
            self.threshold.store(seen.reuse.threshold(), Relaxed);
        }
    }

    /// Measures, about once a second. `memory` has the counters of the part of storage.
    pub(super) fn measure(&self, memory: &store::Stats, now: Duration) -> Measured {
        let mut seen = self.seen.lock();
        let Seen { reuse, followed, lookups, hits, at } = &mut *seen;
        let seconds = now.saturating_sub(*at).as_secs_f64().max(1e-3);
        *at = now;
        let looked_up = memory.hits + memory.inserts + memory.replaces;
        let more = lookups.note(looked_up, seconds);
        hits.note(memory.hits, seconds);
        reuse.count(more);
        let mut followed = std::mem::take(followed) as f64 / seconds;
        let selected = more as f64 / seconds * reuse.share();
        if followed < FOLLOWED_MIN && selected > 0.0 && selected < FOLLOWED_MAX / 4.0 {
            reuse.choose_more();
        }
        while followed > FOLLOWED_MAX && reuse.share() > SELECTED_MIN {
            let before = reuse.share();
            reuse.choose_fewer();
            followed *= reuse.share() / before;
        }
        reuse.age(now);
        self.threshold.store(reuse.threshold(), Relaxed);
        let curve = reuse.advice(0);
        Measured { lookups: lookups.per_second, hits: hits.per_second, curve }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_key_that_is_not_followed_counts_as_hits_that_need_little_memory() {
        const LOOKUPS: u64 = 20_000;
        // Of the hashes that are left first.
        let hot = u64::MAX;
        let usage = Usage::new();
        for number in 0..LOOKUPS {
            usage.note(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), 100);
            usage.note(hot, 100);
        }
        let memory = store::Stats { hits: LOOKUPS, inserts: LOOKUPS, ..store::Stats::default() };
        let measured = usage.measure(&memory, Duration::from_secs(1));
        let ratio = measured.curve.hit_ratio(1 << 20);
        assert!((0.4..0.6).contains(&ratio), "{ratio}");
        assert!(measured.hits_with(1 << 20) > 0.4 * measured.lookups);
    }
}
