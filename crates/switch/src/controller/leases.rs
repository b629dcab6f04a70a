//! Servers of NetCache's protocol, and the leases of their keys (decision 0130).

use std::{net::SocketAddr, time::Duration};

use wire::netcache::{Message, Op};

use super::{Cached, Command, Controller};
use crate::layout::{LEASES_MAX, Protocol};

#[derive(Debug, Clone)]
pub(super) struct Server {
    lease: u32,
    generation: u64,
    /// Sequence number, time and generation of the last request.
    asked: (u32, Duration, u64),
    granted: bool,
    /// It has not been granted since then.
    since: Duration,
}

impl Controller {
    /// The server's lease; asks for one if it is new.
    pub(super) fn server(&mut self, address: SocketAddr, now: Duration) -> Option<u32> {
        if !self.servers.contains_key(&address) {
            if self.servers.len() >= LEASES_MAX {
                return None;
            }
            // Clients may address any host: an address that does not answer keeps its place only
            // for a while.
            let taken = |lease: &u32| self.servers.values().any(|server| server.lease == *lease);
            let lease = (0..LEASES_MAX as u32).find(|lease| !taken(lease))?;
            let asked = (0, now, 0);
            let server = Server { lease, generation: 0, asked, granted: false, since: now };
            self.servers.insert(address, server);
            self.ask_lease(address, now);
        }
        self.servers.get(&address).map(|server| server.lease)
    }

    pub(super) fn ask_lease(&mut self, address: SocketAddr, now: Duration) {
        let sequence = self.draw() as u32;
        let Some(server) = self.servers.get_mut(&address) else { return };
        server.asked = (sequence, now, server.generation);
        let ask =
            Message { version: server.generation, ..Message::new(Op::Lease, sequence, [0; 16]) };
        self.ready.push_back(Command::Send(address, ask.bytes()));
    }

    pub(super) fn leased(&mut self, from: SocketAddr, message: &Message<'_>, now: Duration) {
        let Some(server) = self.servers.get_mut(&from) else { return };
        let (sequence, asked, generation) = server.asked;
        if message.sequence != sequence {
            return;
        }
        if message.version == generation {
            server.granted = true;
            let lease = server.lease;
            self.ready.push_back(Command::Lease(lease, asked + self.config.lease));
            return;
        }
        // A new agent, or one whose lease has ended: it knows no key.
        server.generation = message.version;
        server.granted = false;
        server.since = now;
        let theirs = |cached: &Cached| {
            cached.key.server == from && cached.key.protocol == Protocol::NetCache
        };
        let places: Vec<u32> = (0..self.config.entries)
            .filter(|place| self.cached[*place as usize].as_ref().is_some_and(theirs))
            .collect();
        for place in places {
            self.evict(place);
        }
        self.waiting.retain(|_, waiting| waiting.key.server != from);
        self.ask_lease(from, now);
    }

    pub(super) fn renew_leases(&mut self, now: Duration) {
        let (lease, cached) = (self.config.lease, &self.cached);
        let is_used = |address: SocketAddr| {
            cached.iter().flatten().any(|cached| cached.key.server == address)
        };
        // Its earlier leases have ended, too.
        self.servers.retain(|address, server| {
            server.granted || now < server.since + lease || is_used(*address)
        });
        let due: Vec<SocketAddr> = self
            .servers
            .iter()
            .filter(|(_, server)| {
                let every = if server.granted { self.config.lease / 5 } else { self.config.wait };
                now >= server.asked.1 + every
            })
            .map(|(address, _)| *address)
            .collect();
        for address in due {
            self.ask_lease(address, now);
        }
    }
}
