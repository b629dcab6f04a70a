//! Replacement initiator (AnnaBellaDB §II): when a slot should move.
//!
//! A slot is reviewed when its accesses have changed by more than the threshold since its last
//! review (20 % in the paper), or when a node has joined. It moves if the plan places it elsewhere
//! in several reviews in a row, if the saving over the dwell time exceeds the cost of the move by a
//! margin, and if its cool-down and the budget of moves allow it. For a slot whose accesses wait
//! long, a move must save a share above the measurement error. A slot that soon moves back waits
//! twice as long the next time, so that no access pattern makes it oscillate for long: CockroachDB
//! removed automatic lease placement because leases thrashed with uneven latencies. A slot that
//! moves back after a long time, as between day and night, does not wait longer. A slot with a long
//! cool-down is judged by its average use over that time, not by its current use.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    Host, Node,
    accesses::Rate,
    moves::{CoolDown, Move, Moves},
    placement::{Demand, Problem},
    slot::Slot,
};

/// Conditions for moving a slot.
#[derive(Debug, Clone)]
pub struct Config {
    /// Share of accesses that must be new or gone for an access pattern to count as changed.
    pub threshold: f64,
    /// Number of consecutive reviews that must plan the same move.
    pub reviews: u32,
    /// The saving must exceed the cost of the move by this fraction of the cost.
    pub margin: f64,
    /// The saving must be at least this fraction of the waiting time of the slot's accesses: less
    /// is within the measurement error.
    pub share_min: f64,
    /// Minimum time between two moves of a slot.
    pub cool_down: Duration,
    /// Maximum cool-down of a slot that oscillates.
    pub cool_down_max: Duration,
    /// Maximum number of moves within the window.
    pub moves_max: usize,
    /// See `moves_max`.
    pub moves_window: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            threshold: 0.2,
            reviews: 2,
            margin: 0.1,
            share_min: 0.02,
            cool_down: Duration::from_secs(10),
            cool_down_max: Duration::from_secs(3_600),
            moves_max: 2_048,
            moves_window: Duration::from_secs(10),
        }
    }
}

/// Why a slot is not moving.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stays {
    /// Its accesses have not changed since its last review.
    Unchanged,
    /// It is at the node of the plan.
    Best,
    /// It is pinned.
    Pinned,
    /// A move saves too little, both in microseconds over the dwell time.
    NotWorthIt {
        /// The saving.
        saves_us: f64,
        /// The required saving: the cost of the move and its margin, or the minimum fraction.
        needs_us: f64,
    },
    /// Nodes where its accesses would wait less are full.
    Full,
    /// The plan must repeat the move in more consecutive reviews.
    Wanted {
        /// So far.
        reviews: u32,
    },
    /// It has moved recently, and stays until then.
    CoolsDown {
        /// Time since start.
        until: Duration,
    },
    /// Its move failed, and it stays until then.
    NotMoved {
        /// Time since start.
        until: Duration,
    },
    /// The budget of moves is used up.
    Budget,
    /// It is moving.
    Moving,
}

#[derive(Debug, Default)]
struct Known {
    /// Its accesses at the last review that required no move.
    settled: Vec<(Host, Rate)>,
    wanted: Option<(Node, u32)>,
    /// Its accesses on average over its cool-down, as of the last review.
    usual: Vec<(Host, Rate)>,
    reviewed: Duration,
    rests: CoolDown,
    stays: Option<Stays>,
}

/// A slot whose cool-down is at least this multiple of the shortest one is judged by the average of
/// its accesses: its current accesses will have changed before it may move again.
const USUAL_FROM: u32 = 4;

/// Time for which all slots are reviewed after a node has joined: agents query nodes every few
/// seconds, and a delay is known after some round trips.
const LOOKS_AROUND_FOR: Duration = Duration::from_secs(30);

/// Decides which moves of a plan are made.
#[derive(Debug)]
pub struct Initiator {
    config: Config,
    slots: BTreeMap<Slot, Known>,
    moves: Moves,
    /// Nodes that had room and were measured in the last review.
    places: BTreeSet<Node>,
    looks_around_until: Duration,
}

impl Initiator {
    /// Nothing has moved yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            moves: Moves::new(config.moves_max, config.moves_window),
            config,
            slots: BTreeMap::new(),
            places: BTreeSet::new(),
            looks_around_until: Duration::ZERO,
        }
    }

    /// Reviews every slot whose accesses have changed; moves that follow are in [`Self::ready`].
    pub fn review(&mut self, problem: &Problem<'_>, now: Duration) {
        self.look_around(problem, now);
        let demands: Vec<Demand> =
            problem.demands.iter().map(|demand| self.admit(demand, now)).collect();
        let plan = Problem { demands: &demands, ..*problem }.plan();
        let mut wanted: Vec<Move> = Vec::new();
        for (demand, &to) in demands.iter().zip(&plan.owners) {
            if !demand.pinned {
                wanted.extend(self.judge(problem, demand, to));
            }
        }
        // The largest saving goes first.
        wanted.sort_by(|a, b| b.saves_us.total_cmp(&a.saves_us).then(a.slot.cmp(&b.slot)));
        for one in wanted {
            if self.moves.is_spent(now) {
                self.note(one.slot, Stays::Budget);
                continue;
            }
            self.note(one.slot, Stays::Moving);
            self.moves.begin(one, now);
        }
        let present: BTreeSet<Slot> = problem.demands.iter().map(|demand| demand.slot).collect();
        self.slots.retain(|slot, known| present.contains(slot) || known.rests.until > now);
    }

    /// Moves to be begun.
    pub fn ready(&mut self) -> Vec<Move> {
        self.moves.take_ready()
    }

    /// Ends the move of `slot`, successfully or not. A slot that the same node refuses again waits
    /// twice as long.
    pub fn ended(&mut self, slot: Slot, moved: bool, now: Duration) {
        let Some(one) = self.moves.end(slot) else { return };
        let lengths = (self.config.cool_down, self.config.cool_down_max);
        let known = self.slots.entry(slot).or_default();
        known.rests.begin(&one, moved, lengths, now);
        known.wanted = None;
    }

    /// The move of `slot` could not begin yet: the next review may plan it again without a delay.
    pub fn put_off(&mut self, slot: Slot) {
        if self.moves.put_off(slot) {
            self.note(slot, Stays::Budget);
        }
    }

    /// Reason for the place of `slot`, as of the last review; `None` for an unused slot.
    #[must_use]
    pub fn why(&self, slot: Slot) -> Option<Stays> {
        self.slots.get(&slot)?.stays
    }

    /// After a node has joined, all slots are reviewed repeatedly for some time: hosts learn of it
    /// one after another, and a slot with unchanged accesses may be better there.
    fn look_around(&mut self, problem: &Problem<'_>, now: Duration) {
        let places: BTreeSet<Node> = problem.places().collect();
        if places.is_empty() {
            return;
        }
        if !self.places.is_empty() && !places.is_subset(&self.places) {
            self.looks_around_until = now + LOOKS_AROUND_FOR;
        }
        self.places = places;
        if now < self.looks_around_until {
            self.slots.values_mut().for_each(|known| known.settled.clear());
        }
    }

    /// The demand for the plan: pinned if it does not take part.
    fn admit(&mut self, demand: &Demand, now: Duration) -> Demand {
        let Config { threshold, cool_down, .. } = self.config;
        let known = self.slots.entry(demand.slot).or_default();
        known.observe(&demand.accesses, cool_down, now);
        let is_restless = known.rests.length >= cool_down * USUAL_FROM;
        let accesses = if is_restless { &known.usual } else { &demand.accesses }.clone();
        let stays = if demand.pinned {
            Some(Stays::Pinned)
        } else if self.moves.is_moving(demand.slot) {
            Some(Stays::Moving)
        } else if known.rests.until > now {
            let until = known.rests.until;
            let moved = known.rests.not_moved.is_none();
            Some(if moved { Stays::CoolsDown { until } } else { Stays::NotMoved { until } })
        } else if change(&known.settled, &accesses) <= threshold {
            Some(Stays::Unchanged)
        } else {
            None
        };
        known.stays = stays;
        Demand { pinned: stays.is_some(), accesses, ..*demand }
    }

    /// Whether the planned move saves enough.
    fn judge(&mut self, problem: &Problem<'_>, demand: &Demand, to: Node) -> Option<Move> {
        let wait = |node: Node| f64::from(problem.wait_at(demand, node));
        let least = || {
            let mut waits = Vec::new();
            problem.waits(demand, &mut waits);
            waits.into_iter().fold(f32::INFINITY, f32::min)
        };
        let dwell_s = problem.moving.dwell_s;
        let costs_us = problem.moving.a_second(demand.bytes) * dwell_s;
        let Config { reviews, margin, share_min, .. } = self.config;
        let least_us = wait(demand.owner) * dwell_s * share_min;
        let needs_us = if least_us.is_finite() { least_us } else { 0.0 };
        let needs_us = needs_us.max(costs_us * (1.0 + margin));
        let known = self.slots.entry(demand.slot).or_default();
        let saves_us =
            wait(demand.owner) - if to == demand.owner { f64::from(least()) } else { wait(to) };
        let stays = if saves_us <= 0.0 {
            Stays::Best
        } else if saves_us * dwell_s <= needs_us {
            Stays::NotWorthIt { saves_us: saves_us * dwell_s, needs_us }
        } else if to == demand.owner {
            Stays::Full
        } else {
            let before = known.wanted.filter(|&(node, _)| node == to).map_or(0, |(_, times)| times);
            known.wanted = Some((to, before + 1));
            if before + 1 >= reviews {
                return Some(Move { slot: demand.slot, from: demand.owner, to, saves_us });
            }
            known.stays = Some(Stays::Wanted { reviews: before + 1 });
            return None;
        };
        if stays == Stays::Best {
            known.settled.clone_from(&demand.accesses);
        }
        known.wanted = None;
        known.stays = Some(stays);
        None
    }

    fn note(&mut self, slot: Slot, stays: Stays) {
        self.slots.entry(slot).or_default().stays = Some(stays);
    }
}

impl Known {
    /// Notes the current accesses.
    fn observe(&mut self, accesses: &[(Host, Rate)], cool_down: Duration, now: Duration) {
        let over = self.rests.length.max(cool_down).as_secs_f64().max(f64::MIN_POSITIVE);
        let since = now.saturating_sub(self.reviewed).as_secs_f64();
        self.reviewed = now;
        let share = if self.usual.is_empty() { 1.0 } else { 1.0 - (-since / over).exp() };
        let mut rates: BTreeMap<Host, (Rate, Rate)> = BTreeMap::new();
        for &(host, rate) in &self.usual {
            rates.entry(host).or_default().0 = rate;
        }
        for &(host, rate) in accesses {
            rates.entry(host).or_default().1 = rate;
        }
        let mixed = rates.into_iter().map(|(host, (old, new))| (host, old.mixed(new, share)));
        self.usual = mixed.filter(|(_, rate)| rate.is_some()).collect();
    }
}

/// Share of the accesses that is new or gone; 0 without accesses.
fn change(before: &[(Host, Rate)], now: &[(Host, Rate)]) -> f64 {
    let mut rates: BTreeMap<Host, (f64, f64)> = BTreeMap::new();
    for &(host, rate) in before {
        rates.entry(host).or_default().0 += rate.accesses();
    }
    for &(host, rate) in now {
        rates.entry(host).or_default().1 += rate.accesses();
    }
    let differs: f64 = rates.values().map(|(old, new)| (old - new).abs()).sum();
    let all: f64 = rates.values().map(|(old, _)| old).sum();
    if differs == 0.0 { 0.0 } else { differs / all }
}

#[cfg(test)]
mod tests;
