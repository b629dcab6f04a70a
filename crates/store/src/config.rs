//! Limits of a [`Memory`](crate::Memory), and its choice of items to keep.

/// The limits of one memory tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Items held at most; 0 stores nothing.
    pub items_max: usize,
    /// Bytes of memory at most: keys, values, headers, index, policy tables, unused space.
    /// More than [`Config::BYTES_MAX`] is taken as that.
    pub bytes_max: usize,
    /// Longest key accepted, in bytes.
    pub key_bytes_max: usize,
    /// Longest value accepted, in bytes. At most `u32::MAX` is ever accepted.
    pub value_bytes_max: usize,
    /// Replacement policy.
    pub replacement: Replacement,
}

impl Config {
    /// The most one [`Memory`](crate::Memory) can hold: what a 32-bit location in units of eight
    /// bytes reaches. Beyond that, use several, one a shard.
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
    /// Oldest first, whatever was read.
    Fifo,
    /// Least recently used first.
    Lru,
    /// Oldest first, but an item read since gets another round.
    Clock,
    /// Like `Clock`, but survivors stay where they are, so new items are judged quickly.
    #[default]
    Sieve,
    /// Three queues: most new items must prove themselves in a small one.
    S3Fifo,
    /// A small window before a main part that admits only items requested more often.
    WTinyLfu,
}

impl Replacement {
    /// All of them, simplest first.
    pub const ALL: [Self; 6] =
        [Self::Fifo, Self::Lru, Self::Clock, Self::Sieve, Self::S3Fifo, Self::WTinyLfu];
}
