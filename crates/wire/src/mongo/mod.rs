//! MongoDB's wire protocol: OP_MSG, OP_COMPRESSED and the legacy handshake opcodes.
//!
//! **What it is.** [`frame`] cuts a byte stream into frames that keep their original bytes;
//! [`request`] gives a frame its command, namespace and document sequences; [`command`] is the
//! table of what each command does; [`touch`] names what a request writes to; [`response`] reads
//! and writes replies; [`key`] makes equal values equal bytes; [`change`] reads the events of a
//! change stream; [`scram`] logs in connections of our own.
//!
//! **What it is not.** Not a driver and not a general BSON library: documents are read in place and
//! only as deep as requested. What a cache may answer is decided in `cache`.
//!
//! **Read first:** [`frame::decode`], [`request::Request::parse`], [`touch::touches`].
//! The protocol's picture is in `docs/protocols/mongodb.md`.

pub mod bson;
pub mod change;
pub mod command;
pub mod compressed;
#[cfg(test)]
mod fixture;
pub mod frame;
pub mod handshake;
pub mod json;
pub mod key;
pub mod legacy;
pub mod message;
mod reader;
pub mod request;
pub mod response;
pub mod scram;
pub mod touch;
