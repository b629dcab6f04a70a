//! The placer's decisions: reports of agents, reviews of placement, and the published status.
//!
//! A round of tier 2: [`Placer::hear`] takes the reports over. If the placer leads and no move is
//! open, keys are counted when [`Placer::count_is_due`], and [`Placer::review`] determines where
//! slots should be. [`Placer::choose_copies`] and [`Placer::explain`] follow; the moves that
//! [`Placer::ready`] returns are carried out, and each ends with [`Placer::ended`] or
//! [`Placer::put_off`].

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use crate::{
    Host, Node,
    accesses::Accesses,
    balance::{Balancer, Meter},
    delays::{self, Delays, Matrix},
    initiator::{self, Initiator},
    moves::Move,
    placement::{Capacity, Demand, MoveCost, Problem},
    replicas,
    report::{Report, TAG},
    slot::Slot,
    view::View,
};

mod census;
mod evenly;
mod explanation;
mod status;

pub use census::Count;
pub use status::{Status, published};

use census::Census;
use explanation::explanation;

/// What placement is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Goal {
    /// Accesses wait as little as possible (AnnaBellaDB); agents measure.
    #[default]
    Latency,
    /// No node is much busier than the others; nodes measure, or agents.
    Load,
}

/// How the placer works.
#[derive(Debug, Clone)]
pub struct Config {
    /// What decides where slots are.
    pub goal: Goal,
    /// Its name among placers.
    pub name: String,
    /// Interval between placement reviews.
    pub period: Duration,
    /// Half-life of the access-rate average.
    pub half_life: Duration,
    /// Settings that decide when a slot moves.
    pub initiator: initiator::Config,
    /// What a move costs.
    pub moving: MoveCost,
    /// Maximum accesses per second of the slots of one node.
    pub load_max: f64,
    /// Slots that are not moved.
    pub pins: BTreeSet<Slot>,
    /// Nodes that no slot moves to; their own slots stay if no other node is better.
    pub excluded: BTreeSet<SocketAddr>,
    /// Whether agents keep copies of slots that several hosts read; else the placement alone
    /// shortens accesses, as in the paper.
    pub copies: bool,
    /// Dry run: moves are logged and not made.
    pub dry_run: bool,
}

/// Time after which an unchanged report counts as that of a stopped agent and is deleted.
const GONE_AFTER: Duration = Duration::from_secs(600);
/// Number of slots explained in the status, the busiest.
const EXPLAINED_MAX: usize = 1_024;

/// Last report of an agent.
#[derive(Debug)]
struct Known {
    host: Host,
    sequence: u64,
    changed: Duration,
}

/// What was reviewed: the accesses, delays and nodes of one moment.
#[derive(Debug)]
pub struct Review {
    delays: Matrix,
    nodes: Vec<Capacity>,
    demands: Vec<Demand>,
    moving: MoveCost,
}

impl Review {
    fn problem(&self) -> Problem<'_> {
        let Self { delays, nodes, demands, moving } = self;
        Problem { delays, nodes, demands, moving: *moving }
    }
}

/// State and decisions of a placer.
#[derive(Debug)]
pub struct Placer {
    config: Config,
    /// By number; `None` for a free number.
    hosts: Vec<Option<String>>,
    reports: BTreeMap<String, Known>,
    accesses: Accesses,
    delays: Delays,
    initiator: Initiator,
    balancer: Balancer,
    meter: Meter,
    /// Keys and loads were counted since the last balance of load.
    counted: bool,
    census: Census,
    /// Slots that agents keep copies of; `None` before the cluster was asked.
    copied: Option<BTreeSet<Slot>>,
    /// Reasons of the latest failed moves, by slot.
    refusals: BTreeMap<Slot, String>,
    status: Status,
    leads: bool,
}

impl Placer {
    /// Creates a placer without data.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let status =
            Status { placer: config.name.clone(), dry_run: config.dry_run, ..Status::default() };
        Self {
            hosts: Vec::new(),
            reports: BTreeMap::new(),
            accesses: Accesses::new(config.half_life),
            delays: Delays::new(delays::Config::default(), 0, 0),
            initiator: Initiator::new(config.initiator.clone()),
            balancer: evenly::balancer(&config),
            meter: Meter::new(config.half_life),
            counted: false,
            census: Census::default(),
            copied: None,
            refusals: BTreeMap::new(),
            status,
            leads: false,
            config,
        }
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The status that is published.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Applies the reports of agents. Returns the agents whose reports are to be deleted.
    pub fn hear(
        &mut self,
        view: &View,
        reports: Vec<(String, Report)>,
        now: Duration,
    ) -> Vec<String> {
        self.delays.resize(self.hosts.len(), view.members().len());
        let (mut present, mut silent) = (BTreeSet::new(), Vec::new());
        for (name, report) in reports {
            present.insert(name.clone());
            match self.reports.get_mut(&name) {
                Some(known) if known.sequence == report.sequence => {
                    let is_gone = now.saturating_sub(known.changed) > GONE_AFTER;
                    silent.extend(is_gone.then_some(name));
                }
                Some(known) => {
                    (known.sequence, known.changed) = (report.sequence, now);
                    let host = known.host;
                    self.take(view, host, &report, now);
                }
                // Reports found at the start may be arbitrarily old.
                None => self.seat(name, report.sequence, now),
            }
        }
        self.unseat(&present);
        self.accesses.advance(now);
        silent
    }

    /// Numbers of hosts whose reports were deleted are reused, since machines may return under new
    /// names.
    fn unseat(&mut self, present: &BTreeSet<String>) {
        self.reports.retain(|name, Known { host, .. }| {
            let stays = present.contains(name);
            if !stays {
                self.delays.forget(*host);
                self.hosts[host.index()] = None;
            }
            stays
        });
    }

    /// Assigns a number to a new host.
    fn seat(&mut self, name: String, sequence: u64, now: Duration) {
        let free = self.hosts.iter().position(Option::is_none).unwrap_or(self.hosts.len());
        if let Ok(number) = u16::try_from(free) {
            self.hosts.resize(self.hosts.len().max(free + 1), None);
            self.hosts[free] = Some(name.clone());
            self.reports.insert(name, Known { host: Host(number), sequence, changed: now });
        }
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

    /// Sets whether it leads now. Decisions that another leader made in between are unknown.
    pub fn set_leading(&mut self, leads: bool) {
        if leads && !self.leads {
            self.initiator = Initiator::new(self.config.initiator.clone());
            self.balancer = evenly::balancer(&self.config);
            self.copied = None;
            self.refusals.clear();
        }
        self.leads = leads;
    }

    /// Publishes that it took over from `other`.
    pub fn took_over_from(&mut self, other: &str) {
        self.status.tell(format!("took over from {other}, which is fenced off at all nodes"));
    }

    /// An open move was rolled back.
    pub fn rolled_back(&mut self, slot: Slot, why: String) {
        self.refusals.insert(slot, why);
    }

    /// Whether keys of slots in use are to be counted now.
    #[must_use]
    pub fn count_is_due(&self, now: Duration) -> bool {
        self.census.is_due(self.accesses.slots(), now)
    }

    /// Begins a count. Returns each primary, where it listens, and its slots in use.
    pub fn begin_count(
        &mut self,
        view: &View,
        now: Duration,
    ) -> Vec<(Node, SocketAddr, Vec<Slot>)> {
        self.census.begin(now);
        let slots_at = |node| {
            let slots = self.accesses.slots().filter(|slot| view.owner(*slot) == Some(node));
            slots.collect()
        };
        view.primaries().map(|(node, member)| (node, member.address, slots_at(node))).collect()
    }

    /// Applies the count of a primary.
    pub fn count(&mut self, node: Node, count: Count, now: Duration) {
        self.meter.take(node, count.slots.as_deref(), now);
        self.counted = true;
        self.census.take(node, count);
    }

    /// Reviews where slots should be.
    pub fn review(&mut self, view: &View, now: Duration) -> Review {
        let ours = Slot::of(TAG.as_bytes());
        let demand = |slot| {
            Some(Demand {
                slot,
                owner: view.owner(slot)?,
                bytes: self.census.bytes(slot),
                accesses: self.accesses.of(slot, now),
                pinned: slot == ours || self.config.pins.contains(&slot),
            })
        };
        let demands = self.accesses.slots().filter_map(demand);
        let demands = demands.filter(|demand| !demand.accesses.is_empty()).collect();
        let nodes = self.census.capacities(view, &self.config);
        let (delays, moving) = (self.delays.matrix(now), self.config.moving);
        let review = Review { delays, nodes, demands, moving };
        match self.config.goal {
            Goal::Latency => self.initiator.review(&review.problem(), now),
            Goal::Load => self.balance(view, now),
        }
        review
    }

    /// Whether the slots are known that agents keep copies of; else [`Placer::set_copied`] comes
    /// before [`Placer::choose_copies`].
    #[must_use]
    pub fn knows_copied(&self) -> bool {
        self.copied.is_some()
    }

    /// These are the slots that agents keep copies of.
    pub fn set_copied(&mut self, slots: BTreeSet<Slot>) {
        self.status.copied = slots.len();
        self.copied = Some(slots);
    }

    /// The slots that agents should keep copies of, if they differ from the present ones.
    #[must_use]
    pub fn choose_copies(&self, review: &Review) -> Option<BTreeSet<Slot>> {
        let none = BTreeSet::new();
        let before = self.copied.as_ref().unwrap_or(&none);
        let mut chosen = match self.config.copies {
            true => replicas::choose(&review.problem(), before),
            false => BTreeSet::new(),
        };
        chosen.remove(&Slot::of(TAG.as_bytes()));
        (chosen != *before).then_some(chosen)
    }

    /// Puts the place of every busy slot into the status.
    pub fn explain(&mut self, view: &View, review: &Review, now: Duration) {
        let (problem, mut waits) = (review.problem(), Vec::new());
        let status = &mut self.status;
        (status.agents, status.slots_in_use) =
            (self.reports.keys().cloned().collect(), problem.demands.len());
        status.waits_us = 0.0;
        let mut busiest: Vec<(f64, &Demand)> = Vec::new();
        for demand in problem.demands {
            problem.waits(demand, &mut waits);
            let here = waits.get(demand.owner.index()).copied().unwrap_or(f32::INFINITY);
            if here.is_finite() {
                status.waits_us += f64::from(here);
            }
            busiest.push((demand.accesses.iter().map(|(_, rate)| rate.accesses()).sum(), demand));
        }
        status.why.clear();
        if self.config.goal == Goal::Load {
            return self.explain_loads(view, now);
        }
        busiest.sort_by(|a, b| b.0.total_cmp(&a.0));
        busiest.truncate(EXPLAINED_MAX);
        for (_, demand) in busiest {
            problem.waits(demand, &mut waits);
            let why = self.initiator.why(demand.slot);
            let text = explanation(&self.hosts, view, demand, &waits, why, now);
            self.tell_why(demand.slot, text);
        }
    }

    /// Puts the reason for the place of a slot into the status.
    fn tell_why(&mut self, slot: Slot, mut text: String) {
        if let Some(refusal) = self.refusals.get(&slot) {
            text.push_str(&format!("\nits latest move failed: {refusal}"));
        }
        if self.copied.as_ref().is_some_and(|copied| copied.contains(&slot)) {
            text.push_str("\nread by several hosts: agents keep copies");
        }
        self.status.why.insert(slot.number() as u16, text);
    }

    /// Moves to be carried out now, in order of priority.
    pub fn ready(&mut self) -> Vec<Move> {
        match self.config.goal {
            Goal::Latency => self.initiator.ready(),
            Goal::Load => self.balancer.ready(),
        }
    }

    /// A move could not begin.
    pub fn put_off(&mut self, slot: Slot) {
        match self.config.goal {
            Goal::Latency => self.initiator.put_off(slot),
            Goal::Load => self.balancer.put_off(slot),
        }
    }

    /// A dry run does not make this move.
    pub fn not_made(&mut self, slot: Slot, now: Duration) {
        self.moved(slot, false, now);
    }

    fn moved(&mut self, slot: Slot, moved: bool, now: Duration) {
        match self.config.goal {
            Goal::Latency => self.initiator.ended(slot, moved, now),
            Goal::Load => self.balancer.ended(slot, moved, now),
        }
    }

    /// A move, which `line` describes, has ended: it was refused, or succeeded.
    pub fn ended(&mut self, slot: Slot, line: &str, refusal: Option<String>, now: Duration) {
        self.moved(slot, refusal.is_none(), now);
        let line = match refusal {
            None => {
                self.status.moves += 1;
                self.refusals.remove(&slot);
                line.to_owned()
            }
            Some(why) => {
                self.status.moves_failed += 1;
                let line = format!("failed: {line}: {why}");
                self.refusals.insert(slot, why);
                line
            }
        };
        self.status.tell(line);
    }
}

#[cfg(test)]
mod tests;
