//! Memory of slots in use, and free memory of nodes.

use std::{collections::BTreeMap, time::Duration};

use super::Config;
use crate::{
    Node,
    placement::Capacity,
    slot::Slot,
    usage::{Memory, SlotUsage},
    view::View,
};

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
    /// Use of all its slots, if it was asked and can tell.
    pub slots: Option<Vec<SlotUsage>>,
}

impl Count {
    /// The count of a node that tells the use of all its slots.
    #[must_use]
    pub fn of_all(memory: Memory, slots: Vec<SlotUsage>) -> Self {
        let keys: Vec<(Slot, u64)> = slots.iter().map(|usage| (usage.slot, usage.keys)).collect();
        let keys_all = keys.iter().map(|(_, keys)| keys).sum();
        Self { memory, keys_all, keys, slots: Some(slots) }
    }
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
    pub(super) fn take(&mut self, node: Node, Count { memory, keys_all, keys, .. }: Count) {
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

    /// The part of `maxmemory` of each node that is for slots in use; `None` for a node that is
    /// excluded or not a primary now.
    pub(super) fn rooms(&self, view: &View, config: &Config) -> Vec<Option<u64>> {
        let members = view.members().iter().enumerate();
        let room = |node| self.room.get(&Node(node as u16)).copied().unwrap_or(u64::MAX);
        let of = |(number, member): (usize, &Option<_>)| {
            let member: &crate::members::Member = member.as_ref()?;
            (!config.excluded.contains(&member.address)).then(|| room(number))
        };
        members.map(of).collect()
    }

    /// Capacity of each node; 0 for a node without room.
    pub(super) fn capacities(&self, view: &View, config: &Config) -> Vec<Capacity> {
        let capacity = |room: Option<u64>| Capacity {
            bytes: room.unwrap_or_default(),
            accesses: room.map_or(0.0, |_| config.load_max),
            // Redis answers a write before its replicas have it.
            replication_us: 0.0,
        };
        self.rooms(view, config).into_iter().map(capacity).collect()
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
        let (keys_all, keys) = (10, vec![(slot(1), 4)]);
        census.take(Node(3), Count { memory, keys_all, keys, slots: None });
        assert!(!census.is_due(one.into_iter(), COUNT_PERIOD / 2));
        assert!(census.is_due(both.into_iter(), COUNT_PERIOD / 2));
        assert!(census.is_due(one.into_iter(), COUNT_PERIOD));
        // Forty bytes belong to the slot; the room is nine tenths of the limit, less the share of
        // other agents.
        assert_eq!((census.bytes(slot(1)), census.room[&Node(3)]), (40, 900 - 110));
    }
}
