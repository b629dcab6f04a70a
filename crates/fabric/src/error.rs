//! Errors of an experiment, and violated invariants of a run.

/// Why a simulation was refused or aborted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A topology that cannot be built.
    #[error("topology: {what}: expected {expected}, got {got}")]
    Topology {
        /// The field.
        what: &'static str,
        /// The expected value.
        expected: String,
        /// The value found.
        got: String,
    },
    /// A flow that cannot run on this topology.
    #[error("flow {index}: {what}: expected {expected}, got {got}")]
    Flow {
        /// Its place in the workload, from 0.
        index: usize,
        /// The field.
        what: &'static str,
        /// The expected value.
        expected: String,
        /// The value found.
        got: String,
    },
    /// An invalid configuration.
    #[error("configuration: {what}: expected {expected}, got {got}")]
    Config {
        /// The field.
        what: &'static str,
        /// The expected value.
        expected: String,
        /// The value found.
        got: String,
    },
    /// An unknown name.
    #[error("unknown scheme \"{name}\": expected one of {known}")]
    Scheme {
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// An invariant of the simulation is violated: a bug. The event and the seed reproduce it.
    #[error("{law} violated at event {event}, {now_ns} ns, seed {seed}: {detail}")]
    Broken {
        /// Name of the invariant: conservation or causality.
        law: &'static str,
        /// Number of the event, counted from 0.
        event: u64,
        /// Simulated time.
        now_ns: u64,
        /// Seed of the run.
        seed: u64,
        /// What was expected and what was found.
        detail: String,
    },
}
