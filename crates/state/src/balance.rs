//! Balance of load: which slots move so that no node is much busier than the others.
//!
//! A review compares the load of each node with the mean of all. If the hottest node stays above
//! [`Config::begin`], the fewest slots move that bring it down to [`Config::end`]: from the hottest
//! node to the coldest with room, the least slot that is enough, or else the largest that does not
//! make the coldest too hot. A slot that is itself too hot for that stays, and the others leave it.
//!
//! **No thrash.** Nothing moves between `end` and `begin`, so that noise starts nothing. A slot
//! that has moved stays for the cool-down, and for twice as long each time it soon moves back. At
//! most [`Config::moves_max`] slots move in [`Config::moves_window`].
//!
//! **Bound.** With enough moves, the hottest node has at most `begin` × the mean, or 1.1 × the load
//! of its hottest slot if that is more: a slot cannot be divided.
//!
//! **Read first:** [`Balancer::review`].

use std::{collections::BTreeMap, time::Duration};

use crate::{
    Node,
    moves::{CoolDown, Move, Moves},
    slot::{SLOTS, Slot},
};

mod meter;
mod reason;
#[cfg(test)]
mod tests;

pub use meter::Meter;
pub use reason::Reason;

/// When slots move.
#[derive(Debug, Clone)]
pub struct Config {
    /// Slots move while the hottest node has more than this multiple of the mean load.
    pub begin: f64,
    /// They move until it has at most this multiple.
    pub end: f64,
    /// Number of consecutive reviews that must find a node above `begin`.
    pub reviews: u32,
    /// Minimum time between two moves of a slot.
    pub cool_down: Duration,
    /// Maximum cool-down of a slot that moves back and forth.
    pub cool_down_max: Duration,
    /// Maximum number of moves within the window.
    pub moves_max: usize,
    /// See `moves_max`.
    pub moves_window: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            begin: 1.1,
            end: 1.05,
            reviews: 2,
            cool_down: Duration::from_secs(60),
            cool_down_max: Duration::from_secs(3_600),
            moves_max: SLOTS / 100,
            moves_window: Duration::from_secs(600),
        }
    }
}

/// A slot that stays with its hottest node may be this multiple of its load.
const ALONE: f64 = 1.05;
/// A move that helps less than this multiple of the mean load is not made.
const GAIN_MIN: f64 = 0.01;

/// Load of one slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// The slot.
    pub slot: Slot,
    /// Its node.
    pub owner: Node,
    /// Its load, in the unit of all.
    pub load: f64,
    /// Its memory, in bytes.
    pub bytes: u64,
    /// It is not moved.
    pub pinned: bool,
}

/// The loads of all slots in use at one time.
#[derive(Debug, Clone, Default)]
pub struct Loads {
    /// What they are measured in.
    pub unit: Unit,
    /// By slot.
    pub slots: Vec<Load>,
    /// Room for slots in use at each node, in bytes, by number; `None` for a node that does not
    /// take part.
    pub rooms: Vec<Option<u64>>,
}

/// The unit of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Microseconds of processor time per second, as nodes measure them (`CLUSTER SLOT-STATS`).
    Processor,
    /// Accesses per second, as agents count them.
    #[default]
    Accesses,
}

impl Unit {
    /// Mean load of a node below which nothing moves: the cluster is idle.
    fn least(self) -> f64 {
        match self {
            // One percent of a processor.
            Self::Processor => 10_000.0,
            Self::Accesses => 100.0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Processor => "us of processor time per second",
            Self::Accesses => "accesses per second",
        }
    }
}

/// State of one node during a review.
#[derive(Debug, Clone, Copy)]
struct Place {
    node: Node,
    load: f64,
    bytes_left: i128,
}

#[derive(Debug, Default)]
struct Known {
    rests: CoolDown,
    /// Why it moved, or is about to.
    reason: Option<Reason>,
    /// When that move ended.
    moved: Option<Duration>,
}

/// Decides which slots move.
#[derive(Debug)]
pub struct Balancer {
    config: Config,
    known: BTreeMap<Slot, Known>,
    moves: Moves,
    /// Number of consecutive reviews with a node above `begin`.
    above: u32,
    /// What the latest review found.
    found: Found,
}

/// What a review found.
#[derive(Debug, Default)]
struct Found {
    loads: BTreeMap<Slot, (Node, f64, bool)>,
    /// Load of each node that takes part.
    places: BTreeMap<Node, f64>,
    mean: f64,
    unit: Unit,
    /// The hottest node could not be relieved further: the load of its hottest slot.
    stuck: Option<(Node, f64)>,
    /// The budget of moves was used up.
    no_budget: bool,
}

impl Balancer {
    /// Nothing has moved yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            moves: Moves::new(config.moves_max, config.moves_window),
            config,
            known: BTreeMap::new(),
            above: 0,
            found: Found::default(),
        }
    }

    /// Compares the load of nodes, after each measurement; moves that follow are in
    /// [`Self::ready`].
    pub fn review(&mut self, loads: &Loads, now: Duration) {
        let mut places = places(loads);
        let total: f64 = places.iter().map(|place| place.load).sum();
        let mean = total / places.len().max(1) as f64;
        let of_slot = |load: &Load| (load.slot, (load.owner, load.load, load.pinned));
        self.found = Found {
            loads: loads.slots.iter().map(of_slot).collect(),
            places: places.iter().map(|place| (place.node, place.load)).collect(),
            mean,
            unit: loads.unit,
            stuck: None,
            no_budget: false,
        };
        self.known
            .retain(|slot, known| self.found.loads.contains_key(slot) || known.rests.until > now);
        // The loads are of before the moves that are in progress.
        if !self.moves.is_empty() || mean < loads.unit.least() {
            self.above = 0;
            return;
        }
        let mut slots: Vec<Load> = loads.slots.clone();
        slots.sort_by(|a, b| b.load.total_cmp(&a.load).then(a.slot.cmp(&b.slot)));
        let limit = self.config.begin * mean;
        if excess(&places, &slots, limit, ALONE * ALONE).is_none() {
            self.above = 0;
            let hot = excess(&places, &slots, limit, 0.0);
            self.found.stuck = hot.and_then(|hot| hottest_of(places[hot].node, &slots));
            return;
        }
        self.above += 1;
        if self.above < self.config.reviews {
            return;
        }
        while let Some(hot) = excess(&places, &slots, self.config.end * mean, ALONE) {
            if self.moves.is_spent(now) {
                self.found.no_budget = true;
                break;
            }
            let Some((at, to)) = self.choose(&slots, &places, hot, mean, now) else {
                self.found.stuck = hottest_of(places[hot].node, &slots);
                break;
            };
            let one = self.carry(&mut slots[at], &mut places, hot, to, mean);
            self.moves.begin(one, now);
        }
    }

    /// The slot that leaves the hottest node next, and the node it goes to.
    fn choose(
        &self,
        slots: &[Load],
        places: &[Place],
        hot: usize,
        mean: f64,
        now: Duration,
    ) -> Option<(usize, usize)> {
        let from = places[hot];
        let limit = self.config.end * mean;
        // The largest that is enough to cool the node, or is not; the one that helps most.
        let (mut enough, mut part) = (None, None);
        let mut helps: Option<(f64, usize, usize)> = None;
        for (at, slot) in slots.iter().enumerate() {
            let free = !slot.pinned && slot.load > 0.0 && self.may_move(slot.slot, now);
            if slot.owner != from.node || !free {
                continue;
            }
            let others = places
                .iter()
                .enumerate()
                .filter(|&(to, place)| to != hot && place.bytes_left >= i128::from(slot.bytes));
            let coldest = others.min_by(|(_, a), (_, b)| a.load.total_cmp(&b.load));
            let Some((to, cold)) = coldest else { continue };
            if cold.load + slot.load <= limit {
                if from.load - slot.load <= limit {
                    // Slots are in the order of their loads: the last is the least.
                    enough = Some((at, to));
                } else if part.is_none() {
                    part = Some((at, to));
                }
            }
            let after = (from.load - slot.load).max(cold.load + slot.load);
            if after < from.load - GAIN_MIN * mean && helps.is_none_or(|(best, ..)| after < best) {
                helps = Some((after, at, to));
            }
            // Smaller ones are no better.
            if part.is_some() {
                break;
            }
        }
        enough.or(part).or(helps.map(|(_, at, to)| (at, to)))
    }

    fn may_move(&self, slot: Slot, now: Duration) -> bool {
        self.known.get(&slot).is_none_or(|known| known.rests.until <= now)
    }

    /// Plans the move of a slot.
    fn carry(
        &mut self,
        slot: &mut Load,
        places: &mut [Place],
        hot: usize,
        to: usize,
        mean: f64,
    ) -> Move {
        let share = |load: f64| load / mean;
        let reason = Reason {
            slot: share(slot.load),
            from: (share(places[hot].load), share(places[hot].load - slot.load)),
            to: (share(places[to].load), share(places[to].load + slot.load)),
        };
        places[hot].load -= slot.load;
        places[hot].bytes_left += i128::from(slot.bytes);
        places[to].load += slot.load;
        places[to].bytes_left -= i128::from(slot.bytes);
        let (from, node) = (places[hot].node, places[to].node);
        slot.owner = node;
        slot.pinned = true;
        let known = self.known.entry(slot.slot).or_default();
        (known.reason, known.moved) = (Some(reason), None);
        Move { slot: slot.slot, from, to: node, saves_us: 0.0 }
    }

    /// Moves to be begun.
    pub fn ready(&mut self) -> Vec<Move> {
        self.moves.take_ready()
    }

    /// The move of `slot` could not begin yet.
    pub fn put_off(&mut self, slot: Slot) {
        self.moves.put_off(slot);
    }

    /// Ends the move of `slot`, successfully or not. A slot that moves back soon, or that the same
    /// node refuses again, waits twice as long.
    pub fn ended(&mut self, slot: Slot, moved: bool, now: Duration) {
        let Some(one) = self.moves.end(slot) else { return };
        let lengths = (self.config.cool_down, self.config.cool_down_max);
        let known = self.known.entry(slot).or_default();
        known.rests.begin(&one, moved, lengths, now);
        if moved {
            known.moved = Some(now);
        }
        // The next review needs loads of after the moves.
        self.above = 0;
    }
}

/// The hottest node, if its load exceeds `limit`, and its hottest slot alone times `alone`. `slots`
/// are in the order of their loads.
fn excess(places: &[Place], slots: &[Load], limit: f64, alone: f64) -> Option<usize> {
    let all = places.iter().enumerate();
    let (at, hot) = all.max_by(|(_, a), (_, b)| a.load.total_cmp(&b.load))?;
    let top = hottest_of(hot.node, slots).map_or(0.0, |(_, load)| load);
    (hot.load > limit && hot.load > top * alone).then_some(at)
}

/// The load of the hottest slot of `node`.
fn hottest_of(node: Node, slots: &[Load]) -> Option<(Node, f64)> {
    slots.iter().find(|slot| slot.owner == node).map(|slot| (node, slot.load))
}

/// The nodes that take part.
fn places(loads: &Loads) -> Vec<Place> {
    let room = |(number, room): (usize, &Option<u64>)| {
        let node = Node(number as u16);
        (*room).map(|bytes| Place { node, load: 0.0, bytes_left: i128::from(bytes) })
    };
    let mut places: Vec<Place> = loads.rooms.iter().enumerate().filter_map(room).collect();
    for slot in &loads.slots {
        if let Some(place) = places.iter_mut().find(|place| place.node == slot.owner) {
            place.load += slot.load;
            place.bytes_left -= i128::from(slot.bytes);
        }
    }
    places
}
