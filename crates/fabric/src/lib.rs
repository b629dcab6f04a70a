//! A packet-level simulator of data-centre fabrics that resolve virtual addresses.
//!
//! **What it is.** Event-driven, deterministic from one seed, pure: a [`Simulation`] is built from
//! a [`Config`], a [`topology::Topology`], the [`workload::Flow`]s and a [`Scheme`], advanced in
//! bounded slices by [`Simulation::step`], and answers with [`Metrics`].
//!
//! **What it is not.** No files, no clock, no command line, no threads of its own (it has tasks for
//! two, [`Simulation::step_together`]): those are `enroute`'s. What a SwitchV2P switch decides is
//! `policy::v2p`; this crate carries packets to it and from it.
//!
//! **Read first:** [`Simulation`], then `scheme/`: one file for each way of resolving addresses.
#![forbid(unsafe_code)]

mod config;
mod crossing;
mod directory;
mod domain;
mod ecmp;
mod error;
mod followed;
mod metrics;
mod model;
mod network;
mod packet;
pub mod rack;
mod random;
mod scheme;
mod simulation;
mod tcp;
pub mod topology;
mod wheel;
pub mod workload;
mod world;

pub use config::{Config, Migration, Transport};
pub use error::Error;
pub use followed::{FOLLOWED_MAX, Followed, Place, Step};
pub use metrics::{FlowResult, Layer, Metrics, SAMPLES_MAX, Sample, SwitchMetrics};
pub use model::Model;
pub use scheme::{Placement, Scheme, Variant};
pub use simulation::{Progress, Simulation};
pub use world::Task;
