//! Events at switches.

use std::collections::VecDeque;

use policy::v2p::{Emit, Header, Mapping};

use super::World;
use crate::{
    packet::{Cold, Kind, Packet, PacketId, Stage, flag},
    scheme::resolver::{Passing, Resolver},
};

/// The queue of a switch's control plane; only its first element is in the calendar.
#[derive(Debug, Clone, Default)]
pub(super) struct ControlPlane {
    waiting: VecDeque<PacketId>,
    waiting_bytes: u64,
    /// Time and event of the end of its current work; 0: it never worked.
    free_ns: u64,
    free_event: u64,
}

impl ControlPlane {
    fn busy(&self, now_ns: u64, now_event: u64) -> bool {
        !self.waiting.is_empty()
            || self.free_ns > now_ns
            || (self.free_ns == now_ns && now_ns > 0 && self.free_event >= now_event)
    }
}

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
            let source = packet.header.source_vip;
            self.emit(switch, emit, source);
        }
        self.note(id);
        if step.control_plane {
            self.enter_control_plane(id);
        } else {
            self.network.forward(&mut self.wheel, &mut self.packets, id, self.now_ns);
        }
    }

    /// A packet waits until the switch's control plane has processed those before it; it is dropped
    /// if the queue is full.
    fn enter_control_plane(&mut self, id: PacketId) {
        let packet = &mut self.packets[id];
        packet.stage = Stage::ControlPlane;
        let plane = &mut self.control_planes[packet.at as usize];
        if !plane.busy(self.now_ns, self.wheel.now_event) {
            self.in_control_plane(id);
            return;
        }
        let (room, bytes) = self.resolver.control_plane_bytes(packet.bytes);
        if plane.waiting_bytes + bytes > room {
            self.control.lost += 1;
            self.network.drop(&mut self.packets, id);
            return;
        }
        plane.waiting_bytes += bytes;
        plane.waiting.push_back(id);
        if plane.waiting.len() == 1 {
            self.wheel.insert_numbered(id, plane.free_event, plane.free_ns);
        }
    }

    /// A packet is processed there.
    pub(super) fn in_control_plane(&mut self, id: PacketId) {
        let packet = &mut self.packets[id];
        packet.stage = Stage::FromSwitch;
        let (at, vip) = (packet.at, packet.header.destination_vip);
        let (leaves_ns, free_ns) =
            self.resolver.in_control_plane(at, vip, packet.bytes, self.now_ns);
        let plane = &mut self.control_planes[at as usize];
        if plane.waiting.front() == Some(&id) {
            plane.waiting.pop_front();
            plane.waiting_bytes -= self.resolver.control_plane_bytes(packet.bytes).1;
        }
        self.wheel.insert(id, self.now_ns + leaves_ns);
        plane.free_ns = self.now_ns + free_ns;
        plane.free_event = self.wheel.number();
        if let Some(next) = plane.waiting.front() {
            self.wheel.insert_numbered(*next, plane.free_event, plane.free_ns);
        }
    }

    /// Sends a learning packet to the sender's ToR, or an invalidation packet to a switch.
    fn emit(&mut self, switch: u32, emit: Emit, source: u32) {
        let (kind, mapping, to) = match emit {
            Emit::Learning(mapping) => {
                self.metrics.learning_packets += 1;
                let origin = self.directory.home(source);
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
