//! Errors of the codecs: position, what was expected, what was found.

use crate::detect::{LOOK_BYTES, Protocol};

/// Why a codec rejected bytes. "More bytes needed" is not an error; codecs return `Ok(None)`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes violate the protocol.
    #[error("{protocol}: at byte {offset}: expected {expected}, got {got}")]
    Malformed {
        /// The codec, for example `"mongodb"` or `"redis"`.
        protocol: &'static str,
        /// Offset in bytes from the start of the frame.
        offset: usize,
        /// What the protocol requires at this position.
        expected: &'static str,
        /// What was found, short enough to log.
        got: String,
    },
    /// Another protocol than the one that is expected.
    #[error("expected {}, got {}; {}", .expected.name(), .found.name(), .found.advice(*.expected))]
    Foreign {
        /// The expected protocol.
        expected: Protocol,
        /// The protocol of the first bytes.
        found: Protocol,
        /// The first bytes, for [`detect::refuse`](crate::detect::refuse).
        first: [u8; LOOK_BYTES],
    },
    /// A declared length exceeds the configured limit.
    #[error("{protocol}: at byte {offset}: expected at most {limit} {what}, got {got}")]
    TooLarge {
        /// The codec.
        protocol: &'static str,
        /// Offset in bytes from the start of the frame.
        offset: usize,
        /// The quantity that is too large, with its unit, for example `"frame bytes"`.
        what: &'static str,
        /// The limit in force.
        limit: u64,
        /// The declared size.
        got: u64,
    },
}

/// Result of every codec.
pub type Result<T, E = Error> = std::result::Result<T, E>;
