//! The key server at work, and the client an edge asks it with.
//!
//! Read first: [`client`].

pub mod client;

pub use client::{Client, Configuration as ClientConfiguration, Error as ClientError};
