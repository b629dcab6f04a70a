//! The measurements. Each gives one figure or more; their names and goals are fixed.

use crate::{figure::Figure, run::Run};

mod echo;
mod memory;
mod mongo;
mod redis;
mod scenario;
pub(crate) mod switch;

/// One measurement.
pub(crate) struct Measurement {
    /// Names of the figures it gives.
    pub(crate) names: &'static [&'static str],
    /// Seconds it is believed to take, beside its rounds.
    pub(crate) seconds: f64,
    /// Seconds each round of both sides takes, in rounds of [`Run::round`].
    pub(crate) rounds: f64,
    pub(crate) run: fn(&Run) -> anyhow::Result<Vec<Figure>>,
}

/// All of them, in the order they are run.
pub(crate) const ALL: &[Measurement] = &[
    Measurement {
        names: &["mongo-hit-p50", "mongo-miss-p50"],
        seconds: 10.0,
        rounds: 2.0,
        run: mongo::hit_and_miss,
    },
    Measurement { names: &["redis-get-64B-p1"], seconds: 2.0, rounds: 2.0, run: redis::get_64_p1 },
    Measurement { names: &["redis-get-4KiB-p1"], seconds: 2.0, rounds: 2.0, run: redis::get_4k_p1 },
    Measurement {
        names: &["redis-get-64B-p16"],
        seconds: 2.0,
        rounds: 2.0,
        run: redis::get_64_p16,
    },
    Measurement {
        names: &["redis-get-4KiB-p16"],
        seconds: 2.0,
        rounds: 2.0,
        run: redis::get_4k_p16,
    },
    Measurement {
        names: &["redis-get-vs-nutcracker"],
        seconds: 2.0,
        rounds: 2.0,
        run: redis::nutcracker,
    },
    Measurement { names: &["redis-miss-p50"], seconds: 3.0, rounds: 0.7, run: redis::miss },
    Measurement { names: &["two-workers"], seconds: 2.0, rounds: 2.0, run: redis::two_workers },
    Measurement { names: &["hit-p50-vs-echo"], seconds: 2.0, rounds: 1.0, run: echo::hit },
    Measurement {
        names: &["scenario-b-10", "scenario-b-30", "scenario-b-70", "scenario-b-100"],
        seconds: 230.0,
        rounds: 0.0,
        run: scenario::run,
    },
    Measurement { names: &["item-bytes-64B"], seconds: 12.0, rounds: 0.0, run: memory::item },
    Measurement {
        names: &["hits-10M-over-10k"],
        seconds: 90.0,
        rounds: 4.0,
        run: memory::ten_millions,
    },
    Measurement {
        names: &["idle-connection-bytes"],
        seconds: 10.0,
        rounds: 0.0,
        run: memory::idle_connections,
    },
];
