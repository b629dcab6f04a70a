//! # testbed: experiments with the services
//!
//! Emulated network paths, simulated fabrics, load, and what people see of a run.
//!
//! It is not: part of any service. It imports no service.
//!
//! Read first: [`command`], which names each subcommand, then the module of the same name.
//!
//! | module | what it is |
//! |---|---|
//! | [`command`] | the subcommands of the laboratory: arguments and help |
//! | [`fabric`] | experiments with simulated data-center fabrics |
//! | [`link`] | an emulated path: delay, jitter, loss, bandwidth, cut |
//! | [`report`] | what people see: a live line, a final table |
//! | [`workload`] | load: which keys, how fast, how long it took |

// Allowed again in `link/tunnel/device.rs`.
#![deny(unsafe_code)]

pub mod command;
pub mod fabric;
pub mod link;
pub mod report;
pub mod workload;
