//! SwitchV2P: what a switch does with the addresses it sees (the paper's §3).
//!
//! A [`Switch`] is handed the [`Header`] of every packet that passes, rewrites it, and returns
//! further packets to send ([`Outcome`]). [`TABLE_1`] is the paper's Table 1, literally. The module
//! knows no topology, clock or packet format, and needs only `core` and `alloc`, so that a
//! simulator and a live data plane can share it.
//!
//! **Read first:** [`Switch::process`]; then [`Quirks`], where the paper's text and its authors'
//! code part ways.

mod cache;
mod hash;
mod quirks;
mod role;
mod switch;
#[cfg(test)]
mod tests;

pub use cache::{Cache, Mapping};
pub use hash::{id_hash, reseed, vip_hash};
pub use quirks::Quirks;
pub use role::{Admission, Features, Learning, Role, Rules, Special, TABLE_1};
pub use switch::{Emit, Header, Outcome, Switch};
