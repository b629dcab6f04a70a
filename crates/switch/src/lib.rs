//! NetCache in the kernel's data plane: hot items answered before the server sees the packet.
//!
//! **What it is.** The XDP program (`bpf/`), the maps it shares with user space ([`layout`]), the
//! loader ([`plane`], one of the two named exceptions that touch the kernel), and the pure parts:
//! the [`controller`] which decides what is cached ([`control`] carries that out), the [`agent`] at
//! each server which keeps it coherent, and the [`allocation`] of values of different size to
//! register arrays.
//!
//! **What it is not.** No sockets, no clock, no threads: `enroute switch` carries packets between
//! controller and agents and says what time it is. Not a router: a packet that is not answered
//! passes, byte for byte.
//!
//! **Read first:** `bpf/netcache.h`, then [`agent`]; `docs/protocols/netcache.md` has the argument
//! why no stale value is served, and `tests/every_interleaving_is_coherent.rs` checks it.

pub mod agent;
pub mod allocation;
pub mod asking;
pub mod attach;
pub mod control;
pub mod controller;
pub mod explain;
pub mod flood;
pub mod frame;
pub mod install;
pub mod layout;
mod loading;
pub mod lookup;
pub mod mapped;
pub mod measure;
pub mod name;
pub mod object;
pub mod plane;
pub mod saved;
pub mod v2p;

mod error;

pub use error::Error;
