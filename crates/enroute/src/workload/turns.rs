//! When each operation of a load starts, and with which key.

use std::time::Duration;

use super::keys::{KeyChooser, KeyDistribution};

/// How operations follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: each worker starts the next when its last is answered, as a waiting client
    /// does. A slow server is asked less, so its latency looks better than users would find it.
    Closed,
    /// Open loop: operations are due at a fixed rate whatever the server does, and an answer's
    /// latency counts from when its operation was due. So waiting for a free worker counts too
    /// (no coordinated omission).
    Open {
        /// Operations per second, all workers together.
        per_second: f64,
    },
}

/// What to ask, how fast, and until when.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// How operations follow each other.
    pub pace: Pace,
    /// How popular each key is.
    pub distribution: KeyDistribution,
    /// Keys are 1 to this.
    pub keys: u64,
    /// Keys follow from this number.
    pub seed: u64,
    /// Limit on the operations; `None` is none.
    pub operations_max: Option<u64>,
    /// No operation starts later than this after the start; `None` is no limit.
    pub duration_max: Option<Duration>,
}

impl Default for Load {
    /// The paper's load: 1,000 uniform reads over 100 keys, each waiting for the last
    /// (VNF-Cache, section 4).
    fn default() -> Self {
        Self {
            pace: Pace::Closed,
            distribution: KeyDistribution::Uniform,
            keys: 100,
            seed: 0,
            operations_max: Some(1000),
            duration_max: None,
        }
    }
}

/// One operation to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its key.
    pub key: u64,
    /// When it is due, since the start; its latency counts from then.
    pub starts_at: Duration,
}

/// Hands out turns, one after the other; the order of keys does not depend on who takes them.
#[derive(Clone, Debug)]
pub struct Turns {
    load: Load,
    chooser: KeyChooser,
    taken: u64,
}

impl Turns {
    /// All turns of a load.
    #[must_use]
    pub fn new(load: Load) -> Self {
        let chooser = KeyChooser::new(load.distribution, load.keys, load.seed);
        Self { load, chooser, taken: 0 }
    }

    /// The next turn; `None` once the load is done.
    pub fn take(&mut self, now: Duration) -> Option<Turn> {
        let starts_at = match self.load.pace {
            Pace::Closed => now,
            Pace::Open { per_second } if per_second > 0.0 => {
                // From the number rather than by adding up, so that no rounding accumulates.
                Duration::try_from_secs_f64(self.taken as f64 / per_second).ok()?
            }
            Pace::Open { .. } => return None,
        };
        if self.load.operations_max.is_some_and(|limit| self.taken >= limit)
            || self.load.duration_max.is_some_and(|limit| starts_at >= limit)
        {
            return None;
        }
        self.taken += 1;
        Some(Turn { key: self.chooser.choose(), starts_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_closed_loop_starts_when_asked_until_its_limit() {
        let mut turns = Turns::new(Load { operations_max: Some(2), ..Load::default() });
        assert_eq!(turns.take(5 * MS).map(|turn| turn.starts_at), Some(5 * MS));
        assert_eq!(turns.take(9 * MS).map(|turn| turn.starts_at), Some(9 * MS));
        assert_eq!(turns.take(9 * MS), None);
    }

    #[test]
    fn an_open_loop_is_due_by_the_rate_however_late_it_is_asked() {
        let pace = Pace::Open { per_second: 1000.0 };
        let duration_max = Some(4 * MS);
        let mut turns =
            Turns::new(Load { pace, duration_max, operations_max: None, ..Load::default() });
        let due: Vec<Duration> =
            std::iter::from_fn(|| turns.take(100 * MS)).map(|turn| turn.starts_at).collect();
        assert_eq!(due, [Duration::ZERO, MS, 2 * MS, 3 * MS]);
    }

    #[test]
    fn a_rate_of_nothing_is_done_at_once() {
        for per_second in [0.0, -1.0, f64::NAN] {
            let mut turns = Turns::new(Load { pace: Pace::Open { per_second }, ..Load::default() });
            assert_eq!(turns.take(Duration::ZERO), None);
        }
    }

    #[test]
    fn the_duration_ends_a_closed_loop() {
        let mut turns = Turns::new(Load { duration_max: Some(MS), ..Load::default() });
        assert!(turns.take(Duration::ZERO).is_some());
        assert_eq!(turns.take(MS), None);
    }
}
