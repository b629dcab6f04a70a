//! # testbed: experiments with the services
//!
//! Emulated network paths, simulated fabrics, a rack in network namespaces, demonstrations, load.
//!
//! It is not part of any service and imports none: the binary passes it the services it needs
//! ([`services`]), or it runs the binary as a child process ([`demo`]).
//!
//! Read first: [`command`], which names each subcommand, then the module of the same name.
//!
//! | module | what it is |
//! |---|---|
//! | `clock` | clocks of the kernel |
//! | [`command`] | the subcommands of the laboratory: arguments and help |
//! | [`demo`] | demonstrations on one machine: the program, an emulated path, clients |
//! | [`fabric`] | experiments with simulated data-center fabrics |
//! | [`keyserver`] | load for a key server, and the cost of its operations |
//! | [`link`] | an emulated path: delay, jitter, loss, bandwidth, cut |
//! | [`measure`] | cost and savings of the data plane of `enroute switch` |
//! | [`rack`] | the rack of the NetCache paper in network namespaces |
//! | [`report`] | output for people: live lines, a final table |
//! | [`services`] | services that experiments run in their own process, passed in by the program |
//! | [`v2p`] | SwitchV2P switches in a fat tree of network namespaces |
//! | [`workload`] | load: choice of keys, rate, latency |

// Allowed again in `demo/program.rs`, `link/tunnel/device.rs`, `rack/arrival.rs`, `v2p/offload.rs`
// and `v2p/unnamed.rs`.
#![deny(unsafe_code)]

mod clock;
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
