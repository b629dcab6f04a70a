//! Pure decisions, no I/O.
//!
//! **What it is.** What to cache where, as arithmetic: [`hotkey`] finds the keys asked for most,
//! as NetCache's switch does; [`v2p`] is what a SwitchV2P switch does with the addresses that pass;
//! [`Overhead`] says how much of a process's memory is left for what it stores.
//!
//! **What it is not.** No clock, no packets, no storage: callers count what they see, end a period
//! when they like, and act on what is reported. Not the replacement policies of a cache either;
//! those live with the memory they order, in `store`.
//!
//! **Read first:** [`hotkey::Detector`]; then `docs/formats/hotkey.md`, the layout and hash
//! functions another program, in another language, must share bit for bit. For addresses:
//! [`v2p::Switch`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod error;
pub mod hotkey;
mod overhead;
pub mod v2p;

pub use error::Error;
pub use overhead::Overhead;
