//! Counters of a memory tier.

/// Counters since the start, and sizes now. All sizes are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of items, including expired ones that were not noticed yet.
    pub items: usize,
    /// Bytes of live items: header, key, value, padding.
    pub live_bytes: usize,
    /// Bytes accounted against `bytes_max`: pages of items, dead ones included, index, policy
    /// tables. Resident memory is at most this plus [`Memory::BASE_BYTES`](crate::Memory).
    pub accounted_bytes: usize,
    /// The part of `accounted_bytes` that is the index.
    pub index_bytes: usize,
    /// The part of `accounted_bytes` that is the policy's ghost queue or sketch.
    pub policy_bytes: usize,
    /// Lookups that found a live item.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Items stored under a key that had no value.
    pub inserts: u64,
    /// Items stored in place of an older value of the same key.
    pub replaces: u64,
    /// Items evicted to make room.
    pub evictions: u64,
    /// Items removed because they had expired.
    pub expirations: u64,
    /// Items removed because the caller removed or cleared them, or failed to replace them.
    /// `inserts` is always `items + evictions + expirations + removals`.
    pub removals: u64,
    /// Inserts that stored nothing.
    pub refusals: u64,
    /// Bytes of items copied by compaction.
    pub compacted_bytes: u64,
}

impl std::ops::AddAssign for Stats {
    /// Adds another tier's numbers to these, as for the shards of one cache.
    fn add_assign(&mut self, other: Self) {
        self.items += other.items;
        self.live_bytes += other.live_bytes;
        self.accounted_bytes += other.accounted_bytes;
        self.index_bytes += other.index_bytes;
        self.policy_bytes += other.policy_bytes;
        self.hits += other.hits;
        self.misses += other.misses;
        self.inserts += other.inserts;
        self.replaces += other.replaces;
        self.evictions += other.evictions;
        self.expirations += other.expirations;
        self.removals += other.removals;
        self.refusals += other.refusals;
        self.compacted_bytes += other.compacted_bytes;
    }
}
