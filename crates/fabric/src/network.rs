//! Nodes, links and routes.
//!
//! Nodes are numbered cores, spines, ToRs, then rack by rack servers and gateways. A link is one
//! direction of a cable, with a queue before it. A packet causes one event for each link, and one
//! more if it has to wait there.

mod shape;

pub(crate) use shape::Shape;

use crate::{
    ecmp,
    packet::{NONE, Packet, PacketId, Packets, Stage, flag},
    topology::{Link, Topology},
    wheel::{Wheel, earlier},
};

/// Largest packet on a link, bytes: a datagram of [`crate::workload::DATAGRAM_BYTES_MAX`] and its
/// headers.
const PACKET_BYTES_MAX: usize = 8_192 + 128;

/// Queue length from which DCTCP marks a packet, in bytes: 65 packets of 1,106 bytes.
const MARK_BYTES: u32 = 65 * 1_106;

#[derive(Debug)]
pub(crate) struct Network {
    pub shape: Shape,
    ports: Vec<Port>,
    buffer_bytes: u32,
    host_link: Timing,
    fabric_link: Timing,
    /// A seed for each switch; empty if only the packet's addresses decide its path.
    seeds: Vec<u32>,
    marks: bool,
    /// Packets that found a queue full.
    pub dropped: u64,
}

/// One direction of a link, and its queue. In large fabrics few of them are in a processor's cache,
/// so all fields that a packet needs are in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Port {
    /// Time at which the current transmission ends.
    free_ns: u64,
    /// The corresponding event.
    free_event: u32,
    /// Bytes of all waiting packets; each has at least one.
    waiting_bytes: u32,
    /// Packets behind the first that waits; that one is in the calendar.
    first: PacketId,
    last: PacketId,
    /// The node at the other end.
    to: u32,
}

impl Port {
    fn idle(to: u32) -> Self {
        Self { free_ns: 0, free_event: 0, waiting_bytes: 0, first: NONE, last: NONE, to }
    }
}

const _: () = assert!(size_of::<Port>() == 32, "two ports are a cache line");

#[derive(Debug)]
struct Timing {
    delay_ns: u64,
    /// Transmission time for each size, in whole nanoseconds.
    transmission_ns: Vec<u32>,
}

impl Timing {
    fn new(link: Link) -> Self {
        let transmission = |bytes: usize| {
            u32::try_from(bytes as u128 * 8_000_000_000 / u128::from(link.rate_bps))
                .unwrap_or(u32::MAX)
        };
        Self {
            delay_ns: link.delay_ns,
            transmission_ns: (0..=PACKET_BYTES_MAX).map(transmission).collect(),
        }
    }
}

impl Network {
    pub(crate) fn new(topology: &Topology, seeds: Vec<u32>, marks: bool) -> Self {
        let shape = Shape::new(topology);
        Self {
            ports: shape.far_ends().into_iter().map(Port::idle).collect(),
            buffer_bytes: u32::try_from(topology.buffer_bytes).unwrap_or(u32::MAX),
            shape,
            host_link: Timing::new(topology.host_link),
            fabric_link: Timing::new(topology.fabric_link),
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
        self.transmit(wheel, packets, id, self.shape.port_of_host(host), now_ns);
    }

    /// Forwards a packet from the switch it is at, towards its outer destination.
    pub(crate) fn forward(
        &mut self,
        wheel: &mut Wheel,
        packets: &mut Packets,
        id: PacketId,
        now_ns: u64,
    ) {
        let (port, _) = self.route(&packets[id]);
        self.transmit(wheel, packets, id, port, now_ns);
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
        now_ns: u64,
    ) {
        packets[id].at = port;
        let state = &mut self.ports[port as usize];
        let never_used = state.free_ns == 0;
        let sent_already = never_used
            || state.free_ns < now_ns
            || (state.free_ns == now_ns && earlier(state.free_event, wheel.now_event));
        if sent_already && state.waiting_bytes == 0 {
            self.begin(wheel, packets, id, now_ns);
            return;
        }
        let packet = &mut packets[id];
        let bytes = u32::from(packet.bytes);
        if state.waiting_bytes + bytes > self.buffer_bytes {
            self.dropped += 1;
            packets.remove(id);
            return;
        }
        if self.marks && state.waiting_bytes > MARK_BYTES {
            packet.cold.segment.flags |= flag::CONGESTED;
        }
        let alone = state.waiting_bytes == 0;
        state.waiting_bytes += bytes;
        packet.stage = Stage::PortFree;
        if alone {
            wheel.insert_numbered(id, state.free_event, state.free_ns);
            return;
        }
        packet.next = NONE;
        match state.last {
            NONE => state.first = id,
            last => packets[last].next = id,
        }
        state.last = id;
    }

    /// The port of the first packet that waits has become free.
    pub(crate) fn port_free(
        &mut self,
        wheel: &mut Wheel,
        packets: &mut Packets,
        id: PacketId,
        now_ns: u64,
    ) {
        let port = packets[id].at as usize;
        let bytes = u32::from(packets[id].bytes);
        self.begin(wheel, packets, id, now_ns);
        let state = &mut self.ports[port];
        state.waiting_bytes -= bytes;
        let next = state.first;
        if next == NONE {
            return;
        }
        state.first = packets[next].next;
        if state.first == NONE {
            state.last = NONE;
        }
        wheel.insert_numbered(next, state.free_event, state.free_ns);
    }

    /// Begins the transmission of a packet.
    fn begin(&mut self, wheel: &mut Wheel, packets: &mut Packets, id: PacketId, now_ns: u64) {
        let packet = &mut packets[id];
        let port = packet.at;
        let timing = if port < self.shape.host_ports { &self.host_link } else { &self.fabric_link };
        let state = &mut self.ports[port as usize];
        state.free_ns = now_ns + u64::from(timing.transmission_ns[usize::from(packet.bytes)]);
        state.free_event = wheel.number();
        packet.at = state.to;
        packet.stage = Stage::Arrived;
        wheel.insert(id, state.free_ns + timing.delay_ns);
    }
}
