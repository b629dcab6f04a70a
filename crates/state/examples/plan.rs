//! Planning time of a large cluster: 16,384 slots in use, 1,000 nodes, 1,000 hosts. Prints
//! milliseconds, one line a round. `make bench-state` runs it.
#![allow(clippy::print_stdout, reason = "it is what it is run for")]

use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use state::{
    Host, Node,
    accesses::Rate,
    delays::Matrix,
    placement::{Capacity, Demand, MoveCost, Problem},
    slot::{SLOTS, Slot},
};

const HOSTS: u16 = 1_000;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    let mut random = Pcg64::seed_from_u64(1);
    let mut delays = Matrix::unknown(usize::from(HOSTS), usize::from(HOSTS));
    for host in 0..HOSTS {
        for node in 0..HOSTS {
            let us = if host == node { 30 } else { random.random_range(300..20_000) };
            delays.set(Host(host), Node(node), Duration::from_micros(us));
        }
    }
    // Half as much room again as everything together takes.
    let room = Capacity { bytes: 25 << 20, accesses: 25_000.0, replication_us: 50.0 };
    let nodes = vec![room; usize::from(HOSTS)];
    let demands: Vec<Demand> = (0..SLOTS)
        .filter_map(Slot::new)
        .map(|slot| Demand {
            slot,
            owner: Node(random.random_range(0..HOSTS)),
            bytes: random.random_range(0..2 << 20),
            accesses: (0..random.random_range(1..5))
                .map(|_| {
                    let reads = random.random_range(0.0..800.0);
                    let rate = Rate { reads, writes: reads / 10.0, ..Rate::default() };
                    (Host(random.random_range(0..HOSTS)), rate)
                })
                .collect(),
            pinned: false,
        })
        .collect();
    let moving = MoveCost { fixed_us: 1e5, per_byte_us: 0.01, dwell_s: 30.0 };
    let problem = Problem { delays: &delays, nodes: &nodes, demands: &demands, moving };
    for _ in 0..rounds {
        let began = Instant::now();
        let plan = problem.plan();
        let took = began.elapsed();
        assert!(plan.after_us < plan.before_us, "the plan is no better");
        println!("{:.1}", took.as_secs_f64() * 1e3);
    }
}
