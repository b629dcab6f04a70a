//! The key server as a service, and the client with which an edge asks it.
//!
//! Read first: [`service`], one request from end to end; then [`server`].

pub mod audit;
pub mod client;
pub mod database;
pub mod policy;
pub mod server;
pub mod service;
pub mod tls;
pub mod vault;

pub use client::{Client, Configuration as ClientConfiguration, Error as ClientError};
