//! Calls between microservices, after Alibaba's traces [36] and the reuse the paper reports: over
//! 95 % of the calls go to 5 % of the services (§2.3), 24 % of the containers are called at all,
//! over 18,000 of 410,865 in at least 10 calls (§5).
//!
//! Services are called with a Zipf law, and have more containers the more they are called, though
//! less than in proportion. The two exponents are fitted to those figures. What the paper does not
//! say is ours: 100 calls a millisecond for each thousand containers, of 128 to 16,384 bytes with
//! equal probability for each size class.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::{exponential, other};
use crate::{
    topology::Topology,
    workload::{Flow, Protocol, Workload},
};

/// Services for each 410,865 containers, as the trace's authors count.
const SERVICES: u32 = 20_000;
const CONTAINERS: u32 = 410_865;

/// Exponent of the decrease of calls from one service to the next.
const POPULARITY: f64 = 1.48;

/// Exponent by which a service's containers grow with its calls.
const REPLICATION: f64 = 0.4;

/// Calls per container in the complete workload, and its duration.
const CALLS_PER_CONTAINER: f64 = 1_000_000.0 / 410_865.0;
const DURATION_NS: f64 = 25e6;

/// Sizes are 2^7 to 2^14 bytes.
const SIZE_BITS: (f64, f64) = (7.0, 14.0);

/// Number of calls of the complete workload.
pub(super) fn calls(topology: &Topology) -> f64 {
    f64::from(topology.vms()) * CALLS_PER_CONTAINER
}

pub(super) fn draw(topology: &Topology, share: f64, random: &mut Pcg64) -> Workload {
    let services = Services::new(topology.vms(), random);
    let calls = calls(topology);
    let gap_ns = DURATION_NS / calls;
    let mut flows = Vec::with_capacity((calls * share) as usize);
    let mut at_ns = 0.0;
    for id in 1..=(calls * share).ceil() as u32 {
        at_ns += exponential(gap_ns, random);
        let destination = services.container(random);
        let source = other(topology, destination, random);
        let bits = SIZE_BITS.0 + random.random::<f64>() * (SIZE_BITS.1 - SIZE_BITS.0);
        let bytes = libm::exp2(bits) as u64;
        flows.push(Flow { source, destination, start_ns: at_ns as u64, id, bytes });
    }
    Workload { protocol: Protocol::Tcp, flows }
}

/// Which containers belong to which service, and how often each service is called.
struct Services {
    /// For each service, the share of calls to it and those before it.
    called: Vec<f64>,
    /// For each service, the end of its containers in `containers`.
    ends: Vec<u32>,
    /// All containers, shuffled: a service's are anywhere.
    containers: Vec<u32>,
}

impl Services {
    fn new(vms: u32, random: &mut Pcg64) -> Self {
        let count = (u64::from(SERVICES) * u64::from(vms)).div_ceil(u64::from(CONTAINERS));
        let cumulate = |exponent: f64| {
            let mut sum = 0.0;
            let mut sums: Vec<f64> = (1..=count)
                .map(|rank| {
                    sum += libm::pow(rank as f64, -exponent);
                    sum
                })
                .collect();
            sums.iter_mut().for_each(|each| *each /= sum);
            sums
        };
        let called = cumulate(POPULARITY);
        let replicated = cumulate(POPULARITY * REPLICATION);
        // Every service has a container of its own, the others are shared out.
        let shared = f64::from(vms) - count as f64;
        let end = |(index, part): (usize, &f64)| (index + 1) as u32 + (part * shared) as u32;
        let ends = replicated.iter().enumerate().map(end).collect();
        let mut containers: Vec<u32> = (0..vms).collect();
        for last in (1..containers.len()).rev() {
            containers.swap(last, random.random_range(0..=last));
        }
        Self { called, ends, containers }
    }

    /// The container a call goes to.
    fn container(&self, random: &mut Pcg64) -> u32 {
        let share = random.random::<f64>();
        let service = self.called.partition_point(|&sum| sum <= share).min(self.ends.len() - 1);
        let begin = if service == 0 { 0 } else { self.ends[service - 1] };
        self.containers[random.random_range(begin..self.ends[service]) as usize]
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_twentieth_of_the_services_takes_nearly_all_calls() {
        let services = Services::new(CONTAINERS, &mut Pcg64::seed_from_u64(1));
        let twentieth = services.called.len() / 20;
        assert_eq!(twentieth, 1_000);
        let share = services.called[twentieth - 1];
        assert!((0.95..0.99).contains(&share), "{share}");
    }
}
