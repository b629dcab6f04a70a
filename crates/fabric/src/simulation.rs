//! One run, from its flows to its metrics.

use crate::{Config, Error, Metrics, Placement, Scheme, topology::Topology, workload::Flow};

/// A run in progress.
#[derive(Debug)]
pub struct Simulation {
    metrics: Metrics,
    flows: Vec<Flow>,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time, nanoseconds.
    pub now_ns: u64,
    /// Events processed.
    pub events: u64,
    /// Packets hosts have sent.
    pub packets: u64,
    /// Flows that have started.
    pub flows_started: u64,
    /// Nothing is left to do.
    pub finished: bool,
}

impl Simulation {
    /// A run of `flows` on `topology`, repeatable from `seed`.
    ///
    /// # Errors
    ///
    /// [`Error::Topology`], [`Error::Flow`] or [`Error::Config`] name what does not fit.
    pub fn new(
        config: &Config,
        topology: &Topology,
        flows: Vec<Flow>,
        scheme: Scheme,
        seed: u64,
    ) -> Result<Self, Error> {
        let _ = (config, scheme, seed);
        topology.check()?;
        Ok(Self { metrics: Metrics::default(), flows })
    }

    /// Processes up to `events_max` events.
    ///
    /// # Errors
    ///
    /// [`Error::Broken`]: a law of the simulated world broke; a bug.
    pub fn step(&mut self, events_max: u64) -> Result<Progress, Error> {
        self.metrics.events += events_max.min(self.flows.len() as u64);
        Ok(Progress { finished: true, ..Progress::default() })
    }

    /// Replaces what the caches of a [`Scheme::Controller`] run hold; switches not named are emptied.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if a switch or virtual machine does not exist or a cache would overflow.
    pub fn place(&mut self, placements: &[Placement]) -> Result<(), Error> {
        let _ = placements;
        Ok(())
    }

    /// Packets that entered the fabric unresolved since the last call, as (source, destination,
    /// gateway number, packets): what a controller reads from the switches (Appendix A.1).
    pub fn take_traffic(&mut self) -> Vec<(u32, u32, u32, u64)> {
        Vec::new()
    }

    /// TEMPORARY
    #[must_use]
    pub fn gateway_path(&self, _source: u32, _gateway: u32) -> Vec<u32> {
        Vec::new()
    }

    /// What the run has found so far, or in the end.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
