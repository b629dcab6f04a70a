//! Cost and savings of the data plane: a single packet, a machine behind a veth pair, a distant
//! server.

mod host;
mod link;
mod misses;
mod packets;
mod v2p;
mod veth;

use clap::ValueEnum;
use serde::Serialize;

use crate::services::Switch;

/// One number for each round.
#[derive(Debug, Serialize)]
pub struct Reading {
    /// The name of the measurement.
    pub name: String,
    /// In `unit`.
    pub values: Vec<f64>,
    /// Meaning of the numbers.
    pub unit: &'static str,
}

/// The available measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Nanoseconds per packet, by `BPF_PROG_TEST_RUN`
    Packets,
    /// The same of a SwitchV2P switch, beside the smallest forwarders
    V2p,
    /// Replies per second to a flood over a veth pair, with and without the program
    Veth,
    /// Replies per second of memcached to requests for uncached keys, with and without the program
    Misses,
    /// Reply time in microseconds, with memcached behind a link of 300 µs
    Link,
}

/// Measures everything once in each of `rounds` rounds; `show` is called with the name of each
/// step.
///
/// # Errors
/// The build has no data plane, or a kernel call fails.
pub fn measure<S: Switch>(
    what: What,
    rounds: usize,
    show: impl Fn(&str) + Sync,
) -> anyhow::Result<Vec<Reading>> {
    match what {
        What::Packets => packets::measure(rounds, show),
        What::V2p => v2p::measure(rounds, show),
        What::Veth => veth::measure::<S>(rounds, show),
        What::Misses => misses::measure::<S>(rounds, show),
        What::Link => link::measure::<S>(rounds, show),
    }
}
