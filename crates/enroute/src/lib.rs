//! # enroute: the wiring
//!
//! Tier 2, the only crate which reads a clock, opens a socket, spawns a thread or sees the
//! environment. It wires the parts below it into one program; whoever reads a protocol here has
//! found a bug.
//!
//! It is a library beside its `main.rs` only so that tests, examples and subcommands can use its
//! parts in-process. It is not: an interface for other projects.
//!
//! Read first: [`cli`], which names each subcommand, then the module of the same name.
//!
//! | module | what it is |
//! |---|---|
//! | [`admin`] | statistics, metrics and live changes over HTTP |
//! | [`certificate`] | when certificates end, said in time |
//! | [`cli`] | arguments, help, exit codes; one file per subcommand |
//! | [`config`] | the configuration file and what it means |
//! | [`runtime`] | the cache at work: sockets, threads, storage behind locks |
//! | [`database`] | the elastic database at work: sockets, threads, disks |
//! | [`demo`] | the paper's experiment on one machine |
//! | [`fabric`] | experiments with simulated data-centre fabrics |
//! | `edge` | TLS for domains whose keys are elsewhere, their content nearby; feature `edge` |
//! | [`intercept`] | diverting connections into the cache, by nftables |
//! | [`keyserver`] | private keys that never leave: the service, and the edge's client for it |
//! | [`link`] | an emulated path: delay, jitter, loss, bandwidth, cut |
//! | [`workload`] | load: which keys, how fast, how long it took |
//! | [`private_file`] | files with secrets, refused where other users can read them |
//! | [`state`] | the agents and the placer of the state layer over a Redis Cluster |
//! | [`switch`] | the controller of the kernel's data plane, and the agent of a server |
//! | [`report`] | what people see: a live line, a final table |
//! | `foreign` | clients that speak another protocol than a port serves |
//! | `sync` | locks and atomics, which a model of threads replaces |
//! | `lock` | a file that one process at a time may hold |
//! | `memory` | what the process takes of the machine's memory |
//! | `logging` | where log lines go and how detailed they are |

// Allowed again in the files which need it, `link/tunnel/device.rs`,
// `database/ring.rs` and `lock.rs`.
#![deny(unsafe_code)]

pub mod admin;
pub mod certificate;
pub mod cli;
pub mod config;
pub mod database;
pub mod demo;
#[cfg(feature = "edge")]
pub mod edge;
pub mod fabric;
mod foreign;
pub mod intercept;
pub mod keyserver;
pub mod link;
mod lock;
mod logging;
mod memory;
pub mod private_file;
pub mod report;
pub mod runtime;
pub mod state;
pub mod switch;
mod sync;
pub mod workload;
