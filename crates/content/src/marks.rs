//! Targets whose responses cannot be shared: requests for them do not wait for the fetch of another
//! request.
//!
//! A mark has no other effect. Stored responses are still used, and a storable response is stored
//! and removes the mark, so a client cannot prevent a target from being stored.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Number of consecutive unshareable responses after which a target is marked.
pub const MARKED_AFTER: u8 = 3;
/// Time from the last such response until the mark expires.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Maximum number of marked targets; a further one replaces another.
const TARGETS: usize = 1 << 14;

/// The marks of all targets.
///
/// One word for each target: 24 bits of its hash, an 8-bit count, and the second in which the mark
/// expires (32 bits).
#[derive(Debug)]
pub struct Marks {
    words: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Marks {
    /// Creates an empty table; `hasher` is keyed so that clients cannot choose targets that share a
    /// mark.
    #[must_use]
    pub fn new(hasher: RandomState) -> Self {
        let words = (0..TARGETS).map(|_| AtomicU64::new(0)).collect();
        Self { words, hasher }
    }

    /// Counts `answers` for the target that could not be shared.
    pub fn note(&self, target: &[u8], answers: u8, now: Duration) {
        let (tag, word) = self.place(target);
        let before = count(word.load(Relaxed), tag, now);
        let ends = u64::from((now + KEPT_FOR).as_secs() as u32);
        let counted = u64::from(before.saturating_add(answers));
        word.store(tag << 40 | counted << 32 | ends, Relaxed);
    }

    /// Removes the mark of a target.
    pub fn clear(&self, target: &[u8], now: Duration) {
        let (tag, word) = self.place(target);
        if count(word.load(Relaxed), tag, now) > 0 {
            word.store(0, Relaxed);
        }
    }

    /// Whether the target is marked.
    #[must_use]
    pub fn is_marked(&self, target: &[u8], now: Duration) -> bool {
        let (tag, word) = self.place(target);
        count(word.load(Relaxed), tag, now) >= MARKED_AFTER
    }

    fn place(&self, target: &[u8]) -> (u64, &AtomicU64) {
        let hash = self.hasher.hash_one(target);
        (hash >> 40, &self.words[hash as usize % TARGETS])
    }
}

fn count(word: u64, tag: u64, now: Duration) -> u8 {
    // None that was noted lasts longer, so one that does is of a clock that was set back.
    let left = (word as u32).wrapping_sub(now.as_secs() as u32);
    let is_its = word >> 40 == tag && (1..=KEPT_FOR.as_secs()).contains(&left.into());
    if is_its { (word >> 32) as u8 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_takes_several_answers_and_ends() {
        let (marks, now) = (Marks::new(RandomState::new()), Duration::from_secs(1_700_000_000));
        for counted in 1..=MARKED_AFTER {
            assert!(!marks.is_marked(b"a", now), "after {counted}");
            marks.note(b"a", 1, now);
        }
        assert!(marks.is_marked(b"a", now) && !marks.is_marked(b"b", now));
        assert!(!marks.is_marked(b"a", now + KEPT_FOR));
        assert!(!marks.is_marked(b"a", now - KEPT_FOR), "the clock was set back");
        marks.note(b"a", MARKED_AFTER, now);
        marks.clear(b"a", now);
        assert!(!marks.is_marked(b"a", now));
    }
}
