//! Commands as data: a row of `wire`'s table has a command's name, arity, key positions and flags;
//! a row here adds the access to each key, and a small file beside it executes the command.
//!
//! **Read first:** [`table`], then `string/set.rs`.

mod bit;
mod connection;
mod generic;
mod server;
mod string;
pub(crate) mod table;

pub(crate) use generic::{database_of as selected, rename::other_database};
