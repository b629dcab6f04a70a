//! # enroute: the wiring
//!
//! Tier 2: of the crates of the program only this one and those that `CONTRIBUTING.md` names beside
//! it read a clock, open a socket, start a thread or read the environment. It wires the crates
//! below it into one program. Protocol code in this crate is a bug.
//!
//! It is a library beside its `main.rs` only so that tests, examples and subcommands can use its
//! parts in-process. It is not: an interface for other projects.
//!
//! Read first: [`cli`], which names each subcommand, then the module of the same name.
//!
//! | module | what it is |
//! |---|---|
//! | [`admin`] | statistics, metrics and live changes over HTTP |
//! | [`cli`] | arguments, help, exit codes; one file per subcommand |
//! | [`config`] | the configuration file and what it means |
//! | [`runtime`] | the cache as a service: sockets, threads, storage behind locks |
//! | [`database`] | the elastic database as a service: sockets, threads, disks |
//! | `edge` | TLS for domains with keys on a key server, and a content cache; feature `edge` |
//! | [`state`] | the agents and the placer of the state layer over a Redis Cluster |
//! | [`switch`] | the controller of the kernel's data plane, and the agent of a server |
//! | `sync` | locks and atomics, replaced by a thread model in tests |
//! | `users` | users files of the database and of state agents |
//! | `logging` | where log lines go and how detailed they are |

#![forbid(unsafe_code)]

pub mod admin;
pub mod cli;
pub mod config;
pub mod database;
#[cfg(feature = "edge")]
pub mod edge;
mod logging;
pub mod runtime;
pub mod state;
pub mod switch;
mod sync;
mod users;

/// Most threads that one option of a service may ask for.
pub(crate) const THREADS_MAX: usize = 1_024;
