//! Limits and replacement policy of a [`Memory`](crate::Memory).

/// The limits of one memory tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Maximum number of items; 0 stores nothing.
    pub items_max: usize,
    /// Maximum memory in bytes: keys, values, headers, index, policy tables, unused space. A value
    /// above [`Config::BYTES_MAX`] counts as [`Config::BYTES_MAX`].
    pub bytes_max: usize,
    /// Longest key accepted, in bytes.
    pub key_bytes_max: usize,
    /// Longest value accepted, in bytes, up to `u32::MAX`.
    pub value_bytes_max: usize,
    /// Replacement policy.
    pub replacement: Replacement,
}

impl Config {
    /// Maximum memory of one [`Memory`](crate::Memory), in bytes: the range of a 32-bit location in
    /// units of eight bytes. For more, use several, one per shard.
    pub const BYTES_MAX: usize = 32 << 30;
}

impl Default for Config {
    fn default() -> Self {
        Self {
            items_max: usize::MAX,
            bytes_max: 64 << 20,
            key_bytes_max: 4 << 10,
            value_bytes_max: 1 << 20,
            replacement: Replacement::default(),
        }
    }
}

/// Policy that selects the item to evict; each is described in its own file under `replacement/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replacement {
    /// Oldest first, regardless of reads.
    Fifo,
    /// Least recently used first.
    Lru,
    /// Oldest first; an item that was read since its last turn stays for another one.
    Clock,
    /// Like `Clock`, but items that stay keep their place, so new items are examined soon.
    #[default]
    Sieve,
    /// Like `Sieve`, and where its hit ratio would be a step over the size of the cache, as with a
    /// loop that is larger than the cache, a part of the items stays and most others are refused.
    Hull,
    /// Three queues: new items enter the main queue only if they are read while in a small one.
    S3Fifo,
    /// A small window in front of a main part, which admits an item only if it is requested more
    /// often than the one it would evict.
    WTinyLfu,
}

impl Replacement {
    /// All of them, simplest first.
    pub const ALL: [Self; 7] =
        [Self::Fifo, Self::Lru, Self::Clock, Self::Sieve, Self::Hull, Self::S3Fifo, Self::WTinyLfu];
}
