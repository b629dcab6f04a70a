//! The published status of the placer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use state::{
    placement::{Demand, Problem},
    slot::Slot,
};
use tracing::{info, warn};

use super::Placer;
use crate::state::{cluster::View, explanation::explanation};

/// Number of slots explained in the status, the busiest.
const EXPLAINED_MAX: usize = 1_024;
/// Number of moves in the status, the latest.
const LATEST_MAX: usize = 16;

/// What the placer leaves in the cluster for `enroute state status` and `why`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::state) struct Status {
    pub(in crate::state) placer: String,
    pub(in crate::state) dry_run: bool,
    pub(in crate::state) agents: Vec<String>,
    pub(in crate::state) slots_in_use: usize,
    /// Of which agents keep copies.
    pub(in crate::state) copied: usize,
    /// What all accesses wait in a second, in microseconds.
    pub(in crate::state) waits_us: f64,
    /// Since this placer leads.
    pub(in crate::state) moves: u64,
    pub(in crate::state) moves_failed: u64,
    pub(in crate::state) latest: Vec<String>,
    /// By slot.
    pub(in crate::state) why: BTreeMap<u16, String>,
}

impl Status {
    /// Of what has happened the latest comes first.
    pub(super) fn tell(&mut self, line: String) {
        self.latest.insert(0, line);
        self.latest.truncate(LATEST_MAX);
    }
}

impl Placer {
    /// A move has ended: it was refused, or succeeded.
    pub(super) fn note(&mut self, slot: Slot, line: String, refusal: Option<String>) {
        self.initiator.ended(slot, refusal.is_none(), self.start.elapsed());
        let line = match refusal {
            None => {
                info!("slot moved: {line}");
                self.status.moves += 1;
                self.refusals.remove(&slot);
                line
            }
            Some(why) => {
                warn!("slot not moved: {line}: {why}");
                self.status.moves_failed += 1;
                self.refusals.insert(slot, why.clone());
                format!("failed: {line}: {why}")
            }
        };
        self.status.tell(line);
    }

    /// Explains the place of every busy slot.
    pub(super) fn explain(&mut self, view: &View, problem: &Problem<'_>) {
        let mut waits = Vec::new();
        let status = &mut self.status;
        (status.agents, status.slots_in_use) =
            (self.reports.keys().cloned().collect(), problem.demands.len());
        status.waits_us = 0.0;
        let mut busiest: Vec<(f64, &Demand)> = Vec::new();
        for demand in problem.demands {
            problem.waits(demand, &mut waits);
            let here = waits.get(usize::from(demand.owner.0)).copied().unwrap_or(f32::INFINITY);
            if here.is_finite() {
                status.waits_us += f64::from(here);
            }
            busiest.push((demand.accesses.iter().map(|(_, rate)| rate.accesses()).sum(), demand));
        }
        busiest.sort_by(|a, b| b.0.total_cmp(&a.0));
        busiest.truncate(EXPLAINED_MAX);
        status.why.clear();
        for (_, demand) in busiest {
            problem.waits(demand, &mut waits);
            let why = self.initiator.why(demand.slot);
            let mut text =
                explanation(&self.hosts, view, demand, &waits, why, self.start.elapsed());
            if let Some(refusal) = self.refusals.get(&demand.slot) {
                text.push_str(&format!("\nits latest move did not come about: {refusal}"));
            }
            if self.copied.as_ref().is_some_and(|copied| copied.contains(&demand.slot)) {
                text.push_str("\nread everywhere: agents keep copies");
            }
            status.why.insert(demand.slot.number() as u16, text);
        }
    }
}
