//! Parameters of a run besides the topology, the flows and the scheme.

use crate::model::Model;

/// Everything about a run that is not topology, workload or scheme.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Rules in use: those of the paper's text or of the authors' code.
    pub model: Model,
    /// Cache entries of the whole network together, divided over the switches that cache.
    pub cache_entries: u64,
    /// The transport protocol of the flows.
    pub transport: Transport,
    /// Virtual machines that move while the simulation runs.
    pub migrations: Vec<Migration>,
    /// The probability that a gateway ToR sends a learning packet for a packet it sees.
    pub learn_probability: f64,
    /// Distance of the samples of the time series, nanoseconds; 0 takes none. The first
    /// [`crate::SAMPLES_MAX`] are kept.
    pub sample_interval_ns: u64,
    /// One of this many packets that hosts send is followed, up to [`crate::FOLLOWED_MAX`]; 0:
    /// none.
    pub follow_every: u64,
    /// The run ends with its last event, but not later than this after the last flow's start,
    /// nanoseconds. A late handshake keeps it going for over four minutes.
    pub drain_ns: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: Model::paper(),
            cache_entries: 5120,
            transport: Transport::Cubic,
            migrations: Vec::new(),
            learn_probability: 0.005,
            sample_interval_ns: 0,
            follow_every: 0,
            drain_ns: 600_000_000_000,
        }
    }
}

/// The transport protocol of the flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Each row of the workload is one datagram.
    Udp,
    /// TCP with CUBIC.
    Cubic,
    /// TCP with DCTCP: switches mark above a threshold, senders slow down in proportion.
    Dctcp,
}

/// A virtual machine moves to another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Which virtual machine.
    pub vm: u32,
    /// The server it moves to.
    pub server: u32,
    /// When, nanoseconds.
    pub at_ns: u64,
}
