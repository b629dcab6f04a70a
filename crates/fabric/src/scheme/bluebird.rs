//! Bluebird: ToRs resolve everything, from a cache or in their control planes (§5).

mod lru;

use std::collections::VecDeque;

use super::resolver::{Passing, Resolver, Step};
use lru::Lru;

/// Between data and control plane.
const CONTROL_BPS: u64 = 20_000_000_000;

/// Between two packets there.
const GAP_NS: u64 = 250;

/// From there back to the data plane.
const LATENCY_NS: u64 = 8_500;

/// From a packet's resolution to its mapping in the cache.
const INSERTION_NS: u64 = 2_000_000;

/// What waits for the control plane of one ToR.
const QUEUE_BYTES_MAX: u64 = 1 << 20;

/// The reference counts a waiting packet without its two bytes of link header.
const LINK_HEADER_BYTES: u64 = 2;

#[derive(Debug)]
pub(crate) struct Bluebird {
    /// By switch; only ToRs have one.
    tors: Vec<Option<Tor>>,
    /// Mappings on their way to a cache: when, which switch, which address and where it is.
    insertions: VecDeque<(u64, u32, u32)>,
}

#[derive(Debug)]
struct Tor {
    cache: Lru,
    free_ns: u64,
    /// When each waiting packet starts, and its size.
    waiting: VecDeque<(u64, u64)>,
    waiting_bytes: u64,
}

impl Bluebird {
    pub(crate) fn new(entries: &[u32], tors: impl Iterator<Item = bool>) -> Self {
        let tor = |(entries, tor): (&u32, bool)| {
            tor.then(|| Tor {
                cache: Lru::new(*entries),
                free_ns: 0,
                waiting: VecDeque::new(),
                waiting_bytes: 0,
            })
        };
        Self { tors: entries.iter().zip(tors).map(tor).collect(), insertions: VecDeque::new() }
    }

    /// The insertions that are due. Packets are resolved in no other order than inserted.
    fn insert_due(&mut self, passing: &Passing<'_>) {
        while let Some((at_ns, switch, vip)) = self.insertions.front().copied() {
            if at_ns > passing.now_ns {
                return;
            }
            self.insertions.pop_front();
            if let Some(tor) = &mut self.tors[switch as usize] {
                tor.cache.put(vip, passing.directory.mapped(vip));
            }
        }
    }
}

impl Tor {
    /// How long until the control plane turns to a packet, or nothing if its queue is full.
    fn queue(&mut self, bytes: u64, now_ns: u64) -> Option<u64> {
        while let Some((start_ns, size)) = self.waiting.front().copied() {
            if start_ns > now_ns {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= size;
        }
        if self.waiting_bytes + bytes > QUEUE_BYTES_MAX {
            return None;
        }
        let start_ns = self.free_ns.max(now_ns);
        if start_ns > now_ns {
            self.waiting.push_back((start_ns, bytes));
            self.waiting_bytes += bytes;
        }
        self.free_ns = start_ns + transmission_ns(bytes) + GAP_NS;
        Some(start_ns - now_ns)
    }
}

fn transmission_ns(bytes: u64) -> u64 {
    bytes * 8_000_000_000 / CONTROL_BPS
}

impl Resolver for Bluebird {
    fn control_plane_ns(&self, bytes: u16) -> u64 {
        transmission_ns(u64::from(bytes) - LINK_HEADER_BYTES) + LATENCY_NS
    }

    fn reads_tunnel(&self, switch: u32) -> bool {
        self.tors[switch as usize].is_some()
    }

    fn pass(&mut self, passing: Passing<'_>) -> Step {
        self.insert_due(&passing);
        let Some(tor) = &mut self.tors[passing.switch as usize] else { return Step::default() };
        let header = passing.header;
        if header.resolved {
            return Step::default();
        }
        header.resolved = true;
        if let Some(pip) = tor.cache.get(header.destination_vip) {
            header.destination_pip = pip;
            return Step { hit: true, ..Step::default() };
        }
        let bytes = u64::from(passing.bytes) - LINK_HEADER_BYTES;
        let Some(hold_ns) = tor.queue(bytes, passing.now_ns) else {
            return Step { lost: true, ..Step::default() };
        };
        header.destination_pip = passing.directory.mapped(header.destination_vip);
        let resolved_ns = passing.now_ns + hold_ns + transmission_ns(bytes) + LATENCY_NS;
        let inserted_ns = resolved_ns + INSERTION_NS;
        let place = self.insertions.partition_point(|insertion| insertion.0 <= inserted_ns);
        self.insertions.insert(place, (inserted_ns, passing.switch, header.destination_vip));
        Step { hold_ns: Some(hold_ns), ..Step::default() }
    }
}
