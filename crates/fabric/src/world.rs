//! A run: the order of events, and the effect of each.

mod build;
mod flows;
mod follower;
mod hosts;
mod switches;

use std::{cmp::Reverse, collections::BinaryHeap};

pub(crate) use build::{build, check};

use crate::{
    Error, Metrics, Migration, Placement, Progress, SAMPLES_MAX, Sample,
    directory::Directory,
    network::Network,
    packet::{PacketId, Packets, Segment, Stage},
    scheme::resolver::Resolver,
    tcp::{NEVER, Tuning},
    wheel::Wheel,
    workload::Flow,
};
use flows::{Open, Turns};

/// Whatever is left after this many events in one slice waits for the next.
const SLICE_EVENTS_MAX: u64 = u64::MAX >> 1;

/// Number of packets of one nanosecond that are prefetched from memory at a time.
const AHEAD: usize = 8;

pub(crate) struct World<R> {
    now_ns: u64,
    seed: u64,
    wheel: Wheel,
    packets: Packets,
    network: Network,
    directory: Directory,
    resolver: R,
    metrics: Metrics,
    settings: Settings,
    turns: Turns,
    /// In the order they start.
    flows: Vec<Flow>,
    next_flow: usize,
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
    due: Vec<(i32, PacketId)>,
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

/// The operations of a run, whatever its scheme.
pub(crate) trait Run: Send {
    fn step(&mut self, until_ns: u64, events_max: u64) -> Result<Progress, Error>;
    fn metrics(&self) -> &Metrics;
    fn place(&mut self, placements: &[Placement]) -> Result<(), Error>;
    fn take_traffic(&mut self) -> Vec<(u32, u32, u32, u64)>;
    fn gateway_path(&mut self, source: u32, gateway: u32) -> Vec<u32>;
}

impl<R: Resolver + Send> Run for World<R> {
    fn step(&mut self, until_ns: u64, events_max: u64) -> Result<Progress, Error> {
        let stop = self.metrics.events + events_max.min(SLICE_EVENTS_MAX);
        let until_ns = until_ns.min(self.settings.end_ns);
        let mut finished = false;
        while self.metrics.events < stop {
            if !self.advance(until_ns)? {
                finished = until_ns == self.settings.end_ns;
                break;
            }
        }
        self.metrics.end_ns = self.now_ns;
        self.check_conservation()?;
        if finished {
            self.finish();
        }
        Ok(Progress {
            now_ns: self.now_ns,
            events: self.metrics.events,
            packets: self.metrics.sent,
            flows_started: self.next_flow as u64,
            finished,
        })
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

impl<R: Resolver> World<R> {
    /// Processes all events of the next time that has any. `false`: there are none until
    /// `until_ns`.
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
                self.wheel.happen_outside(before_ns == outside_ns);
                self.outside(outside_ns);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn move_clock(&mut self, at_ns: u64) -> Result<(), Error> {
        if at_ns < self.now_ns {
            return Err(self.broken("causality", format!("an event at {at_ns} ns")));
        }
        self.now_ns = at_ns;
        Ok(())
    }

    fn packets_due(&mut self, at_ns: u64) -> Result<(), Error> {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.take(at_ns, &mut due);
        while let Some((_, id)) = due.pop() {
            if due.len().is_multiple_of(AHEAD) {
                self.packets.fetch(&due[due.len().saturating_sub(AHEAD)..]);
            }
            self.metrics.events += 1;
            self.wheel.happen(id);
            match self.packets[id].stage {
                Stage::Arrived => {
                    if self.packets[id].at < self.network.shape.switches {
                        self.at_switch(id);
                    } else {
                        self.at_host(id)?;
                    }
                }
                Stage::PortFree => {
                    self.network.port_free(&mut self.wheel, &mut self.packets, id, at_ns);
                }
                Stage::FromSwitch => {
                    self.network.forward(&mut self.wheel, &mut self.packets, id, at_ns);
                }
                Stage::ControlPlane => self.in_control_plane(id),
                Stage::FromHost => self.depart(id),
                Stage::Later(later) => self.later(id, later),
            }
            // An event scheduled for this same nanosecond may precede the rest of the batch.
            self.wheel.take(at_ns, &mut due);
        }
        self.due = due;
        Ok(())
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
        self.metrics.events += 1;
        if let Some(migration) = self.migrations.pop_if(|migration| migration.at_ns <= now_ns) {
            self.migrate(migration);
        } else if let Some((_, vip)) = self.remaps.pop_if(|remap| remap.0 <= now_ns) {
            self.remap(vip);
        } else if let Some(Reverse((_, connection, generation, client))) =
            self.timers.peek().copied().filter(|Reverse(timer)| timer.0 <= now_ns)
        {
            self.timers.pop();
            self.wake(connection, generation, client);
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

    /// Sent = delivered + dropped + in flight.
    fn check_conservation(&mut self) -> Result<(), Error> {
        let metrics = &mut self.metrics;
        metrics.in_flight = self.packets.live();
        metrics.dropped = self.network.dropped
            + if self.settings.count_control_plane_losses { self.control.lost } else { 0 };
        let put_in = metrics.sent + self.control.sent;
        let taken_out = metrics.received
            + metrics.repeated
            + self.network.dropped
            + self.control.lost
            + self.control.done;
        if put_in == taken_out + metrics.in_flight {
            return Ok(());
        }
        let detail = format!(
            "{put_in} packets sent, {taken_out} accounted for, {} under way",
            metrics.in_flight
        );
        Err(self.broken("conservation", detail))
    }

    fn broken(&self, law: &'static str, detail: String) -> Error {
        Error::Broken {
            law,
            event: self.metrics.events,
            now_ns: self.now_ns,
            seed: self.seed,
            detail,
        }
    }
}
