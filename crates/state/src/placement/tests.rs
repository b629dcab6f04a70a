use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const FREE: MoveCost = MoveCost { fixed_us: 0.0, per_byte_us: 0.0, dwell_s: 60.0 };

fn roomy(nodes: usize) -> Vec<Capacity> {
    vec![Capacity { bytes: 1 << 40, accesses: 1e9, replication_us: 0.0 }; nodes]
}

/// Each host has a node at 50 µs; all other nodes are 5 ms away.
fn apart(hosts: usize) -> Matrix {
    let mut delays = Matrix::unknown(hosts, hosts);
    for host in 0..hosts {
        for node in 0..hosts {
            let delay = if host == node { 50 } else { 5_000 };
            delays.set(Host(host as u16), Node(node as u16), Duration::from_micros(delay));
        }
    }
    delays
}

fn demand(number: usize, owner: u16, accesses: &[(u16, f64, f64)]) -> Demand {
    let rate = |reads, writes| Rate { reads, writes, ..Rate::default() };
    Demand {
        slot: Slot::new(number).expect("a slot"),
        owner: Node(owner),
        bytes: 100,
        accesses: accesses.iter().map(|&(host, r, w)| (Host(host), rate(r, w))).collect(),
        pinned: false,
    }
}

#[test]
fn a_slot_goes_where_most_of_its_accesses_come_from() {
    // Figure 3 of the paper: one function at host 0, two at host 1, then three at host 2.
    let (delays, nodes) = (apart(4), roomy(4));
    for (accesses, expected) in [
        (&[(0, 10.0, 1.0)][..], 0),
        (&[(0, 10.0, 1.0), (1, 20.0, 2.0)], 1),
        (&[(0, 10.0, 1.0), (1, 20.0, 2.0), (2, 30.0, 3.0)], 2),
    ] {
        let demands = [demand(1, 3, accesses)];
        let problem = Problem { delays: &delays, nodes: &nodes, demands: &demands, moving: FREE };
        let plan = problem.plan();
        assert_eq!(plan.owners, [Node(expected)], "{accesses:?}");
        assert!(plan.after_us < plan.before_us && plan.homeless.is_empty());
    }
}

#[test]
fn a_move_that_does_not_pay_for_itself_is_not_planned() {
    let (delays, nodes) = (apart(2), roomy(2));
    let demands = [demand(1, 0, &[(0, 10.0, 0.0), (1, 11.0, 0.0)])];
    // One more access a second saves 4.95 ms a second.
    for (fixed_us, expected) in [(60.0 * 4_900.0, 1), (60.0 * 5_000.0, 0)] {
        let moving = MoveCost { fixed_us, ..FREE };
        let plan = Problem { delays: &delays, nodes: &nodes, demands: &demands, moving }.plan();
        assert_eq!(plan.owners, [Node(expected)]);
    }
}

#[test]
fn writes_count_their_replication() {
    let delays = apart(2);
    let mut nodes = roomy(2);
    nodes[1].replication_us = 20_000.0;
    let demands = [
        demand(1, 0, &[(0, 10.0, 0.0), (1, 20.0, 0.0)]),
        demand(2, 0, &[(0, 0.0, 10.0), (1, 0.0, 20.0)]),
    ];
    let plan = Problem { delays: &delays, nodes: &nodes, demands: &demands, moving: FREE }.plan();
    assert_eq!(plan.owners, [Node(1), Node(0)]);
}

#[test]
fn what_is_pinned_or_unknown_stays() {
    let (mut delays, nodes) = (apart(2), roomy(2));
    let mut demands = [demand(1, 0, &[(1, 9.0, 0.0)]), demand(2, 0, &[(1, 9.0, 0.0)])];
    demands[0].pinned = true;
    let problem = Problem { delays: &delays, nodes: &nodes, demands: &demands, moving: FREE };
    assert_eq!(problem.plan().owners, [Node(0), Node(1)]);
    delays = Matrix::unknown(2, 2);
    let problem = Problem { delays: &delays, nodes: &nodes, demands: &demands, moving: FREE };
    assert_eq!(problem.plan().owners, [Node(0), Node(0)]);
}

#[test]
fn the_slot_that_would_lose_most_gets_the_last_place() {
    let (delays, mut nodes) = (apart(2), roomy(2));
    nodes[1].bytes = 100;
    let demands = [demand(1, 0, &[(1, 5.0, 0.0)]), demand(2, 0, &[(1, 50.0, 0.0)])];
    let plan = Problem { delays: &delays, nodes: &nodes, demands: &demands, moving: FREE }.plan();
    assert_eq!(plan.owners, [Node(0), Node(1)]);
}

fn random(
    random: &mut Pcg64,
    hosts: usize,
    nodes: usize,
    slots: usize,
) -> (Matrix, Vec<Capacity>, Vec<Demand>) {
    let mut delays = Matrix::unknown(hosts, nodes);
    for host in 0..hosts {
        for node in 0..nodes {
            let delay = if host == node { 30 } else { random.random_range(200..8_000) };
            delays.set(Host(host as u16), Node(node as u16), Duration::from_micros(delay));
        }
    }
    let demands: Vec<Demand> = (0..slots)
        .map(|number| {
            let users = random.random_range(1..=3);
            let accesses: Vec<_> = (0..users)
                .map(|_| {
                    (random.random_range(0..hosts) as u16, random.random_range(1.0..100.0), 5.0)
                })
                .collect();
            let owner = random.random_range(0..nodes) as u16;
            Demand { bytes: random.random_range(50..150), ..demand(number, owner, &accesses) }
        })
        .collect();
    let share = demands.iter().map(|demand| demand.bytes).sum::<u64>() / nodes as u64;
    let capacity = Capacity { bytes: share * 13 / 10 + 100, accesses: 1e9, replication_us: 0.0 };
    (delays, vec![capacity; nodes], demands)
}

/// The minimum cost over all assignments that fit.
fn optimum(problem: &Problem<'_>) -> f64 {
    let (nodes, slots) = (problem.nodes.len(), problem.demands.len());
    let mut costs = Vec::new();
    let table: Vec<Vec<f32>> = problem
        .demands
        .iter()
        .map(|demand| {
            problem.prices(demand, &mut costs);
            costs.clone()
        })
        .collect();
    let mut least = f64::INFINITY;
    for mut code in 0..nodes.pow(slots as u32) {
        let mut left: Vec<i64> = problem.nodes.iter().map(|node| node.bytes as i64).collect();
        let mut cost = 0.0;
        for (number, demand) in problem.demands.iter().enumerate() {
            left[code % nodes] -= demand.bytes as i64;
            cost += f64::from(table[number][code % nodes]);
            code /= nodes;
        }
        if left.iter().all(|&left| left >= 0) {
            least = least.min(cost);
        }
    }
    least
}

#[test]
fn small_plans_are_close_to_the_best_there_is() {
    let moving = MoveCost { fixed_us: 1e5, per_byte_us: 10.0, dwell_s: 60.0 };
    let (mut sum, mut best) = (0.0, 0.0);
    for seed in 0..60 {
        let mut source = Pcg64::seed_from_u64(seed);
        let (delays, nodes, demands) = random(&mut source, 4, 3, 9);
        let problem = Problem { delays: &delays, nodes: &nodes, demands: &demands, moving };
        let plan = problem.plan();
        assert!(plan.homeless.is_empty(), "seed {seed}");
        let mut left: Vec<i64> = nodes.iter().map(|node| node.bytes as i64).collect();
        let mut costs = Vec::new();
        let mut cost = 0.0;
        for (demand, owner) in demands.iter().zip(&plan.owners) {
            left[owner.index()] -= demand.bytes as i64;
            problem.prices(demand, &mut costs);
            cost += f64::from(costs[owner.index()]);
        }
        assert!(left.iter().all(|&left| left >= 0), "seed {seed}: a node is overfull");
        let least = optimum(&problem);
        assert!(cost <= least * 1.35 + 1.0, "seed {seed}: {cost} instead of {least}");
        sum += cost;
        best += least;
    }
    assert!(sum <= best * 1.03, "{:.4} x the optimum", sum / best);
}

#[test]
fn all_slots_of_a_large_cluster_are_placed() {
    let mut source = Pcg64::seed_from_u64(1);
    let (delays, nodes, demands) = random(&mut source, 1_000, 1_000, 16_384);
    let problem = Problem { delays: &delays, nodes: &nodes, demands: &demands, moving: FREE };
    let plan = problem.plan();
    assert!(plan.homeless.is_empty() && plan.after_us < plan.before_us / 2.0);
}
