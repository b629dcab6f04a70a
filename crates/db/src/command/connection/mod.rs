//! The connection: who is at the other end, and what it wants to be told.

pub(super) mod auth;
pub(super) mod client;
pub(super) mod hello;
pub(super) mod ping;
pub(super) mod subscribe;
pub(super) mod tracking;
pub(super) mod transaction;
