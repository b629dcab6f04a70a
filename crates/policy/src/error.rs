//! Why a configuration was refused.

/// Invalid parameters of [`hotkey`](crate::hotkey) structures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More rows than hash functions.
    #[error("{what}: expected 1 to {limit} rows, got {got}")]
    Rows {
        /// The structure, for example `"count-min sketch"`.
        what: &'static str,
        /// The requested value.
        got: usize,
        /// The most there may be.
        limit: usize,
    },
    /// A row is too narrow or too wide.
    #[error("{what}: expected rows of 2^{min} to 2^{max}, got 2^{got}")]
    Width {
        /// The structure, for example `"Bloom filter"`.
        what: &'static str,
        /// The requested value, as a power of two.
        got: u32,
        /// The least, as a power of two.
        min: u32,
        /// The most, as a power of two.
        max: u32,
    },
}
