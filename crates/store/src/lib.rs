//! Key-value storage: items in memory, and entries on disk, a part of which is also in memory.
//!
//! **What it is.** [`Memory`] keeps items under a budget of items and of bytes that can change at
//! any moment, up or down. The bytes include everything: keys, values, headers, index, policy
//! tables, unused room. Released memory returns to the system at once, in bounded steps. Items are
//! evicted by one of seven [`Replacement`] policies. [`elastic::Elastic`] keeps entries in a log on
//! disk, and as many of them in a [`Memory`] as its budget allows. [`Miniature`] forecasts the hit
//! ratio of a [`Memory`] of any size from a sample of the keys.
//!
//! **What it is not.** Not shared: one owner, `&mut self`; shards and locks belong to the binary.
//! No clock: `now` is an argument. No threads: device operations are returned as values. No rules
//! about what may be cached: that is `cache`. Three files touch the system: `mapping.rs` maps
//! memory, `file_device.rs` alone opens files, and `ring.rs` reads and writes them by io_uring.
//!
//! **Read first:** [`Memory`], then `log.rs` (where items are stored), `index.rs` (how they are
//! found), `replacement.rs` (which item is evicted); `docs/decisions/0001-memory-store.md`. For
//! entries on disk: [`elastic`], then `elastic/log.rs`, `elastic/table.rs`, `elastic/recovery.rs`;
//! `docs/formats/elastic-store.md` and decisions 10 to 14.
#![deny(unsafe_code)]

mod aligned;
mod blocks;
#[allow(unsafe_code)] // The processor's instructions for it.
mod checksum;
mod config;
pub mod device;
pub mod elastic;
mod error;
mod file_device;
mod index;
mod item;
mod log;
#[allow(unsafe_code)] // The only file that maps memory.
mod mapping;
mod memory;
mod miniature;
mod replacement;
mod retired;
mod ring;
mod simulated_device;
mod slots;
mod stats;

pub use blocks::Blocks;
pub use config::{Config, Replacement};
pub use error::Refused;
pub use file_device::FileDevice;
pub use item::Key;
pub use mapping::Collapse;
pub use memory::{Insert, Memory, Peek};
pub use miniature::{Followed, Miniature};
pub use ring::Ring;
pub use simulated_device::{Faults, SimulatedDevice};
pub use stats::Stats;
