//! Nodes, links and routes.
//!
//! Nodes are numbered cores, spines, ToRs, then rack by rack servers and gateways. A link is one
//! direction of a cable. What waits for a link is not stored anywhere: a packet's arrival is known
//! when it is sent, because nothing overtakes on a link.

mod shape;

pub(crate) use shape::Shape;

use crate::{
    ecmp,
    packet::{Packet, PacketId, Packets, Stage, flag},
    topology::{Link, Topology},
    wheel::Wheel,
};

/// Largest packet on a link, bytes: a datagram of [`crate::workload::DATAGRAM_BYTES_MAX`] and its
/// headers.
const PACKET_BYTES_MAX: usize = 8_192 + 128;

/// DCTCP marks a packet that finds this much waiting, bytes: 65 packets of 1,106 bytes.
const MARK_BYTES: u64 = 65 * 1_106;

#[derive(Debug)]
pub(crate) struct Network {
    pub shape: Shape,
    ports: Vec<Port>,
    host_link: Timing,
    fabric_link: Timing,
    /// One number a switch, or none: then only the packet's addresses decide its path.
    seeds: Vec<u32>,
    marks: bool,
    /// Packets that found a queue full.
    pub dropped: u64,
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, Default)]
struct Port {
    /// When the last packet sent so far has left.
    free_ns: u64,
    /// Since when it has been sending without a pause, and how much.
    busy_since_ns: u64,
    busy_bytes: u64,
}

#[derive(Debug)]
struct Timing {
    delay_ns: u64,
    /// By size: bits over rate, whole nanoseconds.
    transmission_ns: Vec<u32>,
    /// A queue that takes less time than this cannot be full.
    surely_room_ns: u64,
    buffer_bytes: u64,
}

impl Timing {
    fn new(link: Link, buffer_bytes: u64) -> Self {
        let transmission = |bytes: usize| {
            u32::try_from(bytes as u128 * 8_000_000_000 / u128::from(link.rate_bps))
                .unwrap_or(u32::MAX)
        };
        let full_ns = u128::from(buffer_bytes) * 8_000_000_000 / u128::from(link.rate_bps);
        Self {
            delay_ns: link.delay_ns,
            transmission_ns: (0..=PACKET_BYTES_MAX).map(transmission).collect(),
            surely_room_ns: (full_ns / 4) as u64,
            buffer_bytes,
        }
    }
}

impl Network {
    pub(crate) fn new(topology: &Topology, seeds: Vec<u32>, marks: bool) -> Self {
        let shape = Shape::new(topology);
        Self {
            ports: vec![Port::default(); shape.ports() as usize],
            shape,
            host_link: Timing::new(topology.host_link, topology.buffer_bytes),
            fabric_link: Timing::new(topology.fabric_link, topology.buffer_bytes),
            seeds,
            marks,
            dropped: 0,
        }
    }

    /// Sends a packet from the host it is at.
    pub(crate) fn send_from_host(
        &mut self,
        wheel: &mut Wheel,
        packets: &mut Packets,
        id: PacketId,
        now_ns: u64,
    ) {
        let host = packets[id].at;
        let (port, tor) = (self.shape.port_of_host(host), self.shape.tor_of_host(host));
        self.transmit(wheel, packets, id, port, tor, now_ns);
    }

    /// Forwards a packet from the switch it is at, towards its outer destination.
    pub(crate) fn forward(
        &mut self,
        wheel: &mut Wheel,
        packets: &mut Packets,
        id: PacketId,
        now_ns: u64,
    ) {
        let (port, next) = self.route(&packets[id]);
        self.transmit(wheel, packets, id, port, next, now_ns);
    }

    /// The switches between a host and another to which it sends by `turn`.
    pub(crate) fn path(&self, from: u32, to: u32, turn: u32) -> Vec<u32> {
        let mut packet = Packet { at: self.shape.tor_of_host(from), turn, ..Packet::default() };
        packet.header.destination_pip = to;
        let mut path = Vec::new();
        while packet.at != to {
            path.push(packet.at);
            packet.at = self.route(&packet).1;
        }
        path
    }

    fn route(&self, packet: &Packet) -> (u32, u32) {
        let (at, to) = (packet.at, packet.header.destination_pip);
        let shape = &self.shape;
        if to < shape.switches {
            return shape.towards_switch(at, to, packet.turn);
        }
        if at >= shape.first_tor {
            if shape.tor_of_host(to) == at {
                return shape.down_to_host(to);
            }
            return shape.up_from_tor(
                at,
                self.turn(packet.turn & 0xffff, packet.turn, at, shape.spines_per_pod),
            );
        }
        if at >= shape.first_spine {
            let tor = shape.tor_of_host(to);
            if shape.pod_of_tor(tor) == shape.pod_of_spine(at) {
                return shape.down_from_spine(at, tor);
            }
            return shape
                .up_from_spine(at, self.turn(packet.turn >> 16, packet.turn, at, shape.uplinks));
        }
        shape.down_from_core(at, shape.pod_of_tor(shape.tor_of_host(to)))
    }

    fn turn(&self, unseeded: u32, turn: u32, at: u32, ways: u32) -> u32 {
        match self.seeds.get(at as usize) {
            Some(seed) => ecmp::seeded_turn(turn, *seed, ways),
            None => unseeded,
        }
    }

    fn transmit(
        &mut self,
        wheel: &mut Wheel,
        packets: &mut Packets,
        id: PacketId,
        port: u32,
        next: u32,
        now_ns: u64,
    ) {
        let to_or_from_host = port < self.shape.host_ports;
        let timing = if to_or_from_host { &self.host_link } else { &self.fabric_link };
        let packet = &mut packets[id];
        let port = &mut self.ports[port as usize];
        if port.free_ns <= now_ns {
            *port = Port { free_ns: now_ns, busy_since_ns: now_ns, busy_bytes: 0 };
        } else if port.free_ns - now_ns > timing.surely_room_ns || self.marks {
            let waiting = port.waiting_bytes(now_ns);
            if waiting + u64::from(packet.bytes) > timing.buffer_bytes {
                self.dropped += 1;
                packets.remove(id);
                return;
            }
            if self.marks && waiting > MARK_BYTES {
                packet.cold.segment.flags |= flag::CONGESTED;
            }
        }
        port.free_ns += u64::from(timing.transmission_ns[usize::from(packet.bytes)]);
        port.busy_bytes += u64::from(packet.bytes);
        packet.at = next;
        packet.stage = if next >= self.shape.switches { Stage::AtHost } else { Stage::AtSwitch };
        let arrival_ns = port.free_ns + timing.delay_ns;
        wheel.insert(packets, id, arrival_ns);
    }
}

impl Port {
    /// What has not left yet: the present busy period's bytes, by its part still to come.
    fn waiting_bytes(&self, now_ns: u64) -> u64 {
        let busy_ns = self.free_ns - self.busy_since_ns;
        let left_ns = self.free_ns - now_ns;
        (u128::from(self.busy_bytes) * u128::from(left_ns) / u128::from(busy_ns.max(1))) as u64
    }
}
