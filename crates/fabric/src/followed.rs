//! Packets followed from host to host, to show their paths.

/// Most packets of a run that are followed.
pub const FOLLOWED_MAX: usize = 2_000;

/// The way of one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// The flow's id in the workload.
    pub flow: u32,
    /// The sending virtual machine.
    pub source: u32,
    /// The receiving virtual machine.
    pub destination: u32,
    /// The nodes it passed, in order; the last one is where it was delivered, if it was.
    pub steps: Vec<Step>,
}

/// One place on a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// When, nanoseconds.
    pub at_ns: u64,
    /// Where.
    pub place: Place,
    /// The packet's outer destination is a server: a switch, a gateway or its host knew where.
    pub resolved: bool,
}

/// A place on a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A server, numbered rack by rack: it sends, delivers, or passes on what is not its own.
    Server(u32),
    /// A gateway, numbered rack by rack.
    Gateway(u32),
    /// A switch: cores, then spines, then ToRs.
    Switch(u32),
}
