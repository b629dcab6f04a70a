//! Measured load of slots, from counters of nodes.

use std::{collections::BTreeMap, time::Duration};

use crate::{Node, slot::Slot, usage::SlotUsage};

/// Rates below this many microseconds per second are dropped.
const RATE_MIN: f64 = 0.1;

/// Processor time of each slot, averaged.
#[derive(Debug)]
pub struct Meter {
    half_life: Duration,
    slots: BTreeMap<Slot, Known>,
    /// The last time at which each node was read, and whether it counts processor time.
    nodes: BTreeMap<Node, (Duration, bool)>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    /// The node that counted last, and its counter in microseconds; a counter begins with 0 at a
    /// node that takes the slot.
    node: Node,
    counter: u64,
    at: Duration,
    /// Microseconds per second.
    rate: f64,
    /// Length of the averaged time, in seconds.
    seconds: f64,
}

impl Meter {
    /// Without measurements; averages have this half-life.
    #[must_use]
    pub fn new(half_life: Duration) -> Self {
        Self { half_life, slots: BTreeMap::new(), nodes: BTreeMap::new() }
    }

    /// Takes over the counters of `node`, which were read at `now`; `None` if it has none.
    pub fn take(&mut self, node: Node, slots: Option<&[SlotUsage]>, now: Duration) {
        let is_counted = |usage: &SlotUsage| usage.processor_us.is_some();
        let counts = slots.is_some_and(|slots| slots.iter().all(is_counted));
        self.nodes.insert(node, (now, counts));
        let seconds_max = self.half_life.as_secs_f64() / std::f64::consts::LN_2;
        for usage in slots.unwrap_or_default() {
            let Some(counter) = usage.processor_us else { continue };
            let known = self.slots.entry(usage.slot).or_insert(Known {
                node,
                counter,
                at: now,
                rate: 0.0,
                seconds: 0.0,
            });
            let seconds = now.saturating_sub(known.at).as_secs_f64();
            // After a move, or a restart, the rate of before is kept until it is measured.
            if known.node == node && counter >= known.counter && seconds > 0.0 {
                let rate = (counter - known.counter) as f64 / seconds;
                known.seconds = (known.seconds + seconds).min(seconds_max.max(seconds));
                known.rate += (rate - known.rate) * seconds / known.seconds;
            }
            (known.node, known.counter, known.at) = (node, counter, now);
        }
        self.slots.retain(|_, known| known.node != node || known.at == now || known.rate > 0.0);
    }

    /// Whether all these nodes count processor time.
    #[must_use]
    pub fn counts_at(&self, mut nodes: impl Iterator<Item = Node>) -> bool {
        nodes.all(|node| self.nodes.get(&node).is_some_and(|&(_, counts)| counts))
    }

    /// Microseconds of processor time per second of each slot in use.
    pub fn rates(&self) -> impl Iterator<Item = (Slot, f64)> {
        let rates = self.slots.iter().map(|(&slot, known)| (slot, known.rate));
        rates.filter(|&(_, rate)| rate >= RATE_MIN)
    }
}
