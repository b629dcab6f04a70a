//! Protocol codecs.
//!
//! **What it is.** One module per protocol, each with the same parts: `frame` cuts a byte stream
//! into frames, `request` and `response` interpret a frame, `command` is a table of the effect of
//! each command on its keys. A frame keeps its original bytes, so a frame that is not understood
//! can be forwarded byte for byte.
//!
//! **What it is not.** No sockets, no clock, no allocation beyond the declared limits, no caching
//! rules: whether a request *may* be answered from storage is decided in `cache`.
//!
//! **Laws**, tested for every codec: round trip; any chunking gives the same frames; no input
//! panics; no length field causes an allocation.
//!
//! **Read first:** [`mongo::frame`], then [`resp::request`].
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod detect;
pub mod dynamodb;
mod error;
pub mod http1;
pub mod http2;
pub mod memcache;
pub mod mongo;
pub mod netcache;
pub mod resp;
pub mod sigv4;
pub mod ski;

pub use error::{Error, Result};
