//! Bluebird: ToRs resolve everything, from a cache or in their control planes (§5).

mod lru;

use std::collections::VecDeque;

use super::resolver::{Passing, Resolver, Step};
use crate::directory::Directory;
use lru::Lru;

/// Rate between data and control plane.
const CONTROL_BPS: u64 = 20_000_000_000;

/// Time between two packets in the control plane.
const GAP_NS: u64 = 250;

/// Time from the control plane back to the data plane.
const LATENCY_NS: u64 = 8_500;

/// Time from a packet's resolution until its mapping is in the cache.
const INSERTION_NS: u64 = 2_000_000;

/// Capacity of the control-plane queue of one ToR, in bytes.
const QUEUE_BYTES_MAX: u64 = 1 << 20;

/// The reference counts a waiting packet without its two bytes of link header.
const LINK_HEADER_BYTES: u64 = 2;

#[derive(Debug)]
pub(crate) struct Bluebird {
    /// Cache of each switch; only ToRs have one.
    caches: Vec<Option<Lru>>,
    /// Mappings on their way to a cache: when, which switch, which address.
    insertions: VecDeque<(u64, u32, u32)>,
}

impl Bluebird {
    pub(crate) fn new(entries: &[u32], tors: impl Iterator<Item = bool>) -> Self {
        let cache = |(entries, tor): (&u32, bool)| tor.then(|| Lru::new(*entries));
        Self { caches: entries.iter().zip(tors).map(cache).collect(), insertions: VecDeque::new() }
    }

    /// The insertions that are due. Packets are resolved in no other order than inserted.
    fn insert_due(&mut self, now_ns: u64, directory: &Directory) {
        while let Some((at_ns, switch, vip)) = self.insertions.front().copied() {
            if at_ns > now_ns {
                return;
            }
            self.insertions.pop_front();
            if let Some(cache) = &mut self.caches[switch as usize] {
                cache.put(vip, directory.mapped(vip));
            }
        }
    }
}

/// Returns the number of bytes of a packet that are sent to the control plane.
fn control_bytes(packet_bytes: u16) -> u64 {
    u64::from(packet_bytes) - LINK_HEADER_BYTES
}

impl Resolver for Bluebird {
    fn reads_tunnel(&self, switch: u32) -> bool {
        self.caches[switch as usize].is_some()
    }

    fn pass(&mut self, passing: Passing<'_>) -> Step {
        self.insert_due(passing.now_ns, passing.directory);
        let Some(cache) = &mut self.caches[passing.switch as usize] else {
            return Step::default();
        };
        let header = passing.header;
        if header.resolved {
            return Step::default();
        }
        header.resolved = true;
        if let Some(pip) = cache.get(header.destination_vip) {
            header.destination_pip = pip;
            return Step { hit: true, ..Step::default() };
        }
        header.destination_pip = passing.directory.mapped(header.destination_vip);
        Step { control_plane: true, ..Step::default() }
    }

    fn before_remap(&mut self, now_ns: u64, directory: &Directory) {
        self.insert_due(now_ns.saturating_sub(1), directory);
    }

    fn control_plane_bytes(&self, packet_bytes: u16) -> (u64, u64) {
        (QUEUE_BYTES_MAX, control_bytes(packet_bytes))
    }

    fn in_control_plane(
        &mut self,
        at: u32,
        vip: u32,
        packet_bytes: u16,
        now_ns: u64,
    ) -> (u64, u64) {
        let sent_ns = control_bytes(packet_bytes) * 8_000_000_000 / CONTROL_BPS;
        let leaves_ns = sent_ns + LATENCY_NS;
        let inserted_ns = now_ns + leaves_ns + INSERTION_NS;
        let place = self.insertions.partition_point(|insertion| insertion.0 <= inserted_ns);
        self.insertions.insert(place, (inserted_ns, at, vip));
        (leaves_ns, sent_ns + GAP_NS)
    }
}

#[cfg(test)]
mod tests {
    use policy::v2p::Header;

    use super::*;
    use crate::{network::Shape, topology::Topology};

    /// Whichever packet passes next, and wherever.
    #[test]
    fn what_was_due_before_a_remap_has_the_old_mapping() {
        let topology = Topology::ft8_10k();
        let mut directory = Directory::new(&topology, &Shape::new(&topology));
        let (vip, tor) = (directory.vip(7), topology.switches() - 1);
        let old = directory.mapped(vip);
        let mut bluebird = Bluebird::new(&vec![8; tor as usize + 1], (0..=tor).map(|_| true));
        let (leaves_ns, _) = bluebird.in_control_plane(tor, vip, 100, 0);
        let due_ns = leaves_ns + INSERTION_NS;
        directory.move_to(vip, old + 1);
        bluebird.before_remap(due_ns + 1, &directory);
        directory.remap(vip);
        let mut header = Header { destination_vip: vip, ..Header::default() };
        let step = bluebird.pass(Passing {
            switch: tor,
            header: &mut header,
            first_switch: true,
            directory: &directory,
            now_ns: due_ns + 10,
        });
        assert!(step.hit);
        assert_eq!(header.destination_pip, old);
    }
}
