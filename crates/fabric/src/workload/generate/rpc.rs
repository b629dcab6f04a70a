//! Calls between microservices, after Alibaba's traces [36] and the reuse the paper reports: over
//! 95 % of the calls go to 5 % of the services (§2.3), 24 % of the containers are called at all,
//! over 18,000 of 410,865 in at least 10 calls (§5).
//!
//! A container is called the less the higher its rank, by the square of the rank. The number of
//! calls and the callers are fitted to the shares of hits by layer in Table 5: a part of the calls
//! of a container comes from the same few callers. What the paper does not say is ours: some 100
//! calls a millisecond for each thousand containers, of 128 to 1,024 bytes with equal probability
//! for each size class.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::{exponential, other, shuffled};
use crate::{
    topology::Topology,
    workload::{Flow, Protocol, Workload},
};

/// Calls decrease as 1 / (rank + this share of all containers)².
const HEAD: f64 = 1_000.0 / 410_865.0;

/// Callers that a container has for itself, and the share of its calls that come from them.
const CALLERS: usize = 4;
const FROM_CALLERS: f64 = 0.3;

/// Calls per container in the complete workload, and its duration.
const CALLS_PER_CONTAINER: f64 = 3_500_000.0 / 410_865.0;
const DURATION_NS: f64 = 75e6;

/// Sizes are 2^7 to 2^10 bytes.
const SIZE_BITS: (f64, f64) = (7.0, 10.0);

/// Number of calls of the complete workload.
pub(super) fn calls(topology: &Topology) -> f64 {
    f64::from(topology.vms()) * CALLS_PER_CONTAINER
}

pub(super) fn draw(topology: &Topology, share: f64, random: &mut Pcg64) -> Workload {
    let containers = f64::from(topology.vms());
    let by_popularity = shuffled(topology.vms(), random);
    let callers: Vec<[u32; CALLERS]> = (0..topology.vms())
        .map(|container| std::array::from_fn(|_| other(topology, container, random)))
        .collect();
    let calls = calls(topology);
    let gap_ns = DURATION_NS / calls;
    let mut flows = Vec::with_capacity((calls * share) as usize);
    let mut at_ns = 0.0;
    for id in 1..=(calls * share).ceil() as u32 {
        at_ns += exponential(gap_ns, random);
        let destination = by_popularity[rank(random.random(), containers) as usize];
        let source = if random.random::<f64>() < FROM_CALLERS {
            callers[destination as usize][random.random_range(0..CALLERS)]
        } else {
            other(topology, destination, random)
        };
        let bits = SIZE_BITS.0 + random.random::<f64>() * (SIZE_BITS.1 - SIZE_BITS.0);
        let bytes = libm::exp2(bits) as u64;
        flows.push(Flow { source, destination, start_ns: at_ns as u64, id, bytes });
    }
    Workload { protocol: Protocol::Tcp, flows }
}

/// The rank of a called container, from 0: the inverse of the cumulative share of calls.
fn rank(share: f64, containers: f64) -> f64 {
    let head = HEAD * containers;
    let part = share * containers / (containers + head);
    head * part / (1.0 - part)
}
