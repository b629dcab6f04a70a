//! Traffic of the virtual machines.

mod generate;
mod trace;

pub use generate::{Generator, SHARE_MAX};
pub use trace::{LINE_BYTES_MAX, ROWS_MAX, START_NS_MAX, TraceError};

/// One row of a trace: a TCP flow, or one UDP datagram of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The sending virtual machine.
    pub source: u32,
    /// The receiving virtual machine.
    pub destination: u32,
    /// Start time, in nanoseconds of simulated time.
    pub start_ns: u64,
    /// Which flow; also decides its gateway. Datagrams of one flow share it.
    pub id: u32,
    /// Number of bytes that the application writes; at most [`FLOW_BYTES_MAX`].
    pub bytes: u64,
}

/// No flow is longer: sequence numbers are 32 bits wide and do not wrap.
pub const FLOW_BYTES_MAX: u64 = 4_000_000_000;

/// No datagram is longer.
pub const DATAGRAM_BYTES_MAX: u64 = 8_192;

/// A trace: rows, and what carries them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The protocol of its rows.
    pub protocol: Protocol,
    /// Its rows, as the trace has them; not necessarily in order of time.
    pub flows: Vec<Flow>,
}

/// The protocol of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A row is a TCP flow.
    Tcp,
    /// A row is a UDP datagram.
    Udp,
}

impl Protocol {
    /// Its name in traces and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Tcp, Self::Udp].into_iter().find(|each| each.name() == name)
    }
}
