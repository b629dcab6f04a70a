//! Keeps the hashes of recently evicted items, without their values.

use crate::index::Index;
use crate::mapping::{Mapping, PAGE_BYTES, pages};

/// Number of places of a queue whose 32-bit numbers wrap around.
const PLACES: usize = 1 << 32;
/// Number of places whose memory is released together: a page.
const RELEASE_PLACES: usize = PAGE_BYTES / size_of::<u32>();
/// Maximum number of old places dropped per new one, so that a lowered limit is reached step by
/// step.
const FORGOTTEN_PER_PUSH: usize = 4;
/// The same for one call of `trim`.
const FORGOTTEN_PER_TRIM: usize = 32;

/// The hashes of the last items pushed, up to a fixed number, without those that were taken. About
/// eleven bytes each.
pub(super) struct Ghost {
    hashes: Mapping<u32>,
    /// Hash to place, for hashes that were not taken.
    index: Index,
    oldest: u32,
    next: u32,
}

impl Default for Ghost {
    fn default() -> Self {
        Self { hashes: Mapping::reserve(PLACES), index: Index::new(), oldest: 0, next: 0 }
    }
}

impl Ghost {
    /// Adds `hash` as the newest of at most `limit`.
    pub(super) fn push(&mut self, hash: u32, limit: usize) {
        for _ in 0..FORGOTTEN_PER_PUSH {
            if self.span() >= limit && self.span() > 0 {
                self.forget_oldest();
            }
        }
        if limit == 0 {
            return;
        }
        self.hashes[self.next as usize] = hash;
        self.index.insert(hash, self.next, |place| self.hashes[place as usize]);
        self.next = self.next.wrapping_add(1);
    }

    /// Removes `hash`; returns true if it was present.
    pub(super) fn take(&mut self, hash: u32) -> bool {
        let found = self.index.find(hash, |place| self.hashes[place as usize] == hash);
        if let Some(place) = found {
            self.index.remove(hash, place, |place| self.hashes[place as usize]);
        }
        found.is_some()
    }

    /// Removes some hashes beyond `limit`; returns false if there were none.
    pub(super) fn trim(&mut self, limit: usize) -> bool {
        let excess = self.span().saturating_sub(limit).min(FORGOTTEN_PER_TRIM);
        for _ in 0..excess {
            self.forget_oldest();
        }
        excess > 0
            || self.index.stretch_some(FORGOTTEN_PER_TRIM, |place| self.hashes[place as usize])
    }

    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + pages(self.span() * size_of::<u32>()) + PAGE_BYTES
    }

    fn span(&self) -> usize {
        self.next.wrapping_sub(self.oldest) as usize
    }

    fn forget_oldest(&mut self) {
        let place = self.oldest;
        let hash = self.hashes[place as usize];
        if self.index.find(hash, |other| other == place).is_some() {
            self.index.remove(hash, place, |place| self.hashes[place as usize]);
        }
        self.oldest = place.wrapping_add(1);
        if (place as usize + 1).is_multiple_of(RELEASE_PLACES) {
            self.hashes.release(place as usize + 1 - RELEASE_PLACES..place as usize + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_last_so_many() {
        let mut ghost = Ghost::default();
        for hash in 0..100_000 {
            ghost.push(hash, 1000);
        }
        assert!(
            !ghost.take(98_999) && ghost.take(99_000) && !ghost.take(99_000) && ghost.take(99_999)
        );
        assert!(ghost.bytes() < 100 << 10, "{}", ghost.bytes());
        // A lower limit is reached gradually.
        for hash in 0..400 {
            ghost.push(hash, 10);
        }
        assert!(!ghost.take(389) && ghost.take(390));
        ghost.push(7, 0);
        assert!(!ghost.take(7));
    }
}
