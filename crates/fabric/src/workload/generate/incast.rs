//! Incast (§5.2): the first VM of each of 64 servers sends one datagram a microsecond to one VM on
//! another server, for 1 ms. Nothing of it is random; it is the paper's artifact's trace.

use crate::{
    topology::Topology,
    workload::{Flow, Protocol, Workload},
};

pub(super) const SENDERS: u32 = 64;
const GAP_NS: u32 = 1_000;
pub(super) const DATAGRAMS: f64 = 1_000.0;

/// `servers`: those with VMs, ascending.
pub(super) fn draw(topology: &Topology, servers: &[u32], share: f64) -> Workload {
    let first_vm = |server: u32| {
        let placed = topology.placement.iter().position(|&each| each == servers[server as usize]);
        placed.map_or(0, |vm| vm as u32)
    };
    let destination = first_vm(SENDERS + 1);
    let datagrams = (DATAGRAMS * share).ceil() as u32;
    let mut flows = Vec::with_capacity((SENDERS * datagrams) as usize);
    for sender in 0..SENDERS {
        let source = first_vm(sender);
        flows.extend((0..datagrams).map(|index| Flow {
            source,
            destination,
            start_ns: u64::from(index * GAP_NS),
            id: source + 1,
            bytes: u64::from(sender) + 1,
        }));
    }
    Workload { protocol: Protocol::Udp, flows }
}
