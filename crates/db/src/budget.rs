//! The memory budget that meets a latency goal: measurements of the shards for the controller of
//! the store, and its decisions as a budget of the whole process.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use store::elastic::{
    Advice,
    autoscale::{Autoscale, Config, Observation},
};

use crate::{
    Server,
    goal::Goal,
    keyspace::Shards,
    lookups::{Counts, Lookups},
    memory::MEMORY_BYTES_MIN,
};

/// A budget to change to.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// Memory of the whole process, in bytes.
    pub bytes: u64,
    /// Why, for the log and the orchestrator.
    pub reason: String,
}

/// Decides on the budget while a goal is set.
pub struct Budget {
    controller: Option<(Goal, Autoscale)>,
    before: Counts,
}

impl Budget {
    /// Measures from the present counts on.
    #[must_use]
    pub fn new(lookups: &Lookups) -> Self {
        Self { controller: None, before: lookups.counts() }
    }

    /// Makes one controller step towards the goal of `server`, a few seconds after the last.
    pub fn step<S: Shards>(
        &mut self,
        server: &Server,
        lookups: &Lookups,
        shards: &S,
        now: Duration,
    ) -> Option<Change> {
        let present = server.parameters.memory_bytes.load(SeqCst);
        let counts = lookups.counts();
        let goal = server.parameters.goal();
        if self.controller.as_ref().map(|(goal, _)| *goal) != goal {
            self.controller = goal.map(|goal| (goal, Autoscale::new(limits(goal, server))));
            self.before = counts;
            let bytes = goal?.memory_bytes_max;
            let reason = "the maximum of the goal".to_owned();
            return (present > bytes).then_some(Change { bytes, reason });
        }
        let (goal, controller) = self.controller.as_mut()?;
        let p99 = counts.p99_since(&self.before);
        self.before = counts;
        let advice: Vec<Advice> =
            (0..shards.count()).map(|index| shards.lock(index).store.advice()).collect();
        let seen = Observation {
            p99,
            memory_bytes: server.host.memory_for_shards(present) as usize,
            advice: Advice::merge(&advice),
        };
        let next = controller.step(&seen, now)?;
        let bytes = server.host.memory_for_process(next as u64).min(goal.memory_bytes_max);
        let reason = format!("p99 {:?} of {:?}", p99.unwrap_or_default(), goal.lookup_p99);
        Some(Change { bytes, reason })
    }
}

fn limits(goal: Goal, server: &Server) -> Config {
    let for_shards = |bytes| server.host.memory_for_shards(bytes) as usize;
    Config {
        target_p99: goal.lookup_p99,
        min_bytes: for_shards(MEMORY_BYTES_MIN),
        max_bytes: for_shards(goal.memory_bytes_max),
    }
}
