//! OnDemand: servers cache mappings without bound after a first trip through the gateway (§5).

use std::collections::{HashMap, HashSet};

use policy::v2p::Header;

use super::resolver::{Departure, Path, Resolver};

/// Delay of a miss (§5).
const MISS_NS: u64 = 40_000;

/// The controller does not reach the servers' tables sooner after a move (§5.2).
const REMAP_NS: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct OnDemand {
    /// Code: the cost is paid once, by a server's first packet sent from its cache.
    pays_once: bool,
    /// Code: servers learn only from what they receive.
    learns_on_receive: bool,
    /// (server, virtual address) known from packets received.
    known: HashSet<(u32, u32)>,
    /// The same from misses, with the time from which they are known.
    asked: HashMap<(u32, u32), u64>,
    paid: HashSet<u32>,
    /// Machines that move: known to all servers from the start.
    moving: Vec<u32>,
}

impl OnDemand {
    pub(crate) fn new(pays_once: bool, learns_on_receive: bool) -> Self {
        Self {
            pays_once,
            learns_on_receive,
            known: HashSet::new(),
            asked: HashMap::new(),
            paid: HashSet::new(),
            moving: Vec::new(),
        }
    }

    fn knows(&self, path: &Path) -> bool {
        self.moving.contains(&path.destination_vip)
            || self.known.contains(&(path.source_host, path.destination_vip))
    }
}

impl Resolver for OnDemand {
    fn depart(&mut self, path: &mut Path, now_ns: u64) -> Departure {
        path.known = path.known || self.knows(path);
        if !path.known && !self.learns_on_receive {
            let learned_ns = *self
                .asked
                .entry((path.source_host, path.destination_vip))
                .or_insert(now_ns + MISS_NS);
            path.known = learned_ns <= now_ns;
        }
        if !path.known {
            return Departure::GATEWAY;
        }
        let pays = self.pays_once && self.paid.insert(path.source_host);
        Departure { resolved: true, delay_ns: if pays { MISS_NS } else { 0 } }
    }

    fn arrive(&mut self, host: u32, header: &Header, back: Option<&mut Path>) {
        if !self.learns_on_receive || back.as_ref().is_some_and(|back| back.known) {
            return;
        }
        self.known.insert((host, header.source_vip));
        if let Some(back) = back {
            back.known = true;
        }
    }

    fn announce_move(&mut self, vip: u32) {
        self.moving.push(vip);
    }

    fn remap_delay_ns(&self) -> u64 {
        REMAP_NS
    }
}
