//! The placer: reads what agents report, decides with `state`, and moves slots while it holds the
//! lease. Without it slots stay where they are, and nothing else changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use state::{
    Host, Node as Number,
    accesses::Accesses,
    delays::{self, Delays},
    initiator::{self, Initiator, Move},
    members::Member,
    migration::{End, resume},
    placement::{Capacity, Demand, MoveCost, Problem},
    replicas,
    slot::Slot,
};
use tracing::{info, warn};

use super::{
    cluster::{Access, Cluster, View},
    explanation::explanation,
    lease::Lease,
    mover,
    report::{COPIES, REPORTS, Report, STATUS, TAG, slots_of},
};

/// How the placer works.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name among placers.
    pub name: String,
    /// Between two reviews.
    pub period: Duration,
    /// After so long a change in accesses has come through by half.
    pub half_life: Duration,
    /// When a slot moves.
    pub initiator: initiator::Config,
    /// What a move costs.
    pub moving: MoveCost,
    /// Accesses a second of the slots of one node at most.
    pub load_max: f64,
    /// Slots that stay where they are.
    pub pins: BTreeSet<Slot>,
    /// Nodes that no slot moves to; what they own stays where nothing better is to be had.
    pub excluded: BTreeSet<SocketAddr>,
    /// Nothing moves; what would is said.
    pub dry_run: bool,
}

/// A report that has not changed for so long is of an agent that is gone; it is deleted.
const GONE_AFTER: Duration = Duration::from_secs(600);
/// Slots of which the status says why they are where they are; the busiest are.
const EXPLAINED_MAX: usize = 1_024;
/// Tenths of a node's `maxmemory` that slots are planned to fill: the rest is for growth until they
/// are counted again.
const FILLED_TENTHS: u64 = 9;
/// How often keys of slots are counted; at once where a slot in use never was.
const COUNT_PERIOD: Duration = Duration::from_secs(5);

/// What the placer leaves in the cluster for `enroute state status` and `why`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Status {
    pub(super) placer: String,
    pub(super) dry_run: bool,
    pub(super) agents: Vec<String>,
    pub(super) slots_in_use: usize,
    /// Of which agents keep copies.
    pub(super) copied: usize,
    /// What all accesses wait in a second, in microseconds.
    pub(super) waits_us: f64,
    /// Since this placer leads.
    pub(super) moves: u64,
    pub(super) moves_failed: u64,
    pub(super) latest: Vec<String>,
    /// By slot.
    pub(super) why: BTreeMap<u16, String>,
}

struct Known {
    sequence: u64,
    changed: Instant,
}

/// The loop.
pub struct Placer {
    config: Config,
    cluster: Cluster,
    lease: Lease,
    start: Instant,
    hosts: Vec<String>,
    /// What slots in use may take at nodes that have a limit, in bytes.
    room: BTreeMap<Number, u64>,
    reports: BTreeMap<String, Known>,
    accesses: Accesses,
    delays: Delays,
    initiator: Initiator,
    bytes: BTreeMap<Slot, u64>,
    counted: Option<Instant>,
    /// Slots that agents keep copies of; nothing known before the cluster was asked.
    copied: Option<BTreeSet<Slot>>,
    /// Why slots' latest moves did not come about.
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
            room: BTreeMap::new(),
            reports: BTreeMap::new(),
            accesses: Accesses::new(config.half_life),
            delays: Delays::new(delays::Config::default(), 0, 0),
            initiator: Initiator::new(config.initiator.clone()),
            bytes: BTreeMap::new(),
            counted: None,
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
                        warn!("no review this time: {error:#}");
                    }
                    view = Some(found);
                }
                Err(error) => warn!("the cluster cannot be seen: {error:#}"),
            }
            thread::sleep(self.config.period.saturating_sub(begun.elapsed()));
        }
        if let Some(view) = view {
            self.lease.release(&mut self.cluster, &view);
        }
    }

    fn round(&mut self, view: &View) -> anyhow::Result<()> {
        // All placers listen, so that whoever leads next knows as much.
        self.listen(view)?;
        let leads = self.config.dry_run || self.lease.assure(&mut self.cluster, view);
        if leads && !self.leads {
            // What another decided meanwhile is not known here.
            self.initiator = Initiator::new(self.config.initiator.clone());
            self.copied = None;
            self.refusals.clear();
        }
        self.leads = leads;
        if !leads {
            return Ok(());
        }
        if view.is_open() && !self.config.dry_run {
            // The next round sees what came of it.
            return self.close(view);
        }
        self.count(view)?;
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
                Err(error) => warn!(agent = name, "its report cannot be read: {error}"),
            }
        }
        for (name, _) in &fresh {
            if !self.hosts.contains(name) && self.hosts.len() < usize::from(u16::MAX) {
                self.hosts.push(name.clone());
            }
        }
        let (hosts, nodes) = (self.hosts.len(), view.members.len());
        if self.delays.size() != (hosts, nodes) {
            self.delays = Delays::new(delays::Config::default(), hosts, nodes);
        }
        let now = self.start.elapsed();
        let mut gone = Vec::new();
        for (name, report) in fresh {
            let known = self.reports.get(&name);
            if known.is_some_and(|known| known.sequence == report.sequence) {
                gone.extend(
                    known.filter(|known| known.changed.elapsed() > GONE_AFTER).map(|_| name),
                );
                continue;
            }
            // What is there when the placer starts may be as old as can be.
            let first = known.is_none();
            let known = Known { sequence: report.sequence, changed: Instant::now() };
            self.reports.insert(name.clone(), known);
            if let Some(host) = self.hosts.iter().position(|host| *host == name)
                && !first
            {
                self.take(view, Host(host as u16), &report, now);
            }
        }
        for name in gone {
            self.cluster.ask_owner(view, TAG.as_bytes(), &["HDEL", REPORTS, &name])?;
            self.reports.remove(&name);
        }
        self.accesses.advance(now);
        Ok(())
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

    /// Ends moves that somebody has left in the middle.
    fn close(&mut self, view: &View) -> anyhow::Result<()> {
        for (slot, claims) in self.cluster.claims(view, false)? {
            let Some(owner) = view.owner(slot) else { continue };
            let Some(migration) = resume(slot, owner, &claims, |a, b| view.others(a, b)) else {
                continue;
            };
            info!(slot = slot.number(), ?claims, "going on with a move that was left open");
            let lease = &mut self.lease;
            let end = mover::carry_out(&mut self.cluster, view, migration, &mut |cluster| {
                lease.assure(cluster, view)
            });
            if let End::Refused(why) = end {
                warn!(slot = slot.number(), "back where it was: {why}");
                self.refusals.insert(slot, why);
            }
        }
        Ok(())
    }

    /// Estimates what slots in use take: their keys, each as large as keys at their node are.
    fn count(&mut self, view: &View) -> anyhow::Result<()> {
        let known = self.accesses.slots().all(|slot| self.bytes.contains_key(&slot));
        if known && self.counted.is_some_and(|at| at.elapsed() < COUNT_PERIOD) {
            return Ok(());
        }
        self.counted = Some(Instant::now());
        self.bytes.clear();
        self.room.clear();
        for (node, member) in view.primaries() {
            let slots: Vec<Slot> =
                self.accesses.slots().filter(|slot| view.owner(*slot) == Some(node)).collect();
            let info =
                self.cluster.ask(member.address, &["INFO", "memory"])?.text().unwrap_or_default();
            let used = number_in(&info, "used_memory_dataset").unwrap_or_default();
            let keys_all = match self.cluster.ask(member.address, &["DBSIZE"])? {
                super::node::Reply::Integer(keys) => u64::try_from(keys).unwrap_or_default(),
                _ => 0,
            };
            let each = used.checked_div(keys_all).unwrap_or_default();
            let keys = self.cluster.keys_in(member.address, &slots)?;
            let bytes = keys.iter().map(|keys| keys * each);
            if let Some(limit) = number_in(&info, "maxmemory").filter(|limit| *limit > 0) {
                let all = number_in(&info, "used_memory").unwrap_or_default();
                let others = all.saturating_sub(bytes.clone().sum());
                self.room.insert(node, (limit / 10 * FILLED_TENTHS).saturating_sub(others));
            }
            self.bytes.extend(slots.into_iter().zip(bytes));
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
                    bytes: self.bytes.get(&slot).copied().unwrap_or_default(),
                    accesses: self.accesses.of(slot, now),
                    pinned: slot == ours || self.config.pins.contains(&slot),
                })
            })
            .filter(|demand| !demand.accesses.is_empty())
            .collect();
        let nodes = capacities(view, &self.room, &self.config);
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
        for one in self.initiator.ready() {
            self.relocate(view, one);
        }
        if self.config.dry_run {
            return Ok(());
        }
        let status = serde_json::to_string(&self.status)?;
        self.cluster.ask_owner(view, TAG.as_bytes(), &["SET", STATUS, &status])?;
        Ok(())
    }

    /// Tells agents what to keep copies of.
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
            info!("slots to keep copies of: {}", numbers.join(", "));
            let words = ["SET", COPIES, &numbers.join(",")];
            self.cluster.ask_owner(view, TAG.as_bytes(), &words)?;
        }
        self.status.copied = chosen.len();
        self.copied = Some(chosen);
        Ok(())
    }

    fn relocate(&mut self, view: &View, one: Move) {
        let Move { slot, from, to, saves_us } = one;
        let at = |node: Number| {
            view.member(node)
                .map_or_else(|_| format!("node {}", node.0), |member| member.address.to_string())
        };
        let line =
            format!("slot {} {} -> {}, saves {saves_us:.0} us/s", slot.number(), at(from), at(to));
        if self.config.dry_run {
            println_line(&format!("would move {line}"));
            self.initiator.ended(slot, false, self.start.elapsed());
            return;
        }
        let lease = &mut self.lease;
        let moved = mover::relocate(&mut self.cluster, view, slot, to, &mut |cluster| {
            lease.assure(cluster, view)
        });
        let refusal = match moved {
            Ok(End::Moved) => None,
            Ok(End::Refused(why)) => Some(why),
            Ok(End::Stayed) => Some("it was given up".to_owned()),
            Ok(End::Open) => Some("it is open, and will be gone on with".to_owned()),
            Err(error) => Some(format!("{error:#}")),
        };
        self.initiator.ended(slot, refusal.is_none(), self.start.elapsed());
        let line = match refusal {
            None => {
                info!("moved: {line}");
                self.status.moves += 1;
                self.refusals.remove(&slot);
                line
            }
            Some(why) => {
                warn!("not moved: {line}: {why}");
                self.status.moves_failed += 1;
                self.refusals.insert(slot, why.clone());
                format!("failed: {line}: {why}")
            }
        };
        self.status.latest.insert(0, line);
        self.status.latest.truncate(16);
    }

    fn explain(&mut self, view: &View, problem: &Problem<'_>) {
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

/// Room at each node: what `maxmemory` leaves to slots in use; a node that is excluded, or no primary
/// now, has none.
fn capacities(view: &View, room: &BTreeMap<Number, u64>, config: &Config) -> Vec<Capacity> {
    let of = |(number, member): (usize, &Option<Member>)| match member {
        Some(member) if !config.excluded.contains(&member.address) => Capacity {
            bytes: room.get(&Number(number as u16)).copied().unwrap_or(u64::MAX),
            accesses: config.load_max,
            // Redis answers a write before its replicas have it.
            replication_us: 0.0,
        },
        _ => Capacity { bytes: 0, accesses: 0.0, replication_us: 0.0 },
    };
    view.members.iter().enumerate().map(of).collect()
}

fn number_in(info: &str, name: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line?.trim().parse().ok()
}

#[expect(clippy::print_stdout, reason = "what a dry run would do is its result")]
fn println_line(line: &str) {
    println!("{line}");
}
