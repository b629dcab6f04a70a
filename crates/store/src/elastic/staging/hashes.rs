//! Counts staged entries by hash, so that most lookups of other keys need no search by key.

/// Counters, by the last bits of the hash.
const COUNTERS: usize = 1024;

/// Invariant: each staged entry is counted once.
#[derive(Debug)]
pub(super) struct Hashes(Box<[u32; COUNTERS]>);

impl Default for Hashes {
    fn default() -> Self {
        Self(Box::new([0; COUNTERS]))
    }
}

impl Hashes {
    pub(super) fn add(&mut self, hash: u64) {
        self.0[hash as usize % COUNTERS] += 1;
    }

    pub(super) fn remove(&mut self, hash: u64) {
        self.0[hash as usize % COUNTERS] -= 1;
    }

    /// False if no entry of this hash is staged.
    #[inline]
    pub(super) fn may_have(&self, hash: u64) -> bool {
        self.0[hash as usize % COUNTERS] != 0
    }
}
