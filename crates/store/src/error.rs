//! Why an item was not stored.

/// Reasons why an insert stored nothing. An earlier value of the key is removed too: a cache must
/// not continue to serve a value that the caller meant to replace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// `items_max` is 0.
    #[error("nothing is stored: items_max is 0; raise it to store items")]
    Off,
    /// The key is longer than `key_bytes_max`.
    #[error("key: expected at most {limit} bytes (key_bytes_max), got {got}")]
    KeyTooLong {
        /// Length of the key in bytes.
        got: usize,
        /// The limit in force, in bytes.
        limit: usize,
    },
    /// The value is longer than `value_bytes_max`.
    #[error("value: expected at most {limit} bytes (value_bytes_max), got {got}")]
    ValueTooLong {
        /// Length of the value in bytes.
        got: usize,
        /// The limit in force, in bytes.
        limit: usize,
    },
    /// The replacement policy keeps what is stored instead.
    #[error("not stored: the replacement policy keeps what is stored instead")]
    NotAdmitted,
    /// The item does not fit `bytes_max` even with everything else evicted.
    #[error(
        "item of {got} bytes does not fit into bytes_max = {limit}, even with all other items evicted"
    )]
    NoRoom {
        /// Bytes the item takes with its header.
        got: usize,
        /// The limit in force, in bytes.
        limit: usize,
    },
}
