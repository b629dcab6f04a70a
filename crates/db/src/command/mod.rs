//! Commands as data: a row of `wire`'s table says how a command is called, where its keys stand and
//! what it is; a row here adds what is done to each key, and a small file beside does it.
//!
//! **Read first:** [`table`], then `string/set.rs`.

mod bit;
mod connection;
mod generic;
mod server;
mod string;
pub(crate) mod table;

pub(crate) use generic::{database_of as selected, rename::other_database};
