//! # testbed: experiments with the services
//!
//! Emulated network paths, simulated fabrics, a rack in network namespaces, demonstrations, load.
//!
//! It is not: part of any service. It imports none: the program passes it what it needs
//! ([`services`]), or it runs the program as a child ([`demo`]).
//!
//! Read first: [`command`], which names each subcommand, then the module of the same name.
//!
//! | module | what it is |
//! |---|---|
//! | [`command`] | the subcommands of the laboratory: arguments and help |
//! | [`demo`] | demonstrations on one machine: the program, an emulated path, clients |
//! | [`fabric`] | experiments with simulated data-center fabrics |
//! | [`keyserver`] | load for a key server, and what its operations cost |
//! | [`link`] | an emulated path: delay, jitter, loss, bandwidth, cut |
//! | [`measure`] | what the data plane of `enroute switch` costs and saves |
//! | [`rack`] | the rack of the NetCache paper in network namespaces |
//! | [`report`] | output for people: live lines, a final table |
//! | [`services`] | services that experiments run in their own process, passed in by the program |
//! | [`v2p`] | SwitchV2P switches in a fat tree of network namespaces |
//! | [`workload`] | load: choice of keys, rate, latency |

// Allowed again in `demo/program.rs`, `link/tunnel/device.rs`, `rack/arrival.rs`, `v2p/offload.rs` and
// `v2p/unnamed.rs`.
#![deny(unsafe_code)]

pub mod command;
pub mod demo;
pub mod fabric;
pub mod keyserver;
pub mod link;
pub mod measure;
pub mod rack;
pub mod report;
pub mod services;
pub mod v2p;
pub mod workload;
