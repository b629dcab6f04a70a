//! Decisions of a scheme.

use policy::v2p::{Emit, Header};

use crate::{Error, Placement, directory::Directory};

/// A path from one virtual machine to another, as its server knows it.
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
    /// The location that the destination is mapped to, and the ECMP hash of packets to it.
    pub home: u32,
    pub home_turn: u32,
    /// Used by schemes: the source's server knows the destination.
    pub known: bool,
}

/// The addressing of a packet that leaves its server.
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

/// Decision about a packet at a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Step {
    /// A cache resolved it.
    pub hit: bool,
    /// An additional packet that the switch sends.
    pub emit: Option<Emit>,
    /// It goes through the control plane.
    pub control_plane: bool,
}

/// A packet at a switch.
pub(crate) struct Passing<'a> {
    pub switch: u32,
    pub header: &'a mut Header,
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

    /// Queue capacity of a switch's control plane, and the size of a packet in it, in bytes.
    fn control_plane_bytes(&self, _packet_bytes: u16) -> (u64, u64) {
        (0, 0)
    }

    /// Returns, for a packet that a control plane processes to resolve this address, the delay
    /// until the packet leaves it and the delay until the next one is processed.
    fn in_control_plane(
        &mut self,
        _at: u32,
        _vip: u32,
        _packet_bytes: u16,
        _now_ns: u64,
    ) -> (u64, u64) {
        (0, 0)
    }

    /// A server receives a packet for a virtual machine it has; `back` leads to the sender.
    fn arrive(&mut self, _host: u32, _header: &Header, _back: Option<&mut Path>) {}

    /// A virtual machine is about to move.
    fn announce_move(&mut self, _vip: u32) {}

    /// The mappings are about to change: what was due before must not depend on when the next
    /// packet passes.
    fn before_remap(&mut self, _now_ns: u64, _directory: &Directory) {}

    /// Returns the delay between a move and the update of the mappings.
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
