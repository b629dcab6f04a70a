//! Microbursts: UDP bursts between uniformly drawn VMs, 99 % of them shorter than 158 µs [55], in
//! such a number that over 2,600 of 10,240 VMs are destinations of at least 10 (§5). The paper does
//! not state the rest; our choice: lengths are exponential, a burst's datagrams of 1,000 bytes are
//! 2 µs apart, and all bursts begin within 25 ms.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::{exponential, pair};
use crate::{
    topology::Topology,
    workload::{Flow, Protocol, Workload},
};

const BURST_NS_P99: f64 = 158_000.0;
/// Ratio of the 99th percentile to the mean of an exponential distribution: ln 100.
const P99_OVER_MEAN: f64 = 4.605_170_185_988_091;
const GAP_NS: f64 = 2_000.0;
const BYTES: u64 = 1_000;
const DURATION_NS: f64 = 25e6;
/// A mean that makes a quarter of the VMs destinations of ten bursts or more.
const BURSTS_PER_VM: f64 = 7.85;

/// Approximate number of datagrams of the complete workload.
pub(super) fn rows(topology: &Topology) -> f64 {
    f64::from(topology.vms()) * BURSTS_PER_VM * (1.0 + BURST_NS_P99 / P99_OVER_MEAN / GAP_NS)
}

pub(super) fn draw(topology: &Topology, share: f64, random: &mut Pcg64) -> Workload {
    let bursts = (f64::from(topology.vms()) * BURSTS_PER_VM * share).ceil() as u32;
    let mut flows = Vec::new();
    for id in 1..=bursts {
        let begin_ns = random.random::<f64>() * DURATION_NS * share;
        let (source, destination) = pair(topology, random);
        let datagrams = 1 + (exponential(BURST_NS_P99 / P99_OVER_MEAN, random) / GAP_NS) as u32;
        flows.extend((0..datagrams).map(|index| {
            let start_ns = (begin_ns + f64::from(index) * GAP_NS) as u64;
            Flow { source, destination, start_ns, id, bytes: BYTES }
        }));
    }
    flows.sort_by_key(|flow| (flow.start_ns, flow.id));
    Workload { protocol: Protocol::Udp, flows }
}
