//! Key-value storage: the memory tier.
//!
//! **What it is.** [`Memory`] keeps items under a budget of items and of bytes that can change at
//! any moment, up or down. Bytes means everything: keys, values, headers, index, policy tables,
//! room left unused. What it gives up goes back to the system at once, in bounded steps. Which item
//! leaves when there is no more room is one of six [`Replacement`] policies.
//!
//! **What it is not.** Not shared: one owner, `&mut self`; shards and locks belong to the binary.
//! No clock: `now` is an argument. No hashing: the caller brings a 64-bit hash of the key, keyed
//! against attackers if it has any. No rules about what may be cached: that is `cache`. No disk.
//!
//! **Read first:** [`Memory`], then `log.rs` (where items lie), `index.rs` (how they are found),
//! `replacement.rs` (how one is chosen to leave). Why it is built so:
//! `docs/decisions/0001-memory-tier-is-a-log-of-mapped-segments.md`.
#![deny(unsafe_code)]

mod config;
mod error;
mod index;
mod item;
mod log;
#[allow(unsafe_code)] // The only file that maps memory.
mod mapping;
mod memory;
mod replacement;
mod slots;
mod stats;

pub use config::{Config, Replacement};
pub use error::Refused;
pub use item::Key;
pub use memory::{Insert, Memory, Peek};
pub use stats::Stats;
