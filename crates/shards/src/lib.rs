//! The data directory of the elastic database: its lock, its shards, and their files.
//!
//! **What it is.** [`directory`] locks a data directory and reads its list of shards; [`open`]
//! opens the shards for `enroute db`. [`offline`] checks and restores what no process serves, and
//! [`snapshot`] converts between a data directory and an RDB file of Redis.
//!
//! **What it is not.** No service: no sockets or commands, and no thread outlives a call.
//!
//! **Read first:** `opening.rs`, then `store::elastic`.
#![forbid(unsafe_code)]

pub mod directory;
pub mod offline;
mod opening;
pub mod snapshot;

pub use opening::{Locks, open};
