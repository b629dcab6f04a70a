//! # db: the elastic database's commands
//!
//! Executes RESP commands on [`store::elastic::Elastic`]: the string, bit, key, expiry and
//! transaction commands of Redis, tracking, users, and commands about the server. A [`Session`]
//! executes one command after the other on [`Shards`](keyspace::Shards) that the caller provides,
//! and writes replies as bytes; a [`Conversation`](conversation::Conversation) takes the bytes of
//! requests.
//!
//! It is not: a server (no sockets, threads or clock: `now` is an argument), a store (values live
//! in `store`), or a data-structure server: every value is a string.
//!
//! Read first: [`Session::execute`], then `command/mod.rs`.
#![forbid(unsafe_code)]

pub mod backups;
pub mod batch;
pub mod budget;
mod call;
pub mod clients;
mod command;
mod connection;
pub mod conversation;
pub mod failure;
pub mod goal;
pub mod keyspace;
pub mod latency;
pub mod lookups;
pub mod memory;
pub mod netcache;
mod number;
mod outcome;
pub mod output;
pub mod parameters;
pub mod rdb;
mod reply;
pub mod row;
pub mod server;
pub mod session;
pub mod shard;
mod stored;
pub mod tracking;
mod turns;

pub use command::table::ROWS;
pub use server::{Host, Server};
pub use session::{Session, Step};
pub use shard::Shard;
