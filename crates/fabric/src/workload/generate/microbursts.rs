//! Microbursts: UDP bursts, 99 % of them shorter than 158 µs [55], in such a number that over 2,600
//! of 10,240 VMs are destinations of at least 10 (§5).
//!
//! The rest is fitted to the shares of hits by layer in Table 5: destinations are drawn by a Zipf
//! law, a pair of VMs has 1.2 bursts on average, some 100 ms apart, lengths have a Pareto tail, a
//! burst's datagrams of 1,000 bytes are 0.5 µs apart, and all bursts begin within two seconds.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::{exponential, other, shuffled};
use crate::{
    topology::Topology,
    workload::{Flow, Protocol, Workload},
};

const BURST_NS_P99: f64 = 158_000.0;
/// Exponent of the tail of lengths, and where it ends.
const TAIL: f64 = 1.5;
const BURST_NS_MAX: f64 = 1e6;
const GAP_NS: f64 = 500.0;
const BYTES: u64 = 1_000;
const DURATION_NS: f64 = 2e9;
/// Mean time from the first burst of a pair to another one.
const PAIR_NS: f64 = 100e6;
const BURSTS_PER_PAIR: f64 = 1.2;
/// A mean that makes a quarter of the VMs destinations of ten bursts or more.
const BURSTS_PER_VM: f64 = 8.15;

/// The unit of lengths: their distribution is Lomax's, whose 99th percentile is stated.
fn scale_ns() -> f64 {
    BURST_NS_P99 / (libm::pow(100.0, 1.0 / TAIL) - 1.0)
}

/// Approximate number of datagrams of the complete workload.
pub(super) fn rows(topology: &Topology) -> f64 {
    let beyond = libm::pow(1.0 + BURST_NS_MAX / scale_ns(), 1.0 - TAIL);
    let mean_ns = scale_ns() / (TAIL - 1.0) * (1.0 - beyond);
    f64::from(topology.vms()) * BURSTS_PER_VM * (0.5 + mean_ns / GAP_NS)
}

pub(super) fn draw(topology: &Topology, share: f64, random: &mut Pcg64) -> Workload {
    let bursts = (f64::from(topology.vms()) * BURSTS_PER_VM * share).ceil();
    let by_popularity = shuffled(topology.vms(), random);
    let pairs: Vec<(u32, u32, f64)> = (0..(bursts / BURSTS_PER_PAIR).ceil() as u32)
        .map(|_| {
            // The inverse of the cumulative Zipf law with exponent 1/2.
            let rank = f64::from(topology.vms()) * random.random::<f64>().powi(2);
            let destination = by_popularity[rank as usize];
            let source = other(topology, destination, random);
            (source, destination, random.random::<f64>() * DURATION_NS * share)
        })
        .collect();
    let mut flows = Vec::new();
    for id in 1..=bursts as u32 {
        let (source, destination, first_ns) = pairs[random.random_range(0..pairs.len())];
        let begin_ns = first_ns + exponential(PAIR_NS, random);
        let lomax = libm::pow(1.0 - random.random::<f64>(), -1.0 / TAIL) - 1.0;
        let datagrams = 1 + ((scale_ns() * lomax).min(BURST_NS_MAX) / GAP_NS) as u32;
        flows.extend((0..datagrams).map(|index| {
            let start_ns = (begin_ns + f64::from(index) * GAP_NS) as u64;
            Flow { source, destination, start_ns, id, bytes: BYTES }
        }));
    }
    flows.sort_by_key(|flow| (flow.start_ns, flow.id));
    Workload { protocol: Protocol::Udp, flows }
}
