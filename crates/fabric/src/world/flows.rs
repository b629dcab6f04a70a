//! Flows: connections, datagrams, and the packets they send.

use std::cmp::Reverse;

use policy::v2p::Header;

use super::World;
use crate::{
    ecmp,
    network::Shape,
    packet::{Cold, Kind, Later, Packet, PacketId, Segment, Stage, flag},
    scheme::resolver::{Departure, Path, Resolver},
    tcp::{Connection, NEVER},
    topology::Topology,
    workload::Flow,
};

/// No connection.
pub(super) const CLOSED: u32 = u32::MAX;

/// Headers inside the tunnel: IP, and TCP with timestamps or UDP.
const INNER_IP_BYTES: u16 = 20;
const TCP_BYTES: u16 = 32;
const TCP_SYN_BYTES: u16 = 36;
const SACK_BLOCK_BYTES: u16 = 8;
const UDP_BYTES: u16 = 8;

/// Payload of the reference simulator's datagrams.
const FIXED_DATAGRAM_BYTES: u16 = 64;

/// One flow's connection, and the paths of its packets.
#[derive(Debug)]
pub(super) struct Open {
    flow: u32,
    generation: u32,
    connection: Connection,
    to_server: Path,
    to_client: Path,
    first_sent_ns: u64,
    /// The earliest timer set for each end: client, server.
    timer_ns: [u64; 2],
}

/// Finds the turns of packets between two hosts.
#[derive(Debug)]
pub(crate) struct Turns {
    topology: Topology,
    /// Recently asked: source, destination, turn.
    memo: Vec<(u32, u32, u32)>,
    /// Whether only the packet's addresses are hashed, without seeds of the switches.
    unseeded: bool,
}

/// Number of ECMP hashes that are remembered.
const MEMO: usize = 1 << 14;

impl Turns {
    pub(super) fn new(topology: &Topology, unseeded: bool) -> Self {
        let shape = Topology { placement: Vec::new(), ..topology.clone() };
        Self { topology: shape, memo: vec![(0, 0, 0); MEMO], unseeded }
    }

    fn turn(&self, hash: u64) -> u32 {
        if self.unseeded { ecmp::turns(&self.topology, hash) } else { (hash ^ (hash >> 32)) as u32 }
    }

    pub(super) fn between(&mut self, shape: &Shape, from: u32, to: u32) -> u32 {
        let place = from.wrapping_mul(0x9e37_79b1).wrapping_add(to).wrapping_mul(0x85eb_ca77) >> 18;
        let entry = self.memo[place as usize % MEMO];
        if (entry.0, entry.1) == (from, to) {
            return entry.2;
        }
        let turn = self.turn(ecmp::tunnel_hash(shape.address(from), shape.address(to)));
        self.memo[place as usize % MEMO] = (from, to, turn);
        turn
    }

    pub(super) fn to_switch(&self, shape: &Shape, at: u32, to: u32) -> u32 {
        ecmp::turns(&self.topology, ecmp::control_hash(shape.address(at), shape.address(to)))
    }
}

impl<R: Resolver> World<R> {
    pub(super) fn start_flow(&mut self, index: usize, flow: &Flow) {
        let result = &mut self.metrics.per_flow[self.result_of[index] as usize];
        if result.first_sent_ns == NEVER {
            result.first_sent_ns = self.now_ns;
        }
        let first_sent_ns = result.first_sent_ns;
        if self.settings.udp {
            result.missing += 1;
            let mut path = self.path(flow.source, flow.destination, flow.id);
            let payload = if self.settings.fixed_datagrams {
                FIXED_DATAGRAM_BYTES
            } else {
                flow.bytes as u16
            };
            let segment = Segment { payload, ..Segment::default() };
            self.send(index as u32, &mut path, segment, first_sent_ns);
            return;
        }
        let connection = Connection::connect(
            &mut self.segments,
            flow.bytes as u32,
            &self.settings.tuning,
            self.now_ns,
        );
        let place = self.open(index, connection);
        self.settle(place);
    }

    /// A place for the connection of a flow.
    fn open(&mut self, index: usize, connection: Connection) -> u32 {
        let flow = self.flows[index];
        let place = self.free_connections.pop().unwrap_or(self.connections.len() as u32);
        let open = Open {
            flow: index as u32,
            generation: self.connections.get(place as usize).map_or(0, |old| old.generation + 1),
            connection,
            to_server: self.path(flow.source, flow.destination, flow.id),
            to_client: self.path(flow.destination, flow.source, flow.id),
            first_sent_ns: self.metrics.per_flow[self.result_of[index] as usize].first_sent_ns,
            timer_ns: [NEVER; 2],
        };
        if place as usize == self.connections.len() {
            self.connections.push(open);
        } else {
            self.connections[place as usize] = open;
        }
        self.connection_of[index] = place;
        place
    }

    fn path(&mut self, from: u32, to: u32, flow_id: u32) -> Path {
        let (source_vip, destination_vip) = (self.directory.vip(from), self.directory.vip(to));
        let shape = &self.network.shape;
        let source_host = self.directory.home(source_vip);
        let home = self.directory.mapped(destination_vip);
        let gateway = gateway(shape, flow_id);
        Path {
            source_host,
            source_vip,
            source_hash: self.directory.hash(source_vip),
            destination_vip,
            destination_hash: self.directory.hash(destination_vip),
            gateway,
            gateway_turn: self.turns.between(shape, source_host, gateway),
            home,
            home_turn: self.turns.between(shape, source_host, home),
            known: false,
        }
    }

    /// After a move: open connections of this virtual machine use its new server.
    pub(super) fn move_connections(&mut self, vip: u32) {
        for index in 0..self.connection_of.len() {
            let place = self.connection_of[index];
            let flow = self.flows[index];
            if place == CLOSED
                || ![flow.source, flow.destination].map(|vm| self.directory.vip(vm)).contains(&vip)
            {
                continue;
            }
            let known = {
                let open = &self.connections[place as usize];
                (open.to_server.known, open.to_client.known)
            };
            let to_server = self.path(flow.source, flow.destination, flow.id);
            let to_client = self.path(flow.destination, flow.source, flow.id);
            let open = &mut self.connections[place as usize];
            open.to_server = Path { known: known.0, ..to_server };
            open.to_client = Path { known: known.1, ..to_client };
        }
    }

    pub(super) fn gateway_of(&self, flow: u32) -> u32 {
        gateway(&self.network.shape, self.flows[flow as usize].id)
    }

    /// Hands a packet to its transport. `false`: it had duplicate data only.
    pub(super) fn receive(&mut self, packet: &Packet) -> bool {
        let host = packet.at;
        if self.settings.udp {
            self.resolver.arrive(host, &packet.header, None);
            return true;
        }
        let flow = packet.cold.flow as usize;
        let asks = packet.cold.segment.flags & (flag::SYN | flag::REVERSE) == flag::SYN;
        if asks && self.connection_of[flow] == CLOSED {
            // A repeated SYN after the end of a connection: the listener answers it.
            self.open(flow, Connection::gone(&self.settings.tuning, self.now_ns));
        }
        let place = self.connection_of[flow];
        let Some(open) = self.connections.get_mut(place as usize) else {
            self.resolver.arrive(host, &packet.header, None);
            return true;
        };
        let (segment, sent_ns, now_ns) = (&packet.cold.segment, packet.cold.sent_ns, self.now_ns);
        let to_client = segment.flags & flag::REVERSE != 0;
        let back = if to_client { &mut open.to_server } else { &mut open.to_client };
        self.resolver.arrive(host, &packet.header, Some(back));
        let tuning = &self.settings.tuning;
        let arrival = open.connection.receive(&mut self.segments, segment, sent_ns, tuning, now_ns);
        self.metrics.flows_completed += u64::from(arrival.completed);
        self.settle(place);
        if let Some(later) = arrival.later {
            self.do_later(flow as u32, sent_ns, later, now_ns);
        }
        arrival.counted
    }

    /// Sets an event that is no packet, after all that is set already.
    fn do_later(&mut self, flow: u32, sent_ns: u64, later: Later, at_ns: u64) {
        let id = self.packets.insert(Packet {
            stage: Stage::Later(later),
            cold: Cold { flow, sent_ns, ..Cold::default() },
            ..Packet::default()
        });
        self.control.sent += 1;
        self.insert(id, at_ns);
    }

    pub(super) fn later(&mut self, id: PacketId, later: Later) {
        let Cold { flow, sent_ns, .. } = self.packets[id].cold;
        self.packets.remove(id);
        self.control.done += 1;
        let (place, now_ns) = (self.connection_of[flow as usize], self.now_ns);
        let Some(open) = self.connections.get_mut(place as usize) else { return };
        match later {
            Later::Accept => open.connection.accept(&mut self.segments, sent_ns, now_ns),
            Later::Connected => {
                self.do_later(flow, 0, Later::Write, now_ns + 1);
                return;
            }
            Later::Write => open.connection.write(&mut self.segments, now_ns),
        }
        self.settle(place);
    }

    /// A wake-up that was due at `due_ns`.
    pub(super) fn wake(&mut self, due_ns: u64, place: u32, generation: u32, client: bool) {
        let open = &mut self.connections[place as usize];
        if open.generation != generation || self.connection_of[open.flow as usize] != place {
            return;
        }
        // An earlier one has replaced it. If this one set the next, both would go on for ever.
        if open.timer_ns[usize::from(!client)] != due_ns {
            return;
        }
        open.timer_ns[usize::from(!client)] = NEVER;
        open.connection.wake(&mut self.segments, client, self.now_ns);
        self.settle(place);
    }

    /// Sends the segments of a connection, sets its timers, and drops it when both ends are done.
    fn settle(&mut self, place: u32) {
        if !self.segments.is_empty() {
            self.send_segments(place);
        }
        let open = &mut self.connections[place as usize];
        let timers = open.connection.dues_ns().into_iter().zip(&mut open.timer_ns);
        for ((due_ns, timer_ns), client) in timers.zip([true, false]) {
            if due_ns < *timer_ns {
                *timer_ns = due_ns;
                self.timers.push(Reverse((due_ns, place, open.generation, client)));
            }
        }
        if open.connection.over() {
            self.connection_of[open.flow as usize] = CLOSED;
            self.free_connections.push(place);
        }
    }

    fn send_segments(&mut self, place: u32) {
        let mut segments = std::mem::take(&mut self.segments);
        for segment in segments.drain(..) {
            let open = &self.connections[place as usize];
            let (flow, first_sent_ns) = (open.flow, open.first_sent_ns);
            let reverse = segment.flags & flag::REVERSE != 0;
            let mut path = if reverse { open.to_client } else { open.to_server };
            self.send(flow, &mut path, segment, first_sent_ns);
            if path.known {
                let open = &mut self.connections[place as usize];
                let kept = if reverse { &mut open.to_client } else { &mut open.to_server };
                kept.known = true;
            }
        }
        self.segments = segments;
    }

    /// Hands a segment to the network.
    fn send(&mut self, flow: u32, path: &mut Path, mut segment: Segment, first_sent_ns: u64) {
        self.metrics.sent += 1;
        if first_sent_ns == self.now_ns {
            segment.flags |= flag::FIRST;
        }
        // To its own server a packet never leaves the stack: no scheme sees it.
        let local = path.home == path.source_host;
        let departure =
            if local { Departure::DIRECT } else { self.resolver.depart(path, self.now_ns) };
        let (to, turn) = if departure.resolved {
            (path.home, path.home_turn)
        } else {
            (path.gateway, path.gateway_turn)
        };
        let header = Header {
            source_pip: path.source_host,
            destination_pip: to,
            source_vip: path.source_vip,
            destination_vip: path.destination_vip,
            source_hash: path.source_hash,
            destination_hash: path.destination_hash,
            resolved: departure.resolved,
            ..Header::default()
        };
        let id = self.packets.insert(Packet {
            header,
            at: path.source_host,
            turn,
            bytes: self.bytes(&segment),
            stage: if local { Stage::Arrived } else { Stage::FromHost },
            kind: Kind::Data,
            cold: Cold {
                sent_ns: self.now_ns,
                flow,
                home: path.home,
                home_turn: path.home_turn,
                segment,
            },
            ..Packet::default()
        });
        self.follow(id);
        if local || departure.delay_ns > 0 {
            self.insert(id, self.now_ns + departure.delay_ns);
        } else {
            self.network.send_from_host(&mut self.wheel, &mut self.packets, id, self.now_ns);
        }
    }

    fn bytes(&self, segment: &Segment) -> u16 {
        let transport = if self.settings.udp {
            UDP_BYTES
        } else if segment.flags & flag::SYN != 0 {
            TCP_SYN_BYTES
        } else {
            TCP_BYTES + SACK_BLOCK_BYTES * u16::from(segment.sack_count)
        };
        self.settings.tunnel_bytes + INNER_IP_BYTES + transport + segment.payload
    }
}

/// A flow's gateway: CRC-32 of its id (§5, per-flow load balancing).
fn gateway(shape: &Shape, flow_id: u32) -> u32 {
    let gateways = shape.gateways();
    match gateways.len() {
        0 => 0,
        count => gateways[policy::v2p::id_hash(flow_id) as usize % count],
    }
}
