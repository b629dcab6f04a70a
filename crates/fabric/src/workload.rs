//! What the virtual machines send.

/// One row of a trace: a TCP flow, or one UDP datagram of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The sending virtual machine.
    pub source: u32,
    /// The receiving virtual machine.
    pub destination: u32,
    /// When it starts, nanoseconds of simulated time.
    pub start_ns: u64,
    /// Which flow; also decides its gateway. Datagrams of one flow share it.
    pub id: u32,
    /// What the application writes, in bytes; at most [`FLOW_BYTES_MAX`].
    pub bytes: u64,
}

/// No flow is longer: sequence numbers are 32 bits wide and do not wrap.
pub const FLOW_BYTES_MAX: u64 = 4_000_000_000;

/// No datagram is longer.
pub const DATAGRAM_BYTES_MAX: u64 = 8_192;
