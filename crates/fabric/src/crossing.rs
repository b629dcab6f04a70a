//! Packets on their way from one part of a divided run to the other.

use policy::v2p::Header;

use crate::{
    domain::Domain,
    packet::{Kind, NONE, Packet, PacketId, Packets, Stage, flag},
};

/// A packet on its way to the other part: what switches use of it.
#[derive(Debug)]
pub(crate) struct Crossing {
    pub number: u64,
    pub at_ns: u64,
    header: Header,
    /// Where the edge keeps the rest, or [`NONE`].
    place: PacketId,
    at: u32,
    turn: u32,
    bytes: u16,
    hops: u16,
    kind: Kind,
    flags: u8,
}

/// What has left a part in a window.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub packets: Vec<Crossing>,
    /// Places of packets that were lost in the middle.
    pub lost: Vec<PacketId>,
}

impl Sent {
    /// Prefetches them from the memory of the other core, so that the cache misses overlap.
    pub(crate) fn fetch(&self) {
        let read = |read, crossing: &Crossing| read ^ crossing.number ^ u64::from(crossing.flags);
        std::hint::black_box(self.packets.iter().fold(0, read));
    }
}

impl Crossing {
    pub(crate) fn new(packet: &Packet, place: PacketId, number: u64, at_ns: u64) -> Self {
        Self {
            number,
            at_ns,
            header: packet.header,
            place,
            at: packet.at,
            turn: packet.turn,
            bytes: packet.bytes,
            hops: packet.hops,
            kind: packet.kind,
            flags: packet.cold.segment.flags,
        }
    }

    /// Puts it among the packets of the part it comes to.
    pub(crate) fn put(&self, packets: &mut Packets, part: Domain) -> PacketId {
        let returns = part == Domain::Edge && self.place != NONE;
        let id = if returns { packets.back(self.place) } else { packets.place() };
        let packet = &mut packets[id];
        packet.header = self.header;
        packet.at = self.at;
        packet.turn = self.turn;
        packet.bytes = self.bytes;
        packet.stage = Stage::Arrived;
        packet.kind = self.kind;
        packet.hops = self.hops;
        if !returns {
            packet.cold.flow = self.place;
            packet.cold.segment.flags = self.flags;
        } else if self.flags & flag::CONGESTED != 0 {
            packet.cold.segment.flags |= flag::CONGESTED;
        }
        id
    }
}
