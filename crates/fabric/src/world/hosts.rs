//! Events at servers and gateways.

use super::World;
use crate::{
    Error, Migration,
    packet::{PacketId, Stage},
    scheme::resolver::Resolver,
};

/// Time in which a server forwards a packet for a virtual machine that has moved (§5.2).
const FOLLOW_ME_NS: u64 = 10_000;

impl<R: Resolver> World<R> {
    pub(super) fn at_host(&mut self, id: PacketId) -> Result<(), Error> {
        self.note(id);
        let packet = &self.packets[id];
        let (host, vip) = (packet.at, packet.header.destination_vip);
        let sent_ns = packet.cold.sent_ns;
        if sent_ns > self.now_ns {
            return Err(self.broken("causality", format!("a packet sent at {sent_ns} ns arrives")));
        }
        if self.directory.home(vip) == host {
            self.deliver(id);
        } else if self.network.shape.is_gateway(host) {
            self.at_gateway(id);
        } else {
            self.misdelivered(id);
        }
        Ok(())
    }

    /// A packet at a gateway: resolved on arrival, forwarded a fixed time later.
    fn at_gateway(&mut self, id: PacketId) {
        let packet = &mut self.packets[id];
        let home = self.directory.mapped(packet.header.destination_vip);
        packet.header.destination_pip = home;
        packet.header.resolved = true;
        packet.header.tag = policy::v2p::Mapping::NONE;
        packet.header.promotion = false;
        packet.header.misdelivered_from = 0;
        packet.turn = if packet.cold.home == home {
            packet.cold.home_turn
        } else {
            self.turns.between(&self.network.shape, packet.header.source_pip, home)
        };
        packet.stage = Stage::FromHost;
        self.insert(id, self.now_ns + self.settings.gateway_delay_ns);
    }

    /// The virtual machine is not here any more.
    fn misdelivered(&mut self, id: PacketId) {
        self.metrics.misdelivered += 1;
        self.metrics.last_misdelivered_ns = self.now_ns;
        let packet = &self.packets[id];
        let (host, vip) = (packet.at, packet.header.destination_vip);
        let to_gateway = packet.header.hit != 0 || !self.settings.follow_me;
        let flow = packet.cold.flow;
        let (to, resolved) = if to_gateway {
            (self.gateway_of(flow), false)
        } else {
            (self.directory.home(vip), true)
        };
        let turn = self.turns.between(&self.network.shape, host, to);
        let packet = &mut self.packets[id];
        packet.header.misdelivered_from = host;
        packet.header.source_pip = host;
        packet.header.destination_pip = to;
        packet.header.resolved = resolved;
        packet.header.hops = 0;
        packet.cold.home = 0;
        packet.turn = turn;
        packet.stage = Stage::FromHost;
        self.insert(id, self.now_ns + FOLLOW_ME_NS);
    }

    /// A packet leaves after a delay in its server or gateway.
    pub(super) fn depart(&mut self, id: PacketId) {
        if self.network.shape.is_gateway(self.packets[id].at) {
            self.metrics.gateway_packets += 1;
        }
        self.network.send_from_host(&mut self.wheel, &mut self.packets, id, self.now_ns);
    }

    fn deliver(&mut self, id: PacketId) {
        let packet = self.packets[id];
        self.packets.remove(id);
        let flow = packet.cold.flow as usize;
        if !self.receive(&packet) {
            self.metrics.repeated += 1;
            return;
        }
        let metrics = &mut self.metrics;
        metrics.received += 1;
        metrics.packet_latency_ns += self.now_ns - packet.cold.sent_ns;
        metrics.packet_hops += u64::from(packet.hops);
        let result = &mut metrics.per_flow[self.result_of[flow] as usize];
        result.first_received_ns = result.first_received_ns.min(self.now_ns);
        result.last_received_ns = self.now_ns;
        result.missing = result.missing.saturating_sub(1);
    }

    /// A virtual machine moves; the mappings follow now or later.
    pub(super) fn migrate(&mut self, migration: Migration) {
        let vip = self.directory.vip(migration.vm);
        self.directory.move_to(vip, self.network.shape.server(migration.server));
        self.move_connections(vip);
        let delay_ns = self.resolver.remap_delay_ns();
        if delay_ns == 0 {
            self.remap(vip);
            return;
        }
        let at_ns = self.now_ns + delay_ns;
        let place = self.remaps.partition_point(|remap| remap.0 > at_ns);
        self.remaps.insert(place, (at_ns, vip));
    }

    pub(super) fn remap(&mut self, vip: u32) {
        self.resolver.before_remap(self.now_ns, &self.directory);
        self.directory.remap(vip);
        self.move_connections(vip);
    }
}
