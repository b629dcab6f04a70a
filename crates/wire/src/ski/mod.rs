//! SKI, the TLS Session Key Interface: requests of an edge and replies of the key server.
//!
//! One request is the body of one HTTPS `POST /`, a JSON object; so is its answer
//! (`docs/protocols/ski.md`). Fields and errors are those of
//! draft-cairns-tls-session-key-interface-01, with additions for TLS 1.3.
//!
//! **A request never contains a digest to sign:** [`Request`] contains the parts of a handshake,
//! and the key server builds the message from them. Other bytes are refused here.
//!
//! **Read first:** [`request`], then [`scheme`].

pub mod params;
pub mod request;
pub mod response;
pub mod scheme;

#[cfg(test)]
mod tests;

pub use params::{Curve, Params};
pub use request::{KeyId, Method, Operation, Request, Signature, TranscriptHash};
pub use response::{Refusal, Response};
pub use scheme::{Hash, KeyKind, Scheme};

/// The name of this codec in errors.
const PROTOCOL: &str = "ski";

/// Longest body of a request in bytes: an RSA-4096 ciphertext in base64 and a long server name.
pub const REQUEST_BYTES_MAX: usize = 2 << 10;
/// Longest body of a reply in bytes: an RSA-4096 signature in base64.
pub const RESPONSE_BYTES_MAX: usize = 1 << 10;
/// Bytes of a premaster secret (RFC 5246 §7.4.7.1).
pub const PREMASTER_BYTES: usize = 48;
/// Bytes of each side's random in a TLS handshake.
pub const RANDOM_BYTES: usize = 32;
