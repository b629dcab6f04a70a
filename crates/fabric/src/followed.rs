//! Packets followed from host to host, to show their paths.

/// Maximum number of followed packets of a run.
pub const FOLLOWED_MAX: usize = 2_000;

/// The path of one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The flow's id in the workload.
    pub flow: u32,
    /// The sending virtual machine.
    pub source: u32,
    /// The receiving virtual machine.
    pub destination: u32,
    /// The nodes it passed, in order; the last one is its receiver if it was delivered.
    pub steps: Vec<Step>,
}

/// One place on a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Time, in nanoseconds.
    pub at_ns: u64,
    /// Place.
    pub place: Place,
    /// Whether its outer destination is a server: a switch, a gateway or its host has resolved it.
    pub resolved: bool,
}

/// A place on a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A server, numbered rack by rack: it sends or delivers the packet, or forwards one of a
    /// machine that has moved.
    Server(u32),
    /// A gateway, numbered rack by rack.
    Gateway(u32),
    /// A switch: cores, then spines, then ToRs.
    Switch(u32),
}
