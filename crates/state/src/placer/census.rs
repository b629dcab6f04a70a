//! Memory of slots in use, and free memory of nodes.

use std::{collections::BTreeMap, time::Duration};

use super::Config;
use crate::{Node, members::Member, placement::Capacity, slot::Slot, usage::Memory, view::View};

/// Tenths of a node's `maxmemory` that slots are planned to fill: the rest is for growth until they
/// are counted again.
const FILLED_TENTHS: u64 = 9;
/// Interval between counts of the keys of slots; a slot in use that was never counted is counted at
/// once.
const COUNT_PERIOD: Duration = Duration::from_secs(5);

/// As of the last count.
#[derive(Debug, Default)]
pub(super) struct Census {
    counted: Option<Duration>,
    bytes: BTreeMap<Slot, u64>,
    /// Bytes for slots in use at nodes that have a limit.
    room: BTreeMap<Node, u64>,
}

/// Count at one primary.
#[derive(Debug, Clone)]
pub struct Count {
    /// Its memory.
    pub memory: Memory,
    /// Number of its keys.
    pub keys_all: u64,
    /// Number of its keys in each requested slot.
    pub keys: Vec<(Slot, u64)>,
}

impl Census {
    /// Whether the keys of these slots, all that are in use, are to be counted now.
    pub(super) fn is_due(&self, mut slots: impl Iterator<Item = Slot>, now: Duration) -> bool {
        let known = slots.all(|slot| self.bytes.contains_key(&slot));
        !known || self.counted.is_none_or(|at| now.saturating_sub(at) >= COUNT_PERIOD)
    }

    /// Begins a count anew.
    pub(super) fn begin(&mut self, now: Duration) {
        self.counted = Some(now);
        self.bytes.clear();
        self.room.clear();
    }

    /// Applies the count of `node`. The keys of a slot are assumed to have the mean size of the
    /// keys of their node.
    pub(super) fn take(&mut self, node: Node, Count { memory, keys_all, keys }: Count) {
        let each = memory.dataset.checked_div(keys_all).unwrap_or_default();
        let bytes = || keys.iter().map(|&(slot, keys)| (slot, keys * each));
        self.room.extend(memory.limit.map(|limit| {
            let others = memory.used.saturating_sub(bytes().map(|(_, bytes)| bytes).sum());
            (node, (limit / 10 * FILLED_TENTHS).saturating_sub(others))
        }));
        self.bytes.extend(bytes());
    }

    /// Memory of a slot.
    pub(super) fn bytes(&self, slot: Slot) -> u64 {
        self.bytes.get(&slot).copied().unwrap_or_default()
    }

    /// Capacity of each node: the part of `maxmemory` for slots in use; 0 for a node that is
    /// excluded or not a primary now.
    pub(super) fn capacities(&self, view: &View, config: &Config) -> Vec<Capacity> {
        let of = |(number, member): (usize, &Option<Member>)| match member {
            Some(member) if !config.excluded.contains(&member.address) => Capacity {
                bytes: self.room.get(&Node(number as u16)).copied().unwrap_or(u64::MAX),
                accesses: config.load_max,
                // Redis answers a write before its replicas have it.
                replication_us: 0.0,
            },
            _ => Capacity { bytes: 0, accesses: 0.0, replication_us: 0.0 },
        };
        view.members().iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_at_once_where_a_slot_never_was_and_else_from_time_to_time() {
        let slot = |number| Slot::new(number).expect("a slot");
        let (one, both) = ([slot(1)], [slot(1), slot(2)]);
        let mut census = Census::default();
        assert!(census.is_due([].into_iter(), Duration::ZERO));
        census.begin(Duration::ZERO);
        let memory = Memory { dataset: 100, used: 150, limit: Some(1_000) };
        census.take(Node(3), Count { memory, keys_all: 10, keys: vec![(slot(1), 4)] });
        assert!(!census.is_due(one.into_iter(), COUNT_PERIOD / 2));
        assert!(census.is_due(both.into_iter(), COUNT_PERIOD / 2));
        assert!(census.is_due(one.into_iter(), COUNT_PERIOD));
        // Forty bytes belong to the slot; the room is nine tenths of the limit, less the share of
        // other agents.
        assert_eq!((census.bytes(slot(1)), census.room[&Node(3)]), (40, 900 - 110));
    }
}
