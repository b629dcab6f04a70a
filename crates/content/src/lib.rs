//! Caching of HTTP responses: what may be stored, for which clients, for how long (RFC 9111, RFC
//! 5861).
//!
//! **What it is.** The rules of a shared cache, and its memory. [`Target`] and [`forwarded`]
//! determine what of a request is sent to the origin. [`Entry::admit`] decides whether a response
//! is stored, [`Record`] is its form in [`Storage`], and [`Entry::release`] is its only way to a
//! client. It is called for each client, and returns the whole response, a range, or "not
//! modified". [`Outcome`] is the result of a fetch for the requests that waited for it; [`Marks`]
//! names targets for which requests do not wait.
//!
//! **What it is not.** No fetches, no sockets, no clock: `now` is the time since the Unix epoch,
//! last argument, because HTTP uses dates.
//!
//! **When in doubt, no.** A header that cannot be parsed counts as the strictest one: the response
//! is not stored, or a stored response is revalidated.
//!
//! **Read first:** `release.rs`, then `entry.rs` and the table in `forward.rs`.
#![forbid(unsafe_code)]

mod age;
mod directives;
mod entry;
mod forward;
mod headers;
mod key;
mod marks;
mod owed;
mod receiver;
mod record;
mod release;
mod reply;
mod select;
mod shared;
mod storage;
mod target;

pub use entry::{Entry, NotStored, Refreshed};
pub use forward::{
    Added, Treatment, Unforwardable, check_framing, forwarded, treatment, unusable_answer,
};
pub use headers::{end_to_end, for_the_origin};
pub use key::{Selecting, primary_key, secondary_key};
pub use marks::{MARKED_AFTER, Marks};
pub use owed::Owed;
pub use receiver::Receiver;
pub use record::{Damaged, Record, places};
pub use release::{Ground, Released, Withheld};
pub use reply::{VIA, finish, refuse, respond};
pub use shared::{How, Outcome, Waited, is_failure};
pub use storage::{Limits, Sizes, Storage};
pub use target::{BadTarget, Target};

#[cfg(test)]
mod closed;
#[cfg(test)]
mod poisoning;
#[cfg(test)]
mod rfc9111;
