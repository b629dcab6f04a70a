//! The key server as a service, and the client with which an edge asks it.
//!
//! **What it is.** Tier 2 around crate `keyserver`: its sockets and TLS ([`server`], [`tls`]), the
//! path of one request ([`service`]), the audit log as a file ([`audit`]), sealed records in a
//! database over RESP ([`database`], [`vault`]), the policy file ([`policy`]), and the edge's
//! [`Client`].
//!
//! **What it is not.** No operation on keys and no decision who may have one: `keyserver` has both.
//! No command line: `enroute::cli` has it.
//!
//! **Read first:** [`service`], one request from end to end; then [`server`].
#![forbid(unsafe_code)]

pub mod audit;
pub mod client;
pub mod database;
pub mod policy;
mod report;
pub mod server;
pub mod service;
pub mod tls;
pub mod vault;

pub use client::{Client, Configuration as ClientConfiguration, Error as ClientError};
