//! What happens at a switch.

use policy::v2p::{Emit, Header, Mapping};

use super::World;
use crate::{
    packet::{Cold, Kind, Packet, PacketId, Stage, flag},
    scheme::resolver::{Passing, Resolver},
};

/// Payload of learning and invalidation packets, with UDP, IP and link headers.
const CONTROL_BYTES: u16 = 64 + 8 + 20 + 2;

impl<R: Resolver> World<R> {
    pub(super) fn at_switch(&mut self, id: PacketId) {
        let packet = &mut self.packets[id];
        if packet.kind != Kind::Data {
            self.control_at_switch(id);
            return;
        }
        let switch = packet.at;
        packet.hops += 1;
        let counters = &mut self.metrics.switches[switch as usize];
        counters.packets += 1;
        counters.bytes += u64::from(packet.bytes - self.settings.uncounted_bytes[switch as usize]);
        let destination = packet.header.destination_pip;
        let passing = Passing {
            switch,
            bytes: packet.bytes,
            first_switch: packet.hops == 1,
            header: &mut packet.header,
            directory: &self.directory,
            now_ns: self.now_ns,
        };
        let step = self.resolver.pass(passing);
        packet.header.hops = packet.header.hops.saturating_add(1);
        if step.hit {
            counters.hits += 1;
            counters.first_hits += u64::from(packet.cold.segment.flags & flag::FIRST != 0);
        }
        if packet.header.destination_pip != destination {
            packet.turn = if packet.cold.home == packet.header.destination_pip {
                packet.cold.home_turn
            } else {
                self.turns.between(
                    &self.network.shape,
                    packet.header.source_pip,
                    packet.header.destination_pip,
                )
            };
        }
        if let Some(emit) = step.emit {
            let (flow, reverse) =
                (packet.cold.flow, packet.cold.segment.flags & flag::REVERSE != 0);
            self.emit(switch, emit, flow, reverse);
        }
        self.note(id);
        if step.lost {
            self.control.lost += 1;
            self.packets.remove(id);
        } else if let Some(hold_ns) = step.hold_ns {
            self.packets[id].stage = Stage::ControlPlane;
            if hold_ns == 0 {
                self.in_control_plane(id);
            } else {
                self.insert(id, self.now_ns + hold_ns);
            }
        } else {
            self.network.forward(&mut self.wheel, &mut self.packets, id, self.now_ns);
        }
    }

    pub(super) fn in_control_plane(&mut self, id: PacketId) {
        let packet = &mut self.packets[id];
        packet.stage = Stage::FromSwitch;
        let control_plane_ns = self.resolver.control_plane_ns(packet.bytes);
        self.insert(id, self.now_ns + control_plane_ns);
    }

    /// Sends a learning packet to the sender's ToR, or an invalidation packet to a switch.
    fn emit(&mut self, switch: u32, emit: Emit, flow: u32, reverse: bool) {
        let (kind, mapping, to) = match emit {
            Emit::Learning(mapping) => {
                self.metrics.learning_packets += 1;
                let origin = self.origin(flow, reverse);
                (Kind::Learning, mapping, self.network.shape.tor_of_host(origin))
            }
            Emit::Invalidation(stale, culprit) => {
                self.metrics.invalidation_packets += 1;
                (Kind::Invalidation, stale, u32::from(culprit))
            }
        };
        if to == switch {
            return;
        }
        self.control.sent += 1;
        let packet = control_packet(
            kind,
            mapping,
            switch,
            to,
            self.turns.to_switch(&self.network.shape, switch, to),
        );
        let id = self.packets.insert(packet);
        self.network.forward(&mut self.wheel, &mut self.packets, id, self.now_ns);
    }

    fn control_at_switch(&mut self, id: PacketId) {
        let packet = &self.packets[id];
        let (switch, to, mapping) = (packet.at, packet.header.destination_pip, packet.header.tag);
        let emit = match packet.kind {
            Kind::Invalidation => Emit::Invalidation(mapping, 0),
            Kind::Learning | Kind::Data => Emit::Learning(mapping),
        };
        self.resolver.control(switch, emit, switch == to);
        if switch == to {
            self.control.done += 1;
            self.packets.remove(id);
        } else {
            self.packets[id].turn = self.turns.to_switch(&self.network.shape, switch, to);
            self.network.forward(&mut self.wheel, &mut self.packets, id, self.now_ns);
        }
    }
}

fn control_packet(kind: Kind, mapping: Mapping, from: u32, to: u32, turn: u32) -> Packet {
    Packet {
        header: Header { destination_pip: to, tag: mapping, ..Header::default() },
        at: from,
        turn,
        bytes: CONTROL_BYTES,
        kind,
        cold: Cold::default(),
        ..Packet::default()
    }
}
