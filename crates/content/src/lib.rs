//! HTTP responses kept near: what may be stored, for whom, how long (RFC 9111, RFC 5861).
//!
//! **What it is.** The rules of a shared cache, without the cache. [`Entry::admit`] judges a
//! response, [`Entry::usable`] says whether a stored one answers a request, [`Record`] is how it lies
//! in a store, [`select`] makes the answer out of it: whole, a range, or "not modified".
//!
//! **What it is not.** No storage, no sockets, no clock: `now` is the time since the Unix epoch, last
//! argument, because HTTP speaks of dates.
//!
//! **Whose rules.** Storability, age and freshness are `http-cache-semantics`'s. It knows no
//! stale-while-revalidate, no ranges and no second line of one header, so those are ours, and it is
//! shown only the headers it judges by.
//!
//! **Read first:** [`Entry`], then `select.rs`.

mod age;
mod directives;
mod entry;
mod headers;
mod key;
mod record;
mod select;

pub use entry::{Entry, NotStored, Usable};
pub use headers::{end_to_end, for_the_origin};
pub use key::{Selecting, primary_key, secondary_key};
pub use record::{Damaged, Record};
pub use select::{Selected, select, select_range};

#[cfg(test)]
mod rfc9111;
