//! The course of a simulated day: what is counted, decided, moved and waited.

use std::{collections::BTreeMap, time::Duration};

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use state::{
    Host, Node,
    accesses::{Accesses, Counts},
    batch::batch,
    delays::Matrix,
    initiator::{Config, Initiator},
    moves::Move,
    placement::{Capacity, Demand, MoveCost, Problem},
    slot::Slot,
};

use crate::world::{Kind, World};

/// Agents report and the placer reviews this often, as they do by default.
const PERIOD: Duration = Duration::from_millis(500);
const PERIODS_A_SECOND: u32 = 2;
/// The placer's default.
const HALF_LIFE: Duration = Duration::from_secs(10);
const MOVING: MoveCost = MoveCost { fixed_us: 1e5, per_byte_us: 0.01, dwell_s: 30.0 };
/// Round trips are measured anew this often, to within [`MEASURED_WITHIN`] of what they are.
const MEASURED_EVERY: u32 = 30;
const MEASURED_WITHIN: f32 = 0.03;
/// Capacity of every node, as a multiple of its share of all bytes and accesses.
const ROOM: u64 = 20;
/// Time until all nodes know the epoch of a node that took slots, so that slots may leave it.
const SETTLES: Duration = Duration::from_secs(2);
/// One access in eleven writes.
const WRITES_IN: u64 = 11;

/// The result of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) functions: usize,
    pub(crate) slots: usize,
    pub(crate) seconds: u32,
    /// Waiting time of all accesses.
    pub(crate) waited_s: f64,
    /// Cost of all moves.
    pub(crate) moving_s: f64,
    /// Waiting time with the best placement of every window.
    pub(crate) best_s: f64,
    pub(crate) moves: u64,
    /// Of the slot that moved most.
    pub(crate) moves_of_one: u32,
    /// Waited with moves, and at best, by kind of group.
    kinds: BTreeMap<Kind, (f64, f64)>,
}

impl Outcome {
    /// Returns the waiting time including the cost of moves, relative to the necessary one.
    pub(crate) fn ratio(&self) -> f64 {
        (self.waited_s + self.moving_s) / self.best_s
    }

    pub(crate) fn ratios(&self) -> Vec<(&'static str, f64)> {
        self.kinds.iter().map(|(kind, (waited, best))| (kind.name(), waited / best)).collect()
    }
}

pub(crate) struct Course<'w> {
    world: &'w World,
    random: Pcg64,
    accesses: Accesses,
    initiator: Initiator,
    nodes: Vec<Capacity>,
    /// As the placer knows them.
    measured: Matrix,
    owners: Vec<Node>,
    on_their_way: Vec<Move>,
    /// By node: when it may be left.
    settled: Vec<Duration>,
    moves_of: Vec<u32>,
    /// Of this window, by slot and place.
    counted: Vec<Vec<u64>>,
    /// Of this window, by slot, in microseconds.
    waited: Vec<f64>,
    outcome: Outcome,
}

impl<'w> Course<'w> {
    /// Every slot begins where it waits least in the first second: to bring them all there takes
    /// longer than is watched.
    pub(crate) fn new(world: &'w World, seed: u64) -> Self {
        let size = world.size;
        let mut random = Pcg64::seed_from_u64(seed);
        let hours = world.hours(0);
        let owners = world.groups.iter().map(|group| {
            let anywhere = Node(random.random_range(0..size.hosts) as u16);
            world.best(group, anywhere, 0, &hours)
        });
        let owners = owners.collect();
        let bytes: u64 = world.groups.iter().map(|group| group.bytes).sum();
        let accesses: f64 =
            world.groups.iter().flat_map(|group| &group.places).map(|(_, rate)| rate).sum();
        let share = size.hosts as u64;
        let room = Capacity {
            bytes: bytes * ROOM / share,
            accesses: accesses * ROOM as f64 / share as f64,
            replication_us: 0.0,
        };
        Self {
            world,
            random,
            accesses: Accesses::new(HALF_LIFE),
            initiator: Initiator::new(Config::default()),
            nodes: vec![room; size.hosts],
            measured: world.delays.clone(),
            owners,
            on_their_way: Vec::new(),
            settled: vec![Duration::ZERO; size.hosts],
            moves_of: vec![0; size.slots],
            counted: world.groups.iter().map(|group| vec![0; group.places.len()]).collect(),
            waited: vec![0.0; size.slots],
            outcome: Outcome::default(),
        }
    }

    pub(crate) fn run(mut self) -> Outcome {
        for period in 0..self.world.size.seconds * PERIODS_A_SECOND {
            let (second, now) = (period / PERIODS_A_SECOND, PERIOD * (period + 1));
            if period.is_multiple_of(MEASURED_EVERY * PERIODS_A_SECOND) {
                self.measure();
            }
            self.use_slots(second, now);
            self.arrive(now);
            self.review(now);
            if (period + 1).is_multiple_of(self.world.size.window * PERIODS_A_SECOND) {
                self.end_window();
                if second < self.world.size.window {
                    // In the first window slots find their places: it does not count.
                    self.outcome = Outcome::default();
                    self.moves_of.fill(0);
                }
            }
        }
        let size = self.world.size;
        self.outcome.seconds = size.seconds - size.window;
        (self.outcome.functions, self.outcome.slots) = (size.functions, size.slots);
        self.outcome.moves_of_one = self.moves_of.iter().copied().max().unwrap_or_default();
        self.outcome
    }

    fn measure(&mut self) {
        let hosts = self.world.size.hosts;
        for host in (0..hosts).map(|host| Host(host as u16)) {
            for node in 0..hosts {
                let error = self.random.random_range(1.0 - MEASURED_WITHIN..1.0 + MEASURED_WITHIN);
                let node = Node(node as u16);
                let us = self.world.delays.between(host, node) * error;
                self.measured.set(host, node, Duration::from_secs_f32(us / 1e6));
            }
        }
    }

    /// One period of accesses: each waits for the node its slot is at, and its agent counts it.
    fn use_slots(&mut self, second: u32, now: Duration) {
        let world = self.world;
        let hours = world.hours(second);
        let mut reports = vec![Vec::new(); world.size.hosts];
        for (number, group) in world.groups.iter().enumerate() {
            let Some(slot) = Slot::new(number) else { continue };
            let owner = self.owners[number];
            for (place, &(host, _)) in group.places.iter().enumerate() {
                let rate = world.rate(group, place, owner, second, &hours);
                let count = poisson(rate * PERIOD.as_secs_f64(), &mut self.random);
                if count == 0 {
                    continue;
                }
                let writes = count / WRITES_IN;
                let counts =
                    Counts { reads: count - writes, writes, bytes: count * 100, copied: 0 };
                reports[usize::from(host.0)].push((slot, counts));
                self.counted[number][place] += count;
                self.waited[number] += count as f64 * f64::from(world.delays.between(host, owner));
            }
        }
        for (host, counts) in reports.into_iter().enumerate() {
            self.accesses.report(Host(host as u16), counts, PERIOD, now);
        }
    }

    /// Moves that were begun in the last review are done.
    fn arrive(&mut self, now: Duration) {
        for one in std::mem::take(&mut self.on_their_way) {
            let number = one.slot.number();
            self.owners[number] = one.to;
            self.settled[usize::from(one.to.0)] = now + SETTLES;
            self.initiator.ended(one.slot, true, now);
            self.moves_of[number] += 1;
            self.outcome.moves += 1;
            let bytes = self.world.groups[number].bytes as f64;
            let cost_us = MOVING.fixed_us + MOVING.per_byte_us * bytes;
            self.outcome.moving_s += cost_us / 1e6;
            self.outcome.kinds.entry(self.world.groups[number].kind).or_default().0 += cost_us;
        }
    }

    /// As the placer does it.
    fn review(&mut self, now: Duration) {
        self.accesses.advance(now);
        let demands: Vec<Demand> = self
            .accesses
            .slots()
            .map(|slot| Demand {
                slot,
                owner: self.owners[slot.number()],
                bytes: self.world.groups[slot.number()].bytes,
                accesses: self.accesses.of(slot, now),
                pinned: false,
            })
            .filter(|demand| !demand.accesses.is_empty())
            .collect();
        let problem = Problem {
            delays: &self.measured,
            nodes: &self.nodes,
            demands: &demands,
            moving: MOVING,
        };
        self.initiator.review(&problem, now);
        let may_leave = |node: Node| self.settled[usize::from(node.0)] <= now;
        let (lanes, later) = batch(self.initiator.ready(), may_leave);
        for one in later {
            self.initiator.put_off(one.slot);
        }
        self.on_their_way = lanes.concat();
    }

    /// Compares with the best of all places for each slot, knowing all that was counted.
    fn end_window(&mut self) {
        let mut costs = vec![0.0; self.world.size.hosts];
        for (number, group) in self.world.groups.iter().enumerate() {
            costs.fill(0.0);
            for (&(host, _), count) in group.places.iter().zip(&self.counted[number]) {
                for (cost, delay) in costs.iter_mut().zip(self.world.delays.from(host)) {
                    *cost += *count as f64 * f64::from(*delay);
                }
            }
            let best = costs.iter().copied().fold(f64::INFINITY, f64::min);
            let waited = std::mem::take(&mut self.waited[number]);
            self.counted[number].fill(0);
            self.outcome.waited_s += waited / 1e6;
            self.outcome.best_s += best / 1e6;
            let of_kind = self.outcome.kinds.entry(group.kind).or_default();
            of_kind.0 += waited;
            of_kind.1 += best;
        }
    }
}

/// Draws the number of events that occur `expected` times on average.
fn poisson(expected: f64, random: &mut impl Rng) -> u64 {
    if expected <= 0.0 {
        return 0;
    }
    if expected > 20.0 {
        // The sum of twelve numbers below one is as good as normal.
        let normal: f64 = (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0;
        return (expected + normal * expected.sqrt()).round().max(0.0) as u64;
    }
    let (limit, mut product, mut count) = ((-expected).exp(), 1.0, 0);
    loop {
        product *= random.random_range(0.0..1.0);
        if product <= limit {
            return count;
        }
        count += 1;
    }
}
