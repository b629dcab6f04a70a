//! Commands about the connection: login, names, tracking, subscriptions.

pub(super) mod auth;
pub(super) mod client;
pub(super) mod hello;
pub(super) mod ping;
pub(super) mod subscribe;
pub(super) mod tracking;
pub(super) mod transaction;
