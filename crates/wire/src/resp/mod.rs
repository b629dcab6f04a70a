//! RESP2 and RESP3, the protocol of Redis and Valkey.
//!
//! [`request`] cuts a client's bytes into commands, [`command`] lists the effect of each command on
//! its keys, [`frame`] and [`scanner`] cut a server's bytes into replies, [`response`] reads and
//! writes replies. A [`Pipeline`] is the client's side of a connection: its commands, and the
//! [`Reply`] to each. `docs/protocols/redis.md` states what is interpreted, forwarded and refused.
//!
//! **Read first:** [`request::decode`], then [`command::find`].

pub mod command;
pub mod elements;
pub mod frame;
mod length;
mod limits;
pub mod pipeline;
mod reply;
pub mod request;
pub mod response;
pub mod scanner;

pub use command::Command;
pub use frame::{Frame, Kind};
pub use limits::Limits;
pub use pipeline::Pipeline;
pub use reply::Reply;
pub use request::{Passing, Request};
pub use response::Version;
pub use scanner::Scanner;

/// The name of this codec in errors.
const PROTOCOL: &str = "redis";
