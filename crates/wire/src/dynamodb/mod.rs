//! DynamoDB: JSON 1.0 over HTTP/1.1.
//!
//! A request is a `POST` whose header `X-Amz-Target` names the operation and whose body is its
//! JSON. Operations and errors: Amazon DynamoDB API Reference, version 2012-08-10.
//!
//! **Read first:** [`request`], then [`item`], [`value`], [`reply`], [`batch`] and
//! [`query`]. [`streams`] are the calls of a reader of changes.

pub mod batch;
pub mod item;
mod projection;
pub mod query;
pub mod reply;
pub mod request;
pub mod streams;
pub mod value;

pub use request::{Message, Passing};

#[cfg(test)]
mod tests;
