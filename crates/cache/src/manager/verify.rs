//! A sample of the hits, asked at the origin too.
//!
//! A sampled read is forwarded instead of being answered from storage: the client receives the
//! reply of the origin, in its turn. The read takes a lease as a miss does. If, when the reply
//! arrives, no write has revoked the lease and the same answer is stored still, then the key was
//! neither written nor expired in between, as far as the cache knows: the reply must be the same.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tracing::warn;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::client::Fillable;
use crate::{
    expected::Fill,
    filter::{Filter, Read},
    key::{Key, Scope, Shown},
    session::Session,
    storage::{Question, Storage},
};

/// Which hits are asked at the origin too, in all sessions that share it.
#[derive(Debug)]
pub struct Verify {
    /// Below this, of 2^64, a hit is sampled.
    below: u64,
    /// Hits counted; the number of a hit decides whether it is sampled.
    hits: AtomicU64,
    /// When a difference was logged last, in nanoseconds, and 1; 0 before the first.
    told_at: AtomicU64,
}

/// Shortest time between two log lines on differences: further ones are only counted.
const TOLD_INTERVAL: Duration = Duration::from_secs(1);

impl Verify {
    /// Samples a share of the hits, from 0 to 1; `None` if it is 0.
    #[must_use]
    pub fn share(share: f64) -> Option<Self> {
        let below = (share * u64::MAX as f64) as u64;
        (below > 0).then(|| Self { below, hits: AtomicU64::new(0), told_at: AtomicU64::new(0) })
    }

    /// Whether the next hit is sampled.
    fn picks(&self) -> bool {
        let number = self.hits.fetch_add(1, Relaxed);
        xxh3_64_with_seed(&number.to_le_bytes(), 0) <= self.below
    }

    /// Whether a difference found now may be logged.
    fn may_tell(&self, now: Duration) -> bool {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        let due = |told_at: u64| {
            (told_at == 0 || now.saturating_sub(told_at) >= TOLD_INTERVAL.as_nanos() as u64)
                .then_some(now)
        };
        self.told_at.fetch_update(Relaxed, Relaxed, due).is_ok()
    }
}

impl<F: Filter> Session<F> {
    /// Whether the next hit is asked at the origin too. None is while the connection to the origin
    /// is down: hits continue then.
    #[inline]
    pub(super) fn is_sampled(&self) -> bool {
        let Some(verify) = &self.config.verify else { return false };
        !self.standing.is_detached() && verify.picks()
    }

    /// Forwards a read whose stored answer has this hash, to compare the two.
    pub(super) fn verify<S: Storage>(
        &mut self,
        (read, stored): (&Read<'_>, u64),
        tag: &F::Tag,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) {
        let (probe, probe_tag, verifies) = (Vec::new(), None, Some(stored));
        let lease = storage.lease(read.key);
        let fillable = lease.map(|lease| Fillable { lease, probe, probe_tag, verifies });
        self.fetch(read, fillable, tag, original, now);
    }

    /// Compares the reply to a sampled read with what is stored for it.
    pub(super) fn verified<S: Storage>(
        &mut self,
        tag: &F::Tag,
        mut fill: Fill,
        reply: Option<&[u8]>,
        storage: &mut S,
        now: Duration,
    ) {
        let Some(lease) = fill.lease.take() else { return };
        let (key, filter) = (fill.key.borrow(), &self.filter);
        // An error is no statement about the value; what is larger than an entry was not kept.
        let admitted =
            reply.and_then(|reply| filter.admit(tag, key.bytes, reply, &mut fill.packed).ok());
        let Some(((), principal)) = admitted.zip(self.standing.principal(now)) else {
            return storage.release(lease);
        };
        let hash = |packed: &[u8]| hash(filter, key, &fill.variant, packed);
        let question = Question { key, variant: &fill.variant, principal: Some(principal) };
        let mut kept = None;
        let writes = storage.compare(lease, question, now, |packed| kept = Some(hash(packed)));
        let (Some(stored), origin) = (kept.filter(|_| kept == fill.verifies), hash(&fill.packed))
        else {
            return;
        };
        storage.stats().verified.add(1);
        if stored == origin {
            return;
        }
        storage.stats().differed.add(1);
        storage.written_elsewhere(Scope::Key(key));
        if self.config.verify.as_ref().is_some_and(|verify| verify.may_tell(now)) {
            warn!(
                connection = self.ticket.0,
                key = %Shown(key.bytes),
                stored = format_args!("{stored:016x}"),
                origin = format_args!("{origin:016x}"),
                writes,
                "verify: the stored answer differed from the reply of the origin, and was dropped; \
                 no write to the key has passed in between; if none bypasses the cache, report a bug"
            );
        }
    }
}

/// A hash of an answer, another one in each process.
pub(super) fn hash<F: Filter>(filter: &F, key: Key<'_>, variant: &[u8], packed: &[u8]) -> u64 {
    xxh3_64_with_seed(&filter.comparable(variant, packed), key.hash)
}

#[cfg(test)]
mod tests {
    use super::{Duration, Verify};

    #[test]
    fn the_share_is_kept() {
        assert!(Verify::share(0.0).is_none());
        for (share, expected) in [(1.0, 100_000..=100_000), (0.01, 900..=1_100)] {
            let verify = Verify::share(share).expect("more than 0");
            let picked = (0..100_000).filter(|_| verify.picks()).count();
            assert!(expected.contains(&picked), "{share}: {picked}");
        }
    }

    #[test]
    fn a_difference_is_told_once_a_second() {
        let verify = Verify::share(1.0).expect("more than 0");
        let told =
            [0, 1, 999, 1_000, 1_999, 2_001].map(|at| verify.may_tell(Duration::from_millis(at)));
        assert_eq!(told, [true, false, false, true, false, true]);
    }
}
