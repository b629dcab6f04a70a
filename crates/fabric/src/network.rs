//! Nodes, links and routes.
//!
//! Nodes are numbered cores, spines, ToRs, then rack by rack servers and gateways. A link is one
//! direction of a cable, with a queue before it. A packet causes one event for each link, and one
//! more if it has to wait there.

mod shape;

pub(crate) use shape::Shape;

use crate::{
    crossing::{Crossing, Sent},
    domain::{Border, Domain},
    ecmp,
    packet::{Kind, NONE, Packet, PacketId, Packets, Stage, flag},
    topology::{Link, Topology},
    wheel::Wheel,
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
    pub border: Border,
    /// The part of a divided run that this is, and what leaves it.
    part: Option<Domain>,
    pub out: Sent,
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
    free_event: u64,
    /// Bytes of all waiting packets; each has at least one.
    waiting_bytes: u32,
    /// Packets behind the first that waits; that one is in the calendar.
    first: PacketId,
    last: PacketId,
    /// The node at the other end; [`MIDDLE`], [`AWAY`].
    to: u32,
}

/// This end of a link is in the middle.
const MIDDLE: u32 = 1 << 31;

/// Another part of a divided run simulates the other end.
const AWAY: u32 = 1 << 30;

/// The bits of a node's number.
const NODE: u32 = AWAY - 1;

impl Port {
    fn idle(from: Domain, to: u32) -> Self {
        let to = if from == Domain::Middle { to | MIDDLE } else { to };
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
    pub(crate) fn new(topology: &Topology, seeds: Vec<u32>, marks: bool, whole: bool) -> Self {
        let shape = Shape::new(topology);
        let border = Border::new(&shape, whole);
        let port = |(from, to)| Port::idle(border.domain(from), to);
        Self {
            ports: shape.ends().into_iter().map(port).collect(),
            buffer_bytes: u32::try_from(topology.buffer_bytes).unwrap_or(u32::MAX),
            shape,
            host_link: Timing::new(topology.host_link),
            fabric_link: Timing::new(topology.fabric_link),
            seeds,
            marks,
            border,
            part: None,
            out: Sent::default(),
            dropped: 0,
        }
    }

    /// Simulates one domain only.
    pub(crate) fn keep(&mut self, domain: Domain) {
        self.part = Some(domain);
        for port in &mut self.ports {
            if self.border.domain(port.to & NODE) != domain {
                port.to |= AWAY;
            }
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
            || (state.free_ns == now_ns && state.free_event < wheel.now_event);
        if sent_already && state.waiting_bytes == 0 {
            self.begin(wheel, packets, id, now_ns);
            return;
        }
        let packet = &mut packets[id];
        let bytes = u32::from(packet.bytes);
        if state.waiting_bytes + bytes > self.buffer_bytes {
            self.dropped += 1;
            self.drop(packets, id);
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
        let middle = self.ports[port].to & MIDDLE != 0;
        wheel.enter(if middle { Domain::Middle } else { Domain::Edge });
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

    /// Removes a packet that is lost here.
    pub(crate) fn drop(&mut self, packets: &mut Packets, id: PacketId) {
        let packet = &packets[id];
        if self.part == Some(Domain::Middle) && packet.kind == Kind::Data {
            self.out.lost.push(packet.cold.flow);
        }
        packets.remove(id);
    }

    /// A packet leaves for the other part. The edge keeps what only hosts need of it.
    #[inline(never)]
    fn depart(&mut self, packets: &mut Packets, id: PacketId, number: u64, at_ns: u64) {
        let packet = &packets[id];
        let place = match (self.part, packet.kind) {
            (_, Kind::Learning | Kind::Invalidation) => NONE,
            (Some(Domain::Middle), Kind::Data) => packet.cold.flow,
            (_, Kind::Data) => id,
        };
        self.out.packets.push(Crossing::new(packet, place, number, at_ns));
        if place == id && self.part == Some(Domain::Edge) {
            packets.lend();
        } else {
            packets.remove(id);
        }
    }

    /// Begins the transmission of a packet.
    fn begin(&mut self, wheel: &mut Wheel, packets: &mut Packets, id: PacketId, now_ns: u64) {
        let packet = &mut packets[id];
        let port = packet.at;
        let timing = if port < self.shape.host_ports { &self.host_link } else { &self.fabric_link };
        let state = &mut self.ports[port as usize];
        state.free_ns = now_ns + u64::from(timing.transmission_ns[usize::from(packet.bytes)]);
        state.free_event = wheel.number();
        packet.at = state.to & NODE;
        packet.stage = Stage::Arrived;
        let at_ns = state.free_ns + timing.delay_ns;
        if state.to & AWAY != 0 {
            self.depart(packets, id, wheel.number(), at_ns);
            return;
        }
        wheel.insert(id, at_ns);
    }
}
