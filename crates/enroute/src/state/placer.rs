//! The placer: reads what agents report, decides with `state`, and moves slots while it holds the
//! lease. Without it slots stay where they are, and nothing else changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use state::{
    Host, Node as Number,
    accesses::Accesses,
    delays::{self, Delays},
    initiator::{self, Initiator, Move},
    placement::{Demand, MoveCost, Problem},
    replicas,
    slot::Slot,
};
use tracing::{info, warn};

use super::{
    cluster::{Access, Cluster, View},
    lease::{Actor, Lease},
    mover,
    report::{COPIES, REPORTS, Report, STATUS, TAG, slots_of},
};

mod census;
mod status;

use census::Census;
pub(super) use status::Status;

/// How the placer works.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name among placers.
    pub name: String,
    /// Between two reviews.
    pub period: Duration,
    /// Half-life of the access-rate average.
    pub half_life: Duration,
    /// Settings that decide when a slot moves.
    pub initiator: initiator::Config,
    /// What a move costs.
    pub moving: MoveCost,
    /// Accesses a second of the slots of one node at most.
    pub load_max: f64,
    /// Slots that stay where they are.
    pub pins: BTreeSet<Slot>,
    /// Nodes that no slot moves to; their own slots stay if no other node is better.
    pub excluded: BTreeSet<SocketAddr>,
    /// Dry run: moves are logged and not made.
    pub dry_run: bool,
}

/// Time after which an unchanged report counts as that of a stopped agent and is deleted.
const GONE_AFTER: Duration = Duration::from_secs(600);

/// Last report of an agent.
struct Known {
    host: Host,
    sequence: u64,
    changed: Instant,
}

/// The loop.
pub struct Placer {
    config: Config,
    cluster: Cluster,
    lease: Lease,
    start: Instant,
    /// By number; `None` for a free number.
    hosts: Vec<Option<String>>,
    reports: BTreeMap<String, Known>,
    accesses: Accesses,
    delays: Delays,
    initiator: Initiator,
    census: Census,
    /// Slots that agents keep copies of; `None` before the cluster was asked.
    copied: Option<BTreeSet<Slot>>,
    /// Reasons of the latest failed moves, by slot.
    refusals: BTreeMap<Slot, String>,
    status: Status,
    leads: bool,
}

impl Placer {
    /// A placer of this cluster.
    #[must_use]
    pub fn new(access: &Access, config: Config) -> Self {
        let status =
            Status { placer: config.name.clone(), dry_run: config.dry_run, ..Status::default() };
        Self {
            cluster: Cluster::new(access),
            lease: Lease::new(config.name.clone()),
            start: Instant::now(),
            hosts: Vec::new(),
            reports: BTreeMap::new(),
            accesses: Accesses::new(config.half_life),
            delays: Delays::new(delays::Config::default(), 0, 0),
            initiator: Initiator::new(config.initiator.clone()),
            census: Census::default(),
            copied: None,
            refusals: BTreeMap::new(),
            status,
            leads: false,
            config,
        }
    }

    /// Reviews until `end` is set.
    pub fn run(mut self, end: &AtomicBool) {
        let mut view = None;
        while !end.load(Relaxed) {
            let begun = Instant::now();
            match self.cluster.view() {
                Ok(found) => {
                    if let Err(error) = self.round(&found) {
                        warn!("placement review skipped: {error:#}");
                    }
                    view = Some(found);
                }
                Err(error) => warn!("cannot read the state of the cluster: {error:#}"),
            }
            thread::sleep(self.config.period.saturating_sub(begun.elapsed()));
        }
        if let Some(view) = view {
            self.lease.release(&self.cluster, &view);
        }
    }

    fn round(&mut self, view: &View) -> anyhow::Result<()> {
        // All placers read reports, so that the next leader has the same data.
        self.listen(view)?;
        let leads = self.config.dry_run || self.lease.assure(&self.cluster, view);
        if leads && !self.leads {
            // Decisions of another leader in between are unknown.
            self.initiator = Initiator::new(self.config.initiator.clone());
            self.copied = None;
            self.refusals.clear();
        }
        self.leads = leads;
        if !leads {
            return Ok(());
        }
        for other in self.lease.fenced_off() {
            self.status.tell(format!("took over from {other}; nodes refuse its steps"));
        }
        if !view.open().is_empty() && !self.config.dry_run {
            // The next round sees the result.
            return self.close(view);
        }
        self.census.renew(&self.cluster, view, &self.accesses)?;
        self.review(view)
    }

    /// Takes over what agents have reported since the last round.
    fn listen(&mut self, view: &View) -> anyhow::Result<()> {
        let reply = self.cluster.ask_owner(view, TAG.as_bytes(), &["HGETALL", REPORTS])?;
        let mut fresh = Vec::new();
        for pair in reply.list().chunks_exact(2) {
            let (Some(name), Some(text)) = (pair[0].text(), pair[1].text()) else { continue };
            match serde_json::from_str::<Report>(&text) {
                Ok(report) => fresh.push((name, report)),
                Err(error) => warn!(agent = name, "invalid report of an agent ignored: {error}"),
            }
        }
        self.delays.resize(self.hosts.len(), view.members.len());
        let now = self.start.elapsed();
        let (mut present, mut silent) = (BTreeSet::new(), Vec::new());
        for (name, report) in fresh {
            present.insert(name.clone());
            match self.reports.get_mut(&name) {
                Some(known) if known.sequence == report.sequence => {
                    silent.extend((known.changed.elapsed() > GONE_AFTER).then_some(name));
                }
                Some(known) => {
                    (known.sequence, known.changed) = (report.sequence, Instant::now());
                    let host = known.host;
                    self.take(view, host, &report, now);
                }
                // Reports found at the start may be arbitrarily old.
                None => self.seat(name, report.sequence),
            }
        }
        for name in silent {
            self.cluster.ask_owner(view, TAG.as_bytes(), &["HDEL", REPORTS, &name])?;
        }
        self.unseat(&present);
        self.accesses.advance(now);
        Ok(())
    }

    /// Assigns a number to a new host.
    fn seat(&mut self, name: String, sequence: u64) {
        let free = self.hosts.iter().position(Option::is_none).unwrap_or(self.hosts.len());
        if let Ok(number) = u16::try_from(free) {
            self.hosts.resize(self.hosts.len().max(free + 1), None);
            self.hosts[free] = Some(name.clone());
            let known = Known { host: Host(number), sequence, changed: Instant::now() };
            self.reports.insert(name, known);
        }
    }

    /// Numbers of hosts whose reports were deleted are reused, since machines may return under new
    /// names.
    fn unseat(&mut self, present: &BTreeSet<String>) {
        self.reports.retain(|name, Known { host, .. }| {
            let stays = present.contains(name);
            if !stays {
                self.delays.forget(*host);
                self.hosts[usize::from(host.0)] = None;
            }
            stays
        });
    }

    fn take(&mut self, view: &View, host: Host, report: &Report, now: Duration) {
        let period = Duration::from_millis(report.period_ms);
        self.accesses.report(host, report.counts(), period, now);
        for (node, member) in view.primaries() {
            for &time in report.round_trips_us.get(&member.address).into_iter().flatten() {
                self.delays.record(host, node, Duration::from_micros(time), now);
            }
        }
    }

    fn actor<'a>(&'a self, view: &'a View) -> Actor<'a> {
        Actor { cluster: &self.cluster, view, lease: &self.lease }
    }

    /// Completes open moves.
    fn close(&mut self, view: &View) -> anyhow::Result<()> {
        let claims = self.cluster.claims(view, false)?;
        for (slot, why) in mover::close(self.actor(view), &claims) {
            warn!(slot = slot.number(), "slot move rolled back: {why}");
            self.refusals.insert(slot, why);
        }
        Ok(())
    }

    fn review(&mut self, view: &View) -> anyhow::Result<()> {
        let now = self.start.elapsed();
        let ours = Slot::of(TAG.as_bytes());
        let demands: Vec<Demand> = self
            .accesses
            .slots()
            .filter_map(|slot| {
                Some(Demand {
                    slot,
                    owner: view.owner(slot)?,
                    bytes: self.census.bytes(slot),
                    accesses: self.accesses.of(slot, now),
                    pinned: slot == ours || self.config.pins.contains(&slot),
                })
            })
            .filter(|demand| !demand.accesses.is_empty())
            .collect();
        let nodes = self.census.capacities(view, &self.config);
        let matrix = self.delays.matrix(now);
        let problem = Problem {
            delays: &matrix,
            nodes: &nodes,
            demands: &demands,
            moving: self.config.moving,
        };
        self.initiator.review(&problem, now);
        self.choose_copies(view, &problem)?;
        self.explain(view, &problem);
        let moves = self.initiator.ready();
        self.relocate(view, moves);
        if self.config.dry_run {
            return Ok(());
        }
        let status = serde_json::to_string(&self.status)?;
        self.cluster.ask_owner(view, TAG.as_bytes(), &["SET", STATUS, &status])?;
        Ok(())
    }

    /// Publishes the slots that agents keep copies of.
    fn choose_copies(&mut self, view: &View, problem: &Problem<'_>) -> anyhow::Result<()> {
        let before = match &self.copied {
            Some(before) => before.clone(),
            None => {
                let said = self.cluster.ask_owner(view, TAG.as_bytes(), &["GET", COPIES])?;
                slots_of(&said.text().unwrap_or_default()).into_iter().collect()
            }
        };
        let mut chosen = replicas::choose(problem, &before);
        chosen.remove(&Slot::of(TAG.as_bytes()));
        if chosen != before && !self.config.dry_run {
            let numbers: Vec<String> =
                chosen.iter().map(|slot| slot.number().to_string()).collect();
            info!("slots that agents keep copies of: {}", numbers.join(", "));
            let words = ["SET", COPIES, &numbers.join(",")];
            self.cluster.ask_owner(view, TAG.as_bytes(), &words)?;
        }
        self.status.copied = chosen.len();
        self.copied = Some(chosen);
        Ok(())
    }

    /// Makes those moves that can be made now.
    fn relocate(&mut self, view: &View, moves: Vec<Move>) {
        if self.config.dry_run {
            for one in moves {
                println_line(&format!("would move {}", line(view, one)));
                self.initiator.ended(one.slot, false, self.start.elapsed());
            }
            return;
        }
        for (one, outcome) in mover::relocate(self.actor(view), moves) {
            match outcome {
                None => self.initiator.put_off(one.slot),
                Some(ended) => self.note(one.slot, line(view, one), mover::refusal(ended)),
            }
        }
    }
}

/// A move as people read it.
fn line(view: &View, Move { slot, from, to, saves_us }: Move) -> String {
    let at = |node: Number| {
        view.member(node)
            .map_or_else(|_| format!("node {}", node.0), |member| member.address.to_string())
    };
    format!("slot {} {} -> {}, saves {saves_us:.0} us/s", slot.number(), at(from), at(to))
}

#[expect(clippy::print_stdout, reason = "what a dry run would do is its result")]
fn println_line(line: &str) {
    println!("{line}");
}
