//! The session-key service: permitted uses of private keys, and their storage.
//!
//! **What it is.** The decisions and the arithmetic of `enroute keyserver`: which edge may have
//! which operation on which key ([`policy`], [`rate`]), the operations themselves ([`key`],
//! [`message`], [`premaster`]), how keys are stored sealed in a database ([`record`], [`keyring`],
//! [`vault`]) and parsed in memory ([`cache`]), and the log that shows later what was done
//! ([`audit`]).
//!
//! **What it is not.** No sockets, no clock, no files: `enroute` brings requests, time and sealed
//! records. The numbers which signing itself needs are drawn inside the cryptographic library.
//!
//! **Laws**, tested: nothing is signed that was not built here; what RSA decryption answers does
//! not depend on the padding; a record opens only under its own key id and key-encryption key;
//! every change to an audit log but cutting off its end is found.
//!
//! **Read first:** [`key`], then [`policy`].
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod audit;
pub mod cache;
mod error;
pub mod key;
pub mod keyring;
pub mod message;
pub mod policy;
pub mod premaster;
pub mod rate;
mod raw_rsa;
pub mod record;
pub mod vault;

pub use error::{Error, Result};
pub use key::SigningKey;
pub use keyring::Keyring;
pub use policy::Policy;

/// Fills its argument with random bytes, or panics; tier 2 passes the system's generator.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);
