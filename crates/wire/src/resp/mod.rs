//! RESP2 and RESP3, the protocol of Redis and Valkey.
//!
//! [`request`] cuts a client's bytes into commands, [`command`] says what a command does to which
//! keys, [`frame`] and [`scanner`] cut a server's bytes into replies, [`response`] reads and writes
//! them. A [`Pipeline`] is a client's side: its commands, and each [`Reply`] to them.
//! `docs/protocols/redis.md` says on one page what is read, passed and refused.
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
