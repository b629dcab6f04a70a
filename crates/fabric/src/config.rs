//! Parameters of a run besides the topology, the flows and the scheme.

use crate::model::Model;

/// Parameters of a run besides topology, workload and scheme.
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
    /// Interval of samples of the time series, in nanoseconds; 0 takes none. The first
    /// [`crate::SAMPLES_MAX`] are kept.
    pub sample_interval_ns: u64,
    /// Every n-th packet that hosts send is followed, up to [`crate::FOLLOWED_MAX`]; 0 follows
    /// none.
    pub follow_every: u64,
    /// Longest time of the run after the start of the last flow, in nanoseconds. Without it a late
    /// handshake would extend the run by more than four minutes.
    pub drain_ns: u64,
    /// Number of threads that simulate the run together, 1 or 2: see
    /// [`crate::Simulation::step_together`]. Results do not depend on it.
    pub threads: usize,
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
            threads: 1,
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
    /// The virtual machine.
    pub vm: u32,
    /// The server it moves to.
    pub server: u32,
    /// Time of the move, in nanoseconds.
    pub at_ns: u64,
}
