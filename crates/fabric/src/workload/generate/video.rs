//! 8K video: 64 senders at 48 Mb/s [57], no destination shared (§5). Datagrams of 1,000 bytes are
//! 166.7 µs apart; streams begin at random within a period and last a little over two seconds.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::pair;
use crate::{
    topology::Topology,
    workload::{Flow, Protocol, Workload},
};

pub(super) const STREAMS: u32 = 64;
const BYTES: u64 = 1_000;
/// 1,000 bytes at 48 Mb/s.
const PERIOD_NS: f64 = 8_000.0 / 0.048;
/// Datagrams of a stream in the paper's artifact.
pub(super) const DATAGRAMS: f64 = 12_024.0;

pub(super) fn draw(topology: &Topology, share: f64, random: &mut Pcg64) -> Workload {
    let mut taken = Vec::new();
    let mut streams = Vec::new();
    while streams.len() < STREAMS as usize {
        let (source, destination) = pair(topology, random);
        if !taken.contains(&source) && !taken.contains(&destination) {
            taken.extend([source, destination]);
            streams.push((source, destination, random.random::<f64>() * PERIOD_NS));
        }
    }
    let datagrams = (DATAGRAMS * share).ceil() as u32;
    let mut flows = Vec::with_capacity(streams.len() * datagrams as usize);
    for index in 0..datagrams {
        for (id, &(source, destination, begin_ns)) in (1..).zip(&streams) {
            let start_ns = (begin_ns + f64::from(index) * PERIOD_NS) as u64;
            flows.push(Flow { source, destination, start_ns, id, bytes: BYTES });
        }
    }
    flows.sort_by_key(|flow| (flow.start_ns, flow.id));
    Workload { protocol: Protocol::Udp, flows }
}
