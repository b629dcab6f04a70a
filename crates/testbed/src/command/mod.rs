//! The laboratory's subcommands: arguments and execution.
//!
//! A subcommand is one file with `Arguments` and `Arguments::run`. The binary
//! (`enroute/src/cli.rs`) names the subcommands and listens for the signals that end them.

use std::sync::{Arc, atomic::AtomicBool};

pub mod demo;
pub mod fabric;
pub mod link;
pub mod load;
pub mod measure;
pub mod rack;
pub mod speed;
pub mod v2p;

/// Starts to listen for the signal that ends a command; the signal sets the flag. Before a command
/// calls it, the signal kills the process.
pub type Stop = fn() -> anyhow::Result<Arc<AtomicBool>>;
