//! Caching of HTTP responses: what may be stored, for which clients, for how long (RFC 9111, RFC
//! 5861).
//!
//! **What it is.** The rules of a shared cache, without the cache. [`Target`] and [`forwarded`] say
//! what of a request its origin is shown. [`Entry::admit`] judges a response, [`Record`] is how it
//! lies in a store, and [`Entry::release`] is its only way to a client, judged for each: whole, a
//! range, or "not modified".
//!
//! **What it is not.** No storage, no sockets, no clock: `now` is the time since the Unix epoch,
//! last argument, because HTTP uses dates.
//!
//! **When in doubt, no.** What cannot be read forbids: a response is not stored, a stored one is
//! asked about.
//!
//! **Read first:** `release.rs`, then `entry.rs` and the table in `forward.rs`.
#![forbid(unsafe_code)]

mod age;
mod directives;
mod entry;
mod forward;
mod headers;
mod key;
mod receiver;
mod record;
mod release;
mod select;
mod target;

pub use entry::{Entry, NotStored, Refreshed};
pub use forward::{Added, Treatment, forwarded, treatment};
pub use headers::{end_to_end, for_the_origin};
pub use key::{Selecting, primary_key, secondary_key};
pub use receiver::Receiver;
pub use record::{Damaged, Record};
pub use release::{Ground, Released, Withheld};
pub use target::{BadTarget, Target};

#[cfg(test)]
mod closed;
#[cfg(test)]
mod poisoning;
#[cfg(test)]
mod rfc9111;
