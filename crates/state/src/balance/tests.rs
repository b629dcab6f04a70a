//! Balance of load on a simulated cluster of three nodes: a million keys, used by Zipf's law, and
//! counters of processor time that are read every 5 s.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::usage::SlotUsage;

const NODES: usize = 3;
const KEYS: usize = 1_000_000;
const EXPONENT: f64 = 0.99;
/// All accesses per second, and the processor time of one.
const ACCESSES: f64 = 200_000.0;
const ACCESS_US: f64 = 5.0;
const PERIOD: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_secs(3_600);
/// One percent of all slots.
const FEW: usize = SLOTS / 100;
/// The hottest node may have this multiple of the mean load.
const EVEN: f64 = 1.15;

struct World {
    random: Pcg64,
    owners: Vec<usize>,
    /// Accesses per second of each slot.
    rates: Vec<f64>,
    /// Microseconds, since the node has the slot.
    counters: Vec<f64>,
    bytes: Vec<u64>,
    rooms: Vec<Option<u64>>,
    pinned: BTreeSet<Slot>,
    meter: Meter,
    balancer: Balancer,
    now: Duration,
    moves: Vec<(Duration, Move)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let rates = zipf(&mut random);
        Self {
            random,
            owners: (0..SLOTS).map(|slot| slot * NODES / SLOTS).collect(),
            rates,
            counters: vec![0.0; SLOTS],
            bytes: vec![0; SLOTS],
            rooms: vec![Some(u64::MAX); NODES],
            pinned: BTreeSet::new(),
            meter: Meter::new(Duration::from_secs(10)),
            balancer: Balancer::new(Config::default()),
            now: Duration::ZERO,
            moves: Vec::new(),
        }
    }

    /// The hottest slots, as many as this, are at node 0.
    fn with_hot_slots_at_one_node(mut self, count: usize) -> Self {
        let mut slots: Vec<usize> = (0..SLOTS).collect();
        slots.sort_by(|&a, &b| self.rates[b].total_cmp(&self.rates[a]));
        slots.into_iter().take(count).for_each(|slot| self.owners[slot] = 0);
        self
    }

    /// Load of the hottest node in multiples of the mean.
    fn hottest(&self) -> f64 {
        let mut loads = [0.0; NODES];
        for (slot, &owner) in self.owners.iter().enumerate() {
            loads[owner] += self.rates[slot];
        }
        loads.iter().fold(0.0, |a, &b| f64::max(a, b)) / (loads.iter().sum::<f64>() / NODES as f64)
    }

    /// One measurement, a review, and the moves that follow.
    fn step(&mut self) {
        self.now += PERIOD;
        for slot in 0..SLOTS {
            let expected = self.rates[slot] * PERIOD.as_secs_f64();
            // The sum of twelve is nearly normal: the noise of counting.
            let noise: f64 = (0..12).map(|_| self.random.random::<f64>()).sum::<f64>() - 6.0;
            let accesses = (expected + noise * expected.sqrt()).max(0.0);
            self.counters[slot] += accesses * ACCESS_US;
        }
        for node in 0..NODES {
            let own = (0..SLOTS).filter(|&slot| self.owners[slot] == node);
            let usage = |slot: usize| SlotUsage {
                slot: Slot::new(slot).expect("a slot"),
                keys: 1,
                processor_us: Some(self.counters[slot] as u64),
            };
            let usages: Vec<SlotUsage> = own.map(usage).collect();
            self.meter.take(Node(node as u16), Some(&usages), self.now);
        }
        let load = |(slot, load): (Slot, f64)| Load {
            slot,
            owner: Node(self.owners[slot.number()] as u16),
            load,
            bytes: self.bytes[slot.number()],
            pinned: self.pinned.contains(&slot),
        };
        let slots = self.meter.rates().map(load).collect();
        let loads = Loads { unit: Unit::Processor, slots, rooms: self.rooms.clone() };
        self.balancer.review(&loads, self.now);
        for one in self.balancer.ready() {
            let slot = one.slot.number();
            assert_eq!(self.owners[slot], usize::from(one.from.0), "it is there");
            self.owners[slot] = usize::from(one.to.0);
            self.counters[slot] = 0.0;
            self.balancer.ended(one.slot, true, self.now);
            self.moves.push((self.now, one));
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// Number of moves that returned a slot to a node it had left within ten minutes.
    fn swings(&self) -> usize {
        let mut left: BTreeMap<(Slot, Node), Duration> = BTreeMap::new();
        let mut swings = 0;
        for &(at, one) in &self.moves {
            let before = left.get(&(one.slot, one.to)).copied();
            swings += usize::from(before.is_some_and(|then| at < then + HOUR / 6));
            left.insert((one.slot, one.from), at);
        }
        swings
    }
}

/// Accesses per second of each slot, where each key is in a random one.
fn zipf(random: &mut Pcg64) -> Vec<f64> {
    let mut rates = vec![0.0; SLOTS];
    for rank in 1..=KEYS {
        rates[random.random_range(0..SLOTS)] += (rank as f64).powf(-EXPONENT);
    }
    let all: f64 = rates.iter().sum();
    rates.into_iter().map(|rate| rate / all * ACCESSES).collect()
}

#[test]
fn zipfs_law_on_three_nodes_is_even_within_a_minute_and_few_slots_have_moved() {
    let mut uneven = 0;
    for seed in 0..8 {
        for hot in [0, 60] {
            let mut world = World::new(seed).with_hot_slots_at_one_node(hot);
            let before = world.hottest();
            uneven += usize::from(before > EVEN);
            world.run(Duration::from_secs(60));
            let (after, moves) = (world.hottest(), world.moves.len());
            eprintln!("seed {seed}: {before:.3} -> {after:.3} by {moves} moves");
            assert!(after <= EVEN, "seed {seed}: {before} -> {after} by {moves} moves");
            assert!(moves <= FEW, "seed {seed}: {moves} moves");
            // Nothing that has not changed moves on.
            world.run(HOUR / 6);
            assert!(world.hottest() <= EVEN && world.moves.len() <= moves + 2, "seed {seed}");
        }
    }
    assert!(uneven >= 8, "only {uneven} were uneven");
}

#[test]
fn a_slot_that_is_too_hot_keeps_its_node_and_the_others_leave_it() {
    let hot = Slot::new(100).expect("a slot");
    for budget in [SLOTS, FEW] {
        let mut world = World::new(1);
        world.balancer = Balancer::new(Config { moves_max: budget, ..Config::default() });
        world.rates[hot.number()] = ACCESSES;
        let mean = world.rates.iter().sum::<f64>() / NODES as f64;
        let (alone, before) = (world.rates[hot.number()] / mean, world.hottest());
        assert!(alone > 1.4 && before > alone * 1.2, "{alone}");
        world.run(HOUR / 4);
        let (hottest, moves) = (world.hottest(), world.moves.len());
        eprintln!("{alone:.3} alone, {before:.3} -> {hottest:.3} by {moves} moves");
        assert!(world.moves.iter().all(|(_, one)| one.slot != hot), "it would be as hot elsewhere");
        let name = |node: Node| node.0.to_string();
        let why = world.balancer.why(hot, name, world.now).expect("it is used").join("\n");
        if budget == FEW {
            assert!(moves <= 2 * FEW && hottest < before, "{moves} moves");
            assert!(why.contains("the maximum number of moves, 163 in 600 s"), "{why}");
        } else {
            assert!(hottest <= alone * 1.11, "{hottest} of {alone}");
            assert!(why.contains("0 cannot be relieved further: its hottest slot alone"), "{why}");
            assert!(why.contains("stays: it alone is hotter than a node should be"), "{why}");
        }
    }
}

#[test]
fn load_that_shifts_for_an_hour_is_followed_without_thrash() {
    for (minutes, even_min) in [(10, 0.85), (5, 0.7)] {
        let mut world = World::new(3).with_hot_slots_at_one_node(60);
        let (mut even, mut steps) = (0, 0);
        for _ in 0..60 / minutes {
            for _ in 0..minutes * 60 / PERIOD.as_secs() as u32 {
                world.step();
                steps += 1;
                even += usize::from(world.hottest() <= EVEN);
            }
            let mut random = world.random.clone();
            world.rates = zipf(&mut random);
            world.random = random;
        }
        let (share, moves) = (even as f64 / f64::from(steps), world.moves.len());
        eprintln!(
            "every {minutes} min: even {share:.2} of the time, {moves} moves, {} swings",
            world.swings()
        );
        assert!(share >= even_min, "{share}");
        assert!(moves <= 2 * FEW, "{moves} moves");
        assert!(world.swings() <= moves / 10, "{} of {moves} moves are swings", world.swings());
    }
}

#[test]
fn load_that_swings_faster_than_it_is_averaged_moves_little() {
    let mut world = World::new(5);
    let one = world.rates.clone();
    let other: Vec<f64> = (0..SLOTS).map(|slot| one[(slot + SLOTS / 2) % SLOTS]).collect();
    for step in 0..720 {
        // Every 20 s.
        world.rates = if step / 4 % 2 == 0 { one.clone() } else { other.clone() };
        world.step();
    }
    let (moves, swings) = (world.moves.len(), world.swings());
    eprintln!("{moves} moves, {swings} swings");
    assert!(moves <= FEW, "{moves} moves");
}

#[test]
fn nothing_moves_to_a_node_without_room_nor_a_pinned_slot_nor_in_an_idle_cluster() {
    let mut world = World::new(2).with_hot_slots_at_one_node(60);
    world.bytes = vec![1 << 20; SLOTS];
    world.rooms = vec![Some(u64::MAX), Some(0), Some(u64::MAX)];
    world.pinned = (0..SLOTS).filter(|slot| slot % 2 == 0).filter_map(Slot::new).collect();
    world.run(Duration::from_secs(120));
    assert!(!world.moves.is_empty());
    for (_, one) in &world.moves {
        assert_eq!(one.to, Node(2), "node 1 has no room");
        assert!(!world.pinned.contains(&one.slot), "it is pinned");
    }
    // A node that is excluded neither gives nor takes.
    let mut world = World::new(2).with_hot_slots_at_one_node(60);
    world.rooms = vec![None, Some(u64::MAX), Some(u64::MAX)];
    world.run(Duration::from_secs(120));
    assert!(world.moves.iter().all(|(_, one)| one.to != Node(0) && one.from != Node(0)));
    let mut world = World::new(2).with_hot_slots_at_one_node(60);
    world.rates.iter_mut().for_each(|rate| *rate /= 1_000.0);
    world.run(Duration::from_secs(120));
    assert!(world.moves.is_empty(), "it is idle");
}

#[test]
fn each_move_is_explained() {
    let mut world = World::new(4).with_hot_slots_at_one_node(60);
    world.run(Duration::from_secs(60));
    let name = |node: Node| format!("node-{}", node.0);
    for &(_, one) in &world.moves {
        let why = world.balancer.why(one.slot, name, world.now).expect("it is used").join("\n");
        assert!(why.contains("moved ") && why.contains("evens out load"), "{why}");
        let Reason { from, to, .. } = world.balancer.reason(one.slot).expect("a reason");
        assert!(from.0 > from.1 && to.1 > to.0 && from.0 > to.1, "{from:?} {to:?}");
    }
    let used = Slot::new(16_000).expect("a slot");
    let why = world.balancer.why(used, name, world.now).expect("it is used").join("\n");
    assert!(why.contains("stays: no node has more than 1.1 times the mean load"), "{why}");
    assert!(why.contains("us of processor time per second; in multiples of it: node-0 "), "{why}");
}

#[test]
fn a_rate_outlives_the_move_of_its_slot_and_the_restart_of_its_node() {
    let mut meter = Meter::new(Duration::from_secs(10));
    let slot = Slot::new(7).expect("a slot");
    let take = |meter: &mut Meter, node: u16, counter: u64, second: u64| {
        let usage = SlotUsage { slot, keys: 1, processor_us: Some(counter) };
        meter.take(Node(node), Some(&[usage]), Duration::from_secs(second));
    };
    let rate = |meter: &Meter| meter.rates().map(|(_, rate)| rate.round()).collect::<Vec<_>>();
    take(&mut meter, 0, 1_000_000, 10);
    assert!(rate(&meter).is_empty(), "its age is unknown");
    take(&mut meter, 0, 1_005_000, 15);
    assert_eq!(rate(&meter), [1_000.0]);
    take(&mut meter, 1, 300, 20);
    assert_eq!(rate(&meter), [1_000.0], "it has just moved");
    take(&mut meter, 1, 5_300, 25);
    assert_eq!(rate(&meter), [1_000.0]);
    take(&mut meter, 1, 0, 30);
    assert_eq!(rate(&meter), [1_000.0], "its node was restarted");
    assert!(meter.counts_at([Node(0), Node(1)].into_iter()));
    assert!(!meter.counts_at([Node(2)].into_iter()));
    let usage = SlotUsage { slot, keys: 1, processor_us: None };
    meter.take(Node(1), Some(&[usage]), Duration::from_secs(35));
    assert!(!meter.counts_at([Node(1)].into_iter()), "counting was turned off");
    meter.take(Node(1), Some(&[]), Duration::from_secs(40));
    assert!(meter.counts_at([Node(1)].into_iter()), "it has no slots");
    meter.take(Node(1), None, Duration::from_secs(45));
    assert!(!meter.counts_at([Node(1)].into_iter()), "it cannot count");
}

#[test]
fn counters_of_two_nodes_are_not_compared() {
    let slot = Slot::new(7).expect("a slot");
    let mut meter = Meter::new(Duration::from_secs(10));
    let mut rate_after = |node, counter, second| {
        let usage = SlotUsage { slot, keys: 1, processor_us: Some(counter) };
        meter.take(Node(node), Some(&[usage]), Duration::from_secs(second));
        meter.rates().next().map(|(_, rate)| rate)
    };
    assert_eq!(rate_after(0, 1_000_000, 0), None);
    assert_eq!(rate_after(0, 1_100_000, 1), Some(100_000.0));
    // The slot has moved, to a node that counted it before and to one that did not.
    assert_eq!(rate_after(1, 9_000_000, 2), Some(100_000.0));
    assert_eq!(rate_after(0, 1_100_100, 3), Some(100_000.0));
    // The mean of two seconds.
    assert_eq!(rate_after(0, 1_400_100, 4), Some(200_000.0));
    // The node has restarted.
    assert_eq!(rate_after(0, 10, 5), Some(200_000.0));
}
