//! One run, from its flows to its metrics.

use std::fmt;

use crate::{
    Config, Error, Metrics, Placement, Scheme, Task,
    topology::Topology,
    workload::Flow,
    world::{Run, build, check},
};

/// A run in progress.
pub struct Simulation {
    run: Box<dyn Run>,
}

/// Progress of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time, nanoseconds.
    pub now_ns: u64,
    /// Events processed.
    pub events: u64,
    /// Packets hosts have sent.
    pub packets: u64,
    /// Flows (UDP: datagrams) that have started.
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
        Ok(Self { run: build(config, topology, flows, scheme, seed)? })
    }

    /// Checks what [`Simulation::new`] would check, and builds nothing.
    ///
    /// # Errors
    ///
    /// As [`Simulation::new`].
    pub fn check(
        config: &Config,
        topology: &Topology,
        flows: &[Flow],
        scheme: Scheme,
    ) -> Result<(), Error> {
        check(config, topology, flows, scheme)
    }

    /// Processes about `events_max` events: all of the nanosecond in which their number is reached.
    ///
    /// # Errors
    ///
    /// [`Error::Broken`]: an invariant of the simulation is violated, which is a bug.
    pub fn step(&mut self, events_max: u64) -> Result<Progress, Error> {
        self.run.step(u64::MAX, events_max, None)
    }

    /// The same, but nothing after `until_ns`. When all until then is done, it returns with fewer
    /// events than asked for.
    ///
    /// # Errors
    ///
    /// As [`Simulation::step`].
    pub fn step_until(&mut self, until_ns: u64, events_max: u64) -> Result<Progress, Error> {
        self.run.step(until_ns, events_max, None)
    }

    /// The same on several threads: `execute` is given one task for each of [`Config::threads`].
    /// They wait for one another, so each needs a thread. A run of one thread has no task.
    ///
    /// # Errors
    ///
    /// As [`Simulation::step`].
    pub fn step_together(
        &mut self,
        until_ns: u64,
        events_max: u64,
        execute: &dyn Fn(Vec<Task<'_>>),
    ) -> Result<Progress, Error> {
        self.run.step(until_ns, events_max, Some(execute))
    }

    /// Replaces what the caches of a [`Scheme::Controller`] run hold; switches not named are
    /// emptied.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if a switch does not exist, its cache would overflow, or the scheme is
    /// another.
    pub fn place(&mut self, placements: &[Placement]) -> Result<(), Error> {
        self.run.place(placements)
    }

    /// Returns what a controller reads from the switches (Appendix A.1): the packets that entered
    /// the fabric unresolved since the last call, as (source machine, destination machine,
    /// gateway's node, packets), in order.
    pub fn take_traffic(&mut self) -> Vec<(u32, u32, u32, u64)> {
        self.run.take_traffic()
    }

    /// The switches that packets of a virtual machine pass on their way to a gateway's node, as
    /// [`Simulation::take_traffic`] names it.
    pub fn gateway_path(&mut self, source: u32, gateway: u32) -> Vec<u32> {
        self.run.gateway_path(source, gateway)
    }

    /// Results so far; sums over flows only once it has finished.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        self.run.metrics()
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("metrics", self.metrics()).finish_non_exhaustive()
    }
}
