//! The key server at work, and the client an edge asks it with.
//!
//! Read first: [`service`], one request from end to end; then [`server`].

pub mod audit;
pub mod client;
pub mod database;
pub mod lane;
pub mod policy;
pub mod server;
pub mod service;
pub mod tls;
pub mod vault;

pub use client::{Client, Configuration as ClientConfiguration, Error as ClientError};
