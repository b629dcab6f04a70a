//! A run: the order of events, and the effect of each.

mod build;
mod flows;
mod follower;
mod hosts;
mod parts;
mod switches;

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

pub(crate) use build::{build, check};
pub use parts::Task;

use crate::{
    Error, Metrics, Migration, Placement, Progress, SAMPLES_MAX, Sample,
    crossing::Sent,
    directory::Directory,
    domain::Domain,
    network::Network,
    packet::{PacketId, Packets, Segment, Stage},
    scheme::resolver::Resolver,
    tcp::{NEVER, Tuning},
    wheel::{Event, Wheel},
    workload::Flow,
};
use flows::{Open, Turns};

/// Whatever is left after this many events in one slice waits for the next.
const SLICE_EVENTS_MAX: u64 = u64::MAX >> 1;

/// Number of packets of one nanosecond that are prefetched from memory at a time.
const AHEAD: usize = 16;

pub(crate) struct World<R> {
    now_ns: u64,
    seed: u64,
    wheel: Wheel,
    pub(crate) packets: Packets,
    pub(crate) network: Network,
    directory: Directory,
    resolver: R,
    metrics: Metrics,
    settings: Settings,
    turns: Turns,
    /// In the order they start.
    flows: Arc<[Flow]>,
    next_flow: usize,
    /// Moves of machines are counted here.
    is_edge: bool,
    /// Index of each flow in the results.
    result_of: Vec<u32>,
    /// Connection of each flow, if open.
    connection_of: Vec<u32>,
    connections: Vec<Open>,
    free_connections: Vec<u32>,
    /// Wake-up of a connection: time, connection, its generation, which end.
    timers: BinaryHeap<Reverse<(u64, u32, u32, bool)>>,
    /// Machines that move, and mappings that follow, latest first.
    migrations: Vec<Migration>,
    remaps: Vec<(u64, u32)>,
    next_sample_ns: u64,
    due: Vec<Event>,
    segments: Vec<Segment>,
    control: Control,
    /// Control plane of each switch.
    control_planes: Vec<switches::ControlPlane>,
    follower: Option<follower::Follower>,
}

/// Settings that the models derive once from the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub udp: bool,
    pub tuning: Tuning,
    /// Link, outer IP and, in a UDP tunnel, UDP header.
    pub tunnel_bytes: u16,
    pub fixed_datagrams: bool,
    /// A misdelivered packet without a hit tag goes straight on.
    pub follow_me: bool,
    pub count_control_plane_losses: bool,
    pub gateway_delay_ns: u64,
    pub sample_interval_ns: u64,
    pub end_ns: u64,
    /// Nothing that happens at a node reaches another sooner.
    pub window_ns: u64,
    /// For each switch, the header bytes that its counters exclude.
    pub uncounted_bytes: Vec<u16>,
}

/// Counts of learning and invalidation packets, and of packets that are in no other counter.
#[derive(Debug, Default)]
struct Control {
    sent: u64,
    done: u64,
    /// Data lost in control planes or for lack of a virtual machine.
    lost: u64,
}

/// Executes tasks at the same time.
pub(crate) type Together<'a> = &'a dyn Fn(Vec<Task<'_>>);

/// The operations of a run, whatever its scheme.
pub(crate) trait Run: Send {
    fn step(
        &mut self,
        until_ns: u64,
        events_max: u64,
        execute: Option<Together<'_>>,
    ) -> Result<Progress, Error>;
    fn metrics(&self) -> &Metrics;
    fn place(&mut self, placements: &[Placement]) -> Result<(), Error>;
    fn take_traffic(&mut self) -> Vec<(u32, u32, u32, u64)>;
    fn gateway_path(&mut self, source: u32, gateway: u32) -> Vec<u32>;
}

impl<R: Resolver + Send> Run for World<R> {
    fn step(
        &mut self,
        until_ns: u64,
        events_max: u64,
        _execute: Option<Together<'_>>,
    ) -> Result<Progress, Error> {
        let stop = self.metrics.events + events_max.min(SLICE_EVENTS_MAX);
        let until_ns = until_ns.min(self.settings.end_ns);
        let done = self.advance_to(until_ns, stop)?;
        let finished = done && until_ns == self.settings.end_ns;
        self.conserved(self.account())?;
        self.metrics.in_flight = self.packets.live();
        self.metrics.dropped = self.dropped();
        self.metrics.end_ns = self.now_ns;
        if finished {
            self.metrics.finish(self.settings.udp);
        }
        Ok(Progress { finished, ..self.progress() })
    }

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn place(&mut self, placements: &[Placement]) -> Result<(), Error> {
        self.resolver.place(placements, &self.directory)
    }

    fn take_traffic(&mut self) -> Vec<(u32, u32, u32, u64)> {
        self.resolver.take_traffic()
    }

    fn gateway_path(&mut self, source: u32, gateway: u32) -> Vec<u32> {
        let host = self.directory.home(self.directory.vip(source));
        let turn = self.turns.between(&self.network.shape, host, gateway);
        self.network.path(host, gateway, turn)
    }
}

/// What a part of a divided run needs.
impl<R: Resolver> World<R> {
    /// Starts no flow and counts none.
    pub(crate) fn stay_in_the_middle(&mut self) {
        self.next_flow = self.flows.len();
        self.metrics.per_flow = Vec::new();
        self.connection_of = Vec::new();
        self.is_edge = false;
    }

    /// Takes the packets that the other part has sent; nothing happens before `next_ns`.
    pub(crate) fn take_over(&mut self, sent: &mut Sent, next_ns: u64) {
        self.wheel.advance(next_ns);
        let part = if self.is_edge { Domain::Edge } else { Domain::Middle };
        sent.fetch();
        for crossing in sent.packets.drain(..) {
            let id = crossing.put(&mut self.packets, part);
            self.wheel.insert_numbered(id, crossing.number, crossing.at_ns);
        }
        for place in sent.lost.drain(..) {
            self.packets.lost(place);
        }
    }

    /// A time before which nothing happens.
    pub(crate) fn next_ns(&self) -> u64 {
        let (before_ns, after_ns) = self.next_outside();
        before_ns.min(after_ns).min(self.wheel.not_before(self.now_ns))
    }

    pub(crate) fn window_ns(&self) -> u64 {
        self.settings.window_ns
    }

    pub(crate) fn end_ns(&self) -> u64 {
        self.settings.end_ns
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub(crate) fn events(&self) -> u64 {
        self.metrics.events
    }

    pub(crate) fn is_udp(&self) -> bool {
        self.settings.udp
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            now_ns: self.now_ns,
            events: self.metrics.events,
            packets: self.metrics.sent,
            flows_started: self.next_flow as u64,
            finished: false,
        }
    }

    pub(crate) fn results(&self) -> Metrics {
        Metrics {
            in_flight: self.packets.live(),
            dropped: self.dropped(),
            end_ns: self.now_ns,
            ..self.metrics.clone()
        }
    }
}

impl<R: Resolver> World<R> {
    /// Processes events until `until_ns`, or until there were `stop` of them in total. `true`: all
    /// until `until_ns` are done.
    pub(crate) fn advance_to(&mut self, until_ns: u64, stop: u64) -> Result<bool, Error> {
        while self.metrics.events < stop {
            if !self.advance(until_ns)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Processes all events of the next time that has any. `false`: there are none until
    /// `until_ns`.
    #[inline]
    fn advance(&mut self, until_ns: u64) -> Result<bool, Error> {
        let (before_ns, after_ns) = self.next_outside();
        let outside_ns = before_ns.min(after_ns);
        let horizon_ns = outside_ns.min(until_ns);
        let next = self.wheel.next_time(self.now_ns, horizon_ns);
        match next {
            Some(at_ns) if at_ns < before_ns && at_ns <= after_ns && at_ns <= until_ns => {
                self.move_clock(at_ns)?;
                self.packets_due(at_ns)?;
            }
            _ if outside_ns <= until_ns => {
                self.move_clock(outside_ns)?;
                self.wheel.advance(outside_ns);
                self.wheel.enter(Domain::Edge);
                self.wheel.happen_outside(before_ns == outside_ns);
                self.outside(outside_ns);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    #[inline]
    fn move_clock(&mut self, at_ns: u64) -> Result<(), Error> {
        if at_ns < self.now_ns {
            return Err(self.broken("causality", format!("an event at {at_ns} ns")));
        }
        self.now_ns = at_ns;
        if self.wheel.begin(at_ns) {
            return Ok(());
        }
        Err(self.broken("order", "a million events were set in one nanosecond".to_owned()))
    }

    fn packets_due(&mut self, at_ns: u64) -> Result<(), Error> {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.take(at_ns, &mut due);
        while let Some((number, id)) = due.pop() {
            if due.len().is_multiple_of(AHEAD) {
                self.packets.fetch(&due[due.len().saturating_sub(AHEAD)..]);
            }
            self.metrics.events += 1;
            self.wheel.now_event = number;
            match self.packets[id].stage {
                Stage::Arrived => {
                    let at = self.packets[id].at;
                    self.wheel.enter(self.network.border.domain(at));
                    if at < self.network.shape.switches {
                        self.at_switch(id);
                    } else {
                        self.at_host(id)?;
                    }
                }
                Stage::PortFree => {
                    self.network.port_free(&mut self.wheel, &mut self.packets, id, at_ns);
                }
                Stage::FromSwitch => {
                    self.enter(id);
                    self.network.forward(&mut self.wheel, &mut self.packets, id, at_ns);
                }
                Stage::ControlPlane => {
                    self.enter(id);
                    self.in_control_plane(id);
                }
                Stage::FromHost => {
                    self.enter(id);
                    self.depart(id);
                }
                Stage::Later(later) => {
                    self.wheel.enter(Domain::Edge);
                    self.later(id, later);
                }
            }
            // An event scheduled for this same nanosecond may precede the rest of the batch.
            self.wheel.take(at_ns, &mut due);
        }
        self.due = due;
        Ok(())
    }

    /// What the packet's event sets, the domain of its node sets.
    fn enter(&mut self, id: PacketId) {
        self.wheel.enter(self.network.border.domain(self.packets[id].at));
    }

    /// Returns the times of the next events that are not packets: of those that precede packets of
    /// the same time, and of those that follow them.
    fn next_outside(&self) -> (u64, u64) {
        let flow_ns = self.flows.get(self.next_flow).map_or(NEVER, |flow| flow.start_ns);
        let migration_ns = self.migrations.last().map_or(NEVER, |migration| migration.at_ns);
        let remap_ns = self.remaps.last().map_or(NEVER, |remap| remap.0);
        let timer_ns = self.timers.peek().map_or(NEVER, |Reverse(timer)| timer.0);
        let before_ns = migration_ns.min(remap_ns).min(self.next_sample_ns).min(timer_ns);
        // A datagram's application sends at once, a connection's is only started.
        if self.settings.udp { (before_ns.min(flow_ns), NEVER) } else { (before_ns, flow_ns) }
    }

    /// Schedules a packet's next event.
    fn insert(&mut self, id: PacketId, at_ns: u64) {
        self.wheel.insert(id, at_ns);
    }

    /// Processes one event that is not a packet.
    fn outside(&mut self, now_ns: u64) {
        if self.next_sample_ns <= now_ns {
            self.sample(now_ns);
            return;
        }
        self.metrics.events += u64::from(self.is_edge);
        if let Some(migration) = self.migrations.pop_if(|migration| migration.at_ns <= now_ns) {
            self.migrate(migration);
        } else if let Some((_, vip)) = self.remaps.pop_if(|remap| remap.0 <= now_ns) {
            self.remap(vip);
        } else if let Some(Reverse((due_ns, connection, generation, client))) =
            self.timers.peek().copied().filter(|Reverse(timer)| timer.0 <= now_ns)
        {
            self.timers.pop();
            self.wake(due_ns, connection, generation, client);
        } else if let Some(flow) = self.flows.get(self.next_flow).copied() {
            self.next_flow += 1;
            self.start_flow(self.next_flow - 1, &flow);
        }
    }

    fn sample(&mut self, now_ns: u64) {
        self.metrics.samples.push(Sample {
            at_ns: now_ns,
            sent: self.metrics.sent,
            received: self.metrics.received,
            gateway_packets: self.metrics.gateway_packets,
            misdelivered: self.metrics.misdelivered,
            dropped: self.network.dropped,
            in_flight: self.packets.live(),
            switches: self
                .metrics
                .switches
                .iter()
                .map(|switch| (switch.packets, switch.hits))
                .collect(),
        });
        let idle = self.packets.live() == 0
            && self.timers.is_empty()
            && self.next_flow == self.flows.len();
        let over = idle || self.metrics.samples.len() == SAMPLES_MAX;
        self.next_sample_ns = if over { NEVER } else { now_ns + self.settings.sample_interval_ns };
    }

    /// Packets put in and not taken out again, less those under way.
    pub(crate) fn account(&self) -> i64 {
        let metrics = &self.metrics;
        let put_in = metrics.sent + self.control.sent;
        let taken_out = metrics.received
            + metrics.repeated
            + self.network.dropped
            + self.control.lost
            + self.control.done;
        put_in.wrapping_sub(taken_out + self.packets.live()).cast_signed()
    }

    /// Sent = delivered + dropped + in flight.
    pub(crate) fn conserved(&self, missing: i64) -> Result<(), Error> {
        if missing == 0 {
            return Ok(());
        }
        Err(self.broken("conservation", format!("{missing} packets sent are not accounted for")))
    }

    fn dropped(&self) -> u64 {
        let counted = self.settings.count_control_plane_losses;
        self.network.dropped + if counted { self.control.lost } else { 0 }
    }

    #[cold]
    pub(crate) fn broken(&self, law: &'static str, detail: String) -> Error {
        Error::Broken {
            law,
            event: self.metrics.events,
            now_ns: self.now_ns,
            seed: self.seed,
            detail,
        }
    }
}
