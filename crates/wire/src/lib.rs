//! Protocol codecs: bytes in, meaning out.
//!
//! **What it is.** One module per protocol, each with the same parts: `frame` cuts a byte stream
//! into frames, `request` and `response` give a frame its meaning, `command` is a table of what
//! each command does to which keys. A frame keeps its original bytes, so what is not understood
//! can be forwarded byte for byte.
//!
//! **What it is not.** No sockets, no clock, no allocation beyond the declared limits, no caching
//! rules: whether a request *may* be answered from storage is decided in `cache`.
//!
//! **Laws**, tested for every codec: round trip; any chunking gives the same frames; no input
//! panics; nothing is allocated because a length field asked for it.
//!
//! **Read first:** [`mongo::frame`], then [`resp::request`].
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod detect;
mod error;
pub mod http2;
pub mod memcache;
pub mod mongo;
pub mod netcache;
pub mod resp;
pub mod ski;

pub use error::{Error, Result};
