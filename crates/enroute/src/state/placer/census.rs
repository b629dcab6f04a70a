//! Memory of slots in use, and free memory of nodes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use state::{
    Node as Number, accesses::Accesses, members::Member, placement::Capacity, slot::Slot, usage,
};

use super::Config;
use crate::state::{
    cluster::{Cluster, View},
    wave::wave,
};

/// Tenths of a node's `maxmemory` that slots are planned to fill: the rest is for growth until they
/// are counted again.
const FILLED_TENTHS: u64 = 9;
/// How often keys of slots are counted; at once where a slot in use never was.
const COUNT_PERIOD: Duration = Duration::from_secs(5);

/// As of the last count.
#[derive(Debug, Default)]
pub(super) struct Census {
    counted: Option<Instant>,
    bytes: BTreeMap<Slot, u64>,
    /// What slots in use may take at nodes that have a limit, in bytes.
    room: BTreeMap<Number, u64>,
}

impl Census {
    /// Counts if it is due. A slot's keys are taken to be as large as keys at their node are.
    ///
    /// # Errors
    /// A node does not answer.
    pub(super) fn renew(
        &mut self,
        cluster: &Cluster,
        view: &View,
        accesses: &Accesses,
    ) -> anyhow::Result<()> {
        let known = accesses.slots().all(|slot| self.bytes.contains_key(&slot));
        if known && self.counted.is_some_and(|at| at.elapsed() < COUNT_PERIOD) {
            return Ok(());
        }
        self.counted = Some(Instant::now());
        self.bytes.clear();
        self.room.clear();
        let nodes: Vec<(Number, &Member)> = view.primaries().collect();
        let counts = wave(&nodes, |&(node, member)| {
            let slots = accesses.slots().filter(|slot| view.owner(*slot) == Some(node));
            count(cluster, member, slots.collect())
        });
        for ((node, _), found) in nodes.into_iter().zip(counts) {
            let (bytes, room) = found?;
            self.bytes.extend(bytes);
            self.room.extend(room.map(|room| (node, room)));
        }
        Ok(())
    }

    /// Memory of a slot.
    pub(super) fn bytes(&self, slot: Slot) -> u64 {
        self.bytes.get(&slot).copied().unwrap_or_default()
    }

    /// Room at each node: what `maxmemory` leaves to slots in use; a node that is excluded, or no
    /// primary now, has none.
    pub(super) fn capacities(&self, view: &View, config: &Config) -> Vec<Capacity> {
        let of = |(number, member): (usize, &Option<Member>)| match member {
            Some(member) if !config.excluded.contains(&member.address) => Capacity {
                bytes: self.room.get(&Number(number as u16)).copied().unwrap_or(u64::MAX),
                accesses: config.load_max,
                // Redis answers a write before its replicas have it.
                replication_us: 0.0,
            },
            _ => Capacity { bytes: 0, accesses: 0.0, replication_us: 0.0 },
        };
        view.members.iter().enumerate().map(of).collect()
    }
}

/// What each slot takes at its node, and the node's room if it has a limit, all in bytes.
type Count = (Vec<(Slot, u64)>, Option<u64>);

fn count(cluster: &Cluster, member: &Member, slots: Vec<Slot>) -> anyhow::Result<Count> {
    let memory = cluster.query(member.address, usage::memory())?;
    let keys_all = cluster.query(member.address, usage::keys())?;
    let each = memory.dataset.checked_div(keys_all).unwrap_or_default();
    let keys = cluster.keys_in(member.address, &slots)?;
    let bytes: Vec<(Slot, u64)> =
        slots.into_iter().zip(keys).map(|(slot, keys)| (slot, keys * each)).collect();
    let room = memory.limit.map(|limit| {
        let others = memory.used.saturating_sub(bytes.iter().map(|(_, bytes)| bytes).sum());
        (limit / 10 * FILLED_TENTHS).saturating_sub(others)
    });
    Ok((bytes, room))
}
