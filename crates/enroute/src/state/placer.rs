//! Carries out the rounds of [`state::placer`]: asks nodes, moves slots while the lease is held,
//! and publishes. Without it slots stay where they are, and nothing else changes.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use endpoint::Report;
use reactor::Seldom;
use state::{
    moves::Move,
    placer::{Count, Placer as Decisions, Review},
    report::{self, TAG},
    slot::Slot,
    usage,
    view::View,
};
use tracing::{info, warn};

use super::{
    cluster::{Access, Cluster},
    lease::{Actor, Lease},
    mover,
    wave::wave,
};

mod observed;

use observed::Counted;
pub use state::placer::{Config, Goal};

/// Time between two log lines about a cluster that cannot be read.
const TOLD_PAUSE: Duration = Duration::from_secs(10);

/// The loop.
pub struct Placer {
    cluster: Cluster,
    lease: Lease,
    start: Instant,
    decisions: Decisions,
    counted: Arc<Counted>,
    /// Excluded nodes, by the names that the operator gave them; empty once they were looked for.
    excluded: Vec<(String, Vec<SocketAddr>)>,
}

impl Placer {
    /// A placer of this cluster that moves no slot to the nodes `excluded`: names and addresses.
    #[must_use]
    pub fn new(
        access: &Access,
        mut config: Config,
        excluded: Vec<(String, Vec<SocketAddr>)>,
    ) -> Self {
        config.excluded = excluded.iter().flat_map(|(_, addresses)| addresses).copied().collect();
        Self {
            cluster: Cluster::new(access),
            lease: Lease::new(config.name.clone()),
            start: Instant::now(),
            decisions: Decisions::new(config),
            counted: Arc::new(Counted::new()),
            excluded,
        }
    }

    /// Returns what reports the counters of this placer at any time.
    pub fn reports(&self) -> impl Fn() -> Report + Send + Sync + 'static {
        let counted = Arc::clone(&self.counted);
        move || counted.report()
    }

    /// Reviews until `end` is set.
    pub fn run(mut self, end: &AtomicBool) {
        let mut view = None;
        let mut unread = Seldom::new(TOLD_PAUSE);
        while !end.load(Relaxed) {
            let begun = Instant::now();
            match self.cluster.view() {
                Ok(found) => {
                    if let Err(error) = self.round(&found) {
                        warn!("placement review skipped: {error:#}");
                    }
                    self.counted.reviews.add(1);
                    view = Some(found);
                }
                Err(error) => {
                    self.counted.leads.store(false, Relaxed);
                    if let Some(attempts) = unread.note(begun) {
                        warn!(
                            attempts,
                            "cannot read the state of the cluster, retrying; check --cluster: {error:#}"
                        );
                    }
                }
            }
            thread::sleep(self.decisions.config().period.saturating_sub(begun.elapsed()));
        }
        if let Some(view) = view {
            self.lease.release(&self.cluster, &view);
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Logs which excluded nodes the cluster does not have; once.
    fn tell_unknown(&mut self, view: &View) {
        for (name, addresses) in std::mem::take(&mut self.excluded) {
            if !view.primaries().any(|(_, member)| addresses.contains(&member.address)) {
                let known: Vec<String> =
                    view.primaries().map(|(_, member)| member.address.to_string()).collect();
                warn!(
                    "--exclude {name}: expected a primary of the cluster, one of {}; excluded in \
                     case it joins later",
                    known.join(", ")
                );
            }
        }
    }

    fn round(&mut self, view: &View) -> anyhow::Result<()> {
        self.tell_unknown(view);
        // All placers read reports, so that the next leader has the same data.
        self.listen(view)?;
        let dry_run = self.decisions.config().dry_run;
        let leads = dry_run || self.lease.assure(&self.cluster, view);
        self.decisions.set_leading(leads);
        self.counted.leads.store(leads, Relaxed);
        if !leads {
            return Ok(());
        }
        for other in self.lease.fenced_off() {
            self.decisions.took_over_from(&other);
        }
        if !view.open().is_empty() && !dry_run {
            // The next round sees the result.
            return self.close(view);
        }
        if self.decisions.count_is_due(self.now()) {
            self.count(view)?;
        }
        self.review(view)
    }

    /// Takes over what agents have reported since the last round.
    fn listen(&mut self, view: &View) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for (name, report) in self.cluster.query_owner(view, TAG.as_bytes(), report::all())? {
            match report {
                Ok(report) => reports.push((name, report)),
                Err(error) => warn!(agent = name, "invalid report of an agent ignored: {error}"),
            }
        }
        for silent in self.decisions.hear(view, reports, self.now()) {
            self.cluster.query_owner(view, TAG.as_bytes(), report::delete(&silent))?;
        }
        Ok(())
    }

    fn actor<'a>(&'a self, view: &'a View) -> Actor<'a> {
        Actor { cluster: &self.cluster, view, lease: &self.lease }
    }

    /// Completes open moves.
    fn close(&mut self, view: &View) -> anyhow::Result<()> {
        let claims = self.cluster.claims(view, false)?;
        for (slot, why) in mover::close(self.actor(view), &claims) {
            warn!(slot = slot.number(), "slot move rolled back: {why}");
            self.decisions.rolled_back(slot, why);
        }
        Ok(())
    }

    /// Counts the keys of slots in use.
    fn count(&mut self, view: &View) -> anyhow::Result<()> {
        let nodes = self.decisions.begin_count(view, self.now());
        let (cluster, needs_slots) = (&self.cluster, self.decisions.needs_slots());
        let counts = wave(&nodes, |(_, address, slots)| -> anyhow::Result<Count> {
            let memory = cluster.query(*address, usage::memory())?;
            if needs_slots && let Some(slots) = cluster.query(*address, usage::slots())? {
                return Ok(Count::of_all(memory, slots));
            }
            let keys_all = cluster.query(*address, usage::keys())?;
            let keys = cluster.keys_in(*address, slots)?;
            Ok(Count { memory, keys_all, keys, slots: None })
        });
        for ((node, ..), count) in nodes.into_iter().zip(counts) {
            self.decisions.count(node, count?, self.now());
        }
        Ok(())
    }

    fn review(&mut self, view: &View) -> anyhow::Result<()> {
        let review = self.decisions.review(view, self.now());
        self.choose_copies(view, &review)?;
        self.decisions.explain(view, &review, self.now());
        let moves = self.decisions.ready();
        if self.decisions.config().dry_run {
            self.show(view, moves);
            return Ok(());
        }
        for (one, outcome) in mover::relocate(self.actor(view), moves) {
            match outcome {
                None => self.decisions.put_off(one.slot),
                Some((ended, took)) => {
                    let line = self.decisions.line(view, one);
                    let refusal = mover::refusal(ended);
                    let Counted { moved, not_moved, .. } = &*self.counted;
                    let durations = if refusal.is_none() { moved } else { not_moved };
                    durations.record(took, 1);
                    self.note(one.slot, &line, refusal);
                }
            }
        }
        self.cluster.query_owner(view, TAG.as_bytes(), self.decisions.status().publish()?)
    }

    /// Publishes the slots that agents keep copies of.
    fn choose_copies(&mut self, view: &View, review: &Review) -> anyhow::Result<()> {
        if !self.decisions.knows_copied() {
            let copied = self.cluster.query_owner(view, TAG.as_bytes(), report::copied())?;
            self.decisions.set_copied(copied);
        }
        let Some(chosen) = self.decisions.choose_copies(review) else { return Ok(()) };
        if !self.decisions.config().dry_run {
            info!("slots that agents keep copies of: {}", numbers(&chosen));
            self.cluster.query_owner(view, TAG.as_bytes(), report::copy(&chosen))?;
        }
        self.decisions.set_copied(chosen);
        Ok(())
    }

    /// A move has ended: it was refused, or succeeded.
    fn note(&mut self, slot: Slot, line: &str, refusal: Option<String>) {
        match &refusal {
            None => info!("slot moved: {line}"),
            Some(why) => warn!("slot not moved: {line}: {why}"),
        }
        self.decisions.ended(slot, line, refusal, self.now());
    }

    #[expect(clippy::print_stdout, reason = "what a dry run would do is its result")]
    fn show(&mut self, view: &View, moves: Vec<Move>) {
        for one in moves {
            println!("would move {}", self.decisions.line(view, one));
            self.decisions.not_made(one.slot, self.now());
        }
    }
}

fn numbers(slots: &BTreeSet<Slot>) -> String {
    let numbers: Vec<String> = slots.iter().map(|slot| slot.number().to_string()).collect();
    numbers.join(", ")
}
