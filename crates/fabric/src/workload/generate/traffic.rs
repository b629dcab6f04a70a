//! Hadoop and WebSearch: TCP flows at random times between uniformly drawn VMs, 30 % load.

use rand_pcg::Pcg64;

use super::{exponential, pair, sizes::Sizes};
use crate::{
    topology::Topology,
    workload::{Flow, Protocol, Workload},
};

/// Load of the servers' links, as a share of their rate.
const LOAD: f64 = 0.30;

/// Duration of the paper's traces.
const DURATION_NS: f64 = 25e6;

/// Approximate number of flows of the complete workload.
pub(super) fn rows(sizes: &Sizes, topology: &Topology) -> f64 {
    DURATION_NS / gap_ns(sizes, topology)
}

/// Mean time from one flow to the next.
fn gap_ns(sizes: &Sizes, topology: &Topology) -> f64 {
    let link_bytes_per_ns = topology.host_link.rate_bps as f64 / 8e9;
    sizes.mean() / (LOAD * link_bytes_per_ns * f64::from(topology.servers()))
}

pub(super) fn draw(sizes: &Sizes, topology: &Topology, share: f64, random: &mut Pcg64) -> Workload {
    let gap_ns = gap_ns(sizes, topology);
    let end_ns = DURATION_NS * share;
    let mut flows = Vec::new();
    let mut at_ns = exponential(gap_ns, random);
    while at_ns < end_ns {
        let (source, destination) = pair(topology, random);
        let id = flows.len() as u32 + 1;
        let bytes = sizes.draw(random);
        flows.push(Flow { source, destination, start_ns: at_ns as u64, id, bytes });
        at_ns += exponential(gap_ns, random);
    }
    Workload { protocol: Protocol::Tcp, flows }
}
