//! Packets in flight, and their storage.

use policy::v2p::Header;

/// Number of a packet, or [`NONE`].
pub(crate) type PacketId = u32;

/// No packet.
pub(crate) const NONE: PacketId = u32::MAX;

/// The event of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stage {
    /// It arrives at the host or switch `at`.
    #[default]
    Arrived,
    /// It leaves the switch `at` after its control plane.
    FromSwitch,
    /// It leaves the server or gateway `at` after a delay there.
    FromHost,
    /// The port `at` has sent the packets before it.
    PortFree,
    /// The control plane of the switch `at` begins to process it.
    ControlPlane,
    /// No packet: an action of a connection after all other events of this nanosecond.
    Later(Later),
}

/// A deferred action of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Later {
    /// The server answers a SYN.
    Accept,
    /// The client's application is notified of the connection.
    Connected,
    /// Its data is sent.
    Write,
}

/// The purpose of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A TCP segment or datagram.
    #[default]
    Data,
    /// A learning packet: `header.tag` for the ToR it is addressed to.
    Learning,
    /// An invalidation packet: `header.tag` is stale.
    Invalidation,
}

/// The fields that switches use come first, in one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Packet {
    pub header: Header,
    /// The next packet that waits for the same port, or free place.
    pub next: PacketId,
    /// The node it arrives at or leaves; if it waits, the port.
    pub at: u32,
    /// The ECMP hash of its outer addresses.
    pub turn: u32,
    /// Size on a link, in bytes.
    pub bytes: u16,
    pub stage: Stage,
    pub kind: Kind,
    /// Switches passed.
    pub hops: u16,
    pub cold: Cold,
}

/// The fields used only at the ends of a packet's path.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Cold {
    pub sent_ns: u64,
    pub flow: u32,
    /// The location of the destination when the packet was sent, and the ECMP hash of a packet from
    /// its source to there: switches that resolve it nearly always find the same. 0 if unknown.
    pub home: u32,
    pub home_turn: u32,
    pub segment: Segment,
}

/// Fields of the transport protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Segment {
    pub seq: u32,
    pub ack: u32,
    /// Timestamp echoed, its low bits: when the acknowledged segment was sent.
    pub echo: u32,
    pub sack: [(u32, u32); SACK_BLOCKS],
    pub payload: u16,
    pub flags: u8,
    pub sack_count: u8,
}

impl Segment {
    /// The echoed time in full; it is less than 2^32 ns ago.
    pub(crate) fn echoed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(u64::from((now_ns as u32).wrapping_sub(self.echo)))
    }
}

/// Number of SACK blocks that fit into a TCP header beside timestamps.
pub(crate) const SACK_BLOCKS: usize = 3;

/// Flags of a [`Segment`].
pub(crate) mod flag {
    pub(crate) const SYN: u8 = 1;
    pub(crate) const ACK: u8 = 2;
    pub(crate) const FIN: u8 = 4;
    /// Towards the client.
    pub(crate) const REVERSE: u8 = 8;
    /// A switch marked the packet (DCTCP).
    pub(crate) const CONGESTED: u8 = 16;
    /// The receiver saw such a mark.
    pub(crate) const ECHO: u8 = 32;
    /// Sent when the flow began.
    pub(crate) const FIRST: u8 = 64;
    /// There is no such connection.
    pub(crate) const RST: u8 = 128;
}

/// All packets in flight; slots are reused.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    places: Vec<Packet>,
    free: PacketId,
    live: u64,
    /// Places kept for packets that the other part has.
    lent: u64,
}

impl Packets {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: NONE, live: 0, lent: 0 }
    }

    /// A place for `packet`.
    pub(crate) fn insert(&mut self, packet: Packet) -> PacketId {
        let id = self.place();
        self[id] = packet;
        id
    }

    /// A place that holds any packet.
    pub(crate) fn place(&mut self) -> PacketId {
        self.live += 1;
        if self.free == NONE {
            self.places.push(Packet::default());
            return (self.places.len() - 1) as PacketId;
        }
        let id = self.free;
        self.free = self[id].next;
        id
    }

    pub(crate) fn remove(&mut self, id: PacketId) {
        self.live -= 1;
        self.places[id as usize].next = self.free;
        self.free = id;
    }

    /// Keeps the place of a packet that the other part of a divided run has now.
    pub(crate) fn lend(&mut self) {
        self.live -= 1;
        self.lent += 1;
    }

    /// A packet is back in its place.
    pub(crate) fn back(&mut self, id: PacketId) -> PacketId {
        self.live += 1;
        self.lent -= 1;
        id
    }

    /// A packet that was lent will not come back.
    pub(crate) fn lost(&mut self, id: PacketId) {
        self.back(id);
        self.remove(id);
    }

    /// Prefetches packets that are processed soon, so that their cache misses overlap.
    pub(crate) fn fetch(&self, soon: &[(u64, PacketId)]) {
        std::hint::black_box(soon.iter().fold(0, |read, (_, id)| read ^ self[*id].at));
    }

    /// Packets that the other part has.
    pub(crate) fn lent(&self) -> u64 {
        self.lent
    }

    /// Packets in use.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }
}

impl std::ops::Index<PacketId> for Packets {
    type Output = Packet;

    fn index(&self, id: PacketId) -> &Packet {
        &self.places[id as usize]
    }
}

impl std::ops::IndexMut<PacketId> for Packets {
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.places[id as usize]
    }
}

const _: () = assert!(size_of::<Packet>() == 128, "a packet is two cache lines");
const _: () = assert!(std::mem::offset_of!(Packet, cold) == 64, "and switches touch one");
