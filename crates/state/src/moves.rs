//! Moves that were decided: how many may begin within a window, and how long a slot that has moved
//! stays. The initiator and the balancer differ in what they decide, and share these bounds.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::{Node, slot::Slot};

/// A planned move of a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Move {
    /// Which slot.
    pub slot: Slot,
    /// The present node.
    pub from: Node,
    /// The new node.
    pub to: Node,
    /// Reduction of its accesses' waiting time, in microseconds per second.
    pub saves_us: f64,
}

/// The moves that have not ended, within a budget.
#[derive(Debug)]
pub(crate) struct Moves {
    max: usize,
    window: Duration,
    /// Start times within the window.
    begun: VecDeque<Duration>,
    moving: BTreeMap<Slot, Move>,
    ready: Vec<Move>,
}

impl Moves {
    /// At most `max` moves begin within `window`.
    pub(crate) fn new(max: usize, window: Duration) -> Self {
        let (begun, moving, ready) = (VecDeque::new(), BTreeMap::new(), Vec::new());
        Self { max, window, begun, moving, ready }
    }

    /// Whether the budget is used up at `now`.
    pub(crate) fn is_spent(&mut self, now: Duration) -> bool {
        while self.begun.front().is_some_and(|&at| at + self.window <= now) {
            self.begun.pop_front();
        }
        self.begun.len() >= self.max
    }

    /// Begins a move; the caller has seen that there is budget.
    pub(crate) fn begin(&mut self, one: Move, now: Duration) {
        self.begun.push_back(now);
        self.moving.insert(one.slot, one);
        self.ready.push(one);
    }

    /// The moves that have begun since the last call.
    pub(crate) fn take_ready(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.ready)
    }

    /// Takes back a move that could not begin yet, with its budget; whether there was one.
    pub(crate) fn put_off(&mut self, slot: Slot) -> bool {
        let is_moving = self.end(slot).is_some();
        if is_moving {
            self.begun.pop_back();
        }
        is_moving
    }

    /// Ends the move of `slot`.
    pub(crate) fn end(&mut self, slot: Slot) -> Option<Move> {
        self.moving.remove(&slot)
    }

    pub(crate) fn is_moving(&self, slot: Slot) -> bool {
        self.moving.contains_key(&slot)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.moving.is_empty()
    }
}

/// Maximum number of remembered former nodes of a slot.
const LEFT_MAX: usize = 4;
/// A slot oscillates if it returns to a node that it left within this number of its cool-downs.
const SWINGS_WITHIN: u32 = 4;

/// How long a slot stays at its node.
#[derive(Debug, Default)]
pub(crate) struct CoolDown {
    /// Time since start until which it stays.
    pub(crate) until: Duration,
    /// Its latest cool-down; zero before the first.
    pub(crate) length: Duration,
    /// Target of its latest move, if that failed.
    pub(crate) not_moved: Option<Node>,
    /// Nodes it left, and the time, latest first.
    left: VecDeque<(Node, Duration)>,
}

impl CoolDown {
    /// Begins a cool-down of `min` after a move, successful or not. A slot that moves back soon, or
    /// that the same node refuses again, waits twice as long as the last time, at most `max`.
    pub(crate) fn begin(
        &mut self,
        one: &Move,
        moved: bool,
        (min, max): (Duration, Duration),
        now: Duration,
    ) {
        let soon = self.length.max(min) * SWINGS_WITHIN;
        let swings = moved && self.left.iter().any(|&(node, at)| node == one.to && now < at + soon);
        let again = !moved && self.not_moved == Some(one.to);
        self.length = if swings || again { (self.length * 2).min(max) } else { min };
        self.until = now + self.length;
        self.not_moved = (!moved).then_some(one.to);
        if moved {
            self.left.push_front((one.from, now));
            self.left.truncate(LEFT_MAX);
        }
    }
}

#[cfg(test)]
mod tests;
