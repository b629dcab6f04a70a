//! What a scheme may decide.

use policy::v2p::{Emit, Header};

use crate::{Error, Placement, directory::Directory};

/// From one virtual machine to another, as its server knows it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Path {
    pub source_host: u32,
    pub source_vip: u32,
    pub source_hash: u32,
    pub destination_vip: u32,
    pub destination_hash: u32,
    /// The flow's gateway, and the turn of packets to it.
    pub gateway: u32,
    pub gateway_turn: u32,
    /// Where the destination is mapped to, and the turn of packets there.
    pub home: u32,
    pub home_turn: u32,
    /// The scheme's own mark: the source's server knows the destination.
    pub known: bool,
}

/// How a packet leaves its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    /// Straight to the destination's server, else to the gateway.
    pub resolved: bool,
    pub delay_ns: u64,
}

impl Departure {
    pub(crate) const GATEWAY: Self = Self { resolved: false, delay_ns: 0 };
    pub(crate) const DIRECT: Self = Self { resolved: true, delay_ns: 0 };
}

/// What comes of a packet at a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Step {
    /// A cache resolved it.
    pub hit: bool,
    /// What the switch sends besides.
    pub emit: Option<Emit>,
    /// It goes through the control plane, which turns to it so much later.
    pub hold_ns: Option<u64>,
    /// The control plane had no room for it.
    pub lost: bool,
}

/// A packet at a switch.
pub(crate) struct Passing<'a> {
    pub switch: u32,
    pub header: &'a mut Header,
    pub bytes: u16,
    pub first_switch: bool,
    pub directory: &'a Directory,
    pub now_ns: u64,
}

/// A way of resolving virtual addresses, as it runs.
pub(crate) trait Resolver {
    /// Whether switches leave the tunnel's UDP header out of the bytes they count.
    fn reads_tunnel(&self, _switch: u32) -> bool {
        false
    }

    /// A server sends a packet.
    fn depart(&mut self, _path: &mut Path, _now_ns: u64) -> Departure {
        Departure::GATEWAY
    }

    /// A packet passes a switch.
    fn pass(&mut self, _passing: Passing<'_>) -> Step {
        Step::default()
    }

    /// How long a switch's control plane takes with a packet of this size.
    fn control_plane_ns(&self, _bytes: u16) -> u64 {
        0
    }

    /// A server receives a packet for a virtual machine it has; `back` leads to the sender.
    fn arrive(&mut self, _host: u32, _header: &Header, _back: Option<&mut Path>) {}

    /// A virtual machine is about to move.
    fn announce_move(&mut self, _vip: u32) {}

    /// How long after a move the mappings follow.
    fn remap_delay_ns(&self) -> u64 {
        0
    }

    /// A learning or invalidation packet passes a switch, or has arrived.
    fn control(&mut self, _switch: u32, _emit: Emit, _arrived: bool) {}

    fn place(&mut self, _placements: &[Placement], _directory: &Directory) -> Result<(), Error> {
        Err(Error::Config {
            what: "placement",
            expected: "the scheme controller".to_owned(),
            got: "another scheme".to_owned(),
        })
    }

    fn take_traffic(&mut self) -> Vec<(u32, u32, u32, u64)> {
        Vec::new()
    }
}
