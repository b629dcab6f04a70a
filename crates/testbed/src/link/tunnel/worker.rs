//! The tunnel's thread: reads packets from either device and writes them to the other.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::TunnelConfig;
use super::device::HEADER_BYTES;
use crate::link::control::{Command, Commands, timespec};
use crate::link::cuts::Cuts;
use crate::link::schedule::{Fate, Order, Schedule};
use crate::link::stats::{DirectionCounters, LinkCounters, add, take};

/// Maximum size of a packet with its header, including offload.
const READ_BYTES: usize = HEADER_BYTES + 65_536;

/// Number of packets read from a device before the other one and the departures are served.
const BATCH_PACKETS: usize = 64;

/// State of the tunnel's thread.
pub(super) struct Worker {
    a: OwnedFd,
    b: OwnedFd,
    up: Direction,
    down: Direction,
    cuts: Cuts,
    is_cut: bool,
    buffer_bytes: usize,
    spin: Duration,
    started: Instant,
    commands: Commands,
    counters: Arc<LinkCounters>,
}

/// Packets in flight in one direction.
struct Direction {
    schedule: Schedule,
    order: Order,
    queue: BinaryHeap<Packet>,
    queued_bytes: usize,
    taken: u64,
}

/// A packet with its header, ordered so that the heap's top leaves first.
struct Packet {
    leaves_at: Duration,
    number: u64,
    bytes: Vec<u8>,
}

impl Worker {
    pub(super) fn new(
        config: TunnelConfig,
        a: OwnedFd,
        b: OwnedFd,
        commands: Commands,
        counters: Arc<LinkCounters>,
    ) -> Self {
        Self {
            a,
            b,
            up: Direction::new(Schedule::new(config.up, config.seed)),
            // The directions must not lose in step.
            down: Direction::new(Schedule::new(config.down, !config.seed)),
            cuts: Cuts::new(config.cuts),
            is_cut: false,
            buffer_bytes: config.buffer_bytes,
            spin: config.spin,
            started: Instant::now(),
            commands,
            counters,
        }
    }

    /// Passes packets until stopped.
    pub(super) fn run(mut self) {
        // Without this the kernel may wake a sleeping thread 50 µs late to save power.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if let Err(error) = self.wait() {
                tracing::error!(%error, "the tunnel stopped: cannot wait for its devices");
                return;
            }
            if !self.obey() {
                return;
            }
            self.apply_cuts();
            if let Err(error) = self.pass(&mut buffer) {
                tracing::error!(%error, "the tunnel stopped: one of its devices is gone");
                return;
            }
        }
    }

    fn pass(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let Self { a, b, up, down, is_cut, buffer_bytes, started, counters, .. } = self;
        for (source, way, sink, counters) in
            [(&*a, up, &*b, &counters.up), (&*b, down, &*a, &counters.down)]
        {
            way.enter(source, buffer, *buffer_bytes, *is_cut, counters, *started)?;
            way.leave(sink, counters, started.elapsed());
        }
        Ok(())
    }

    /// Waits for a packet, a command or the next departure.
    fn wait(&self) -> io::Result<()> {
        let now = self.started.elapsed();
        let cut = self.cuts.next_change(now);
        let departures = [self.up.leaves_at(), self.down.leaves_at()];
        let until = departures.into_iter().flatten().chain(cut).min();
        let mut descriptors = [self.a.as_fd(), self.b.as_fd(), self.commands.as_fd()]
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        loop {
            let left = until.map(|until| until.saturating_sub(self.started.elapsed()));
            // Shortly before the departure, poll instead of sleeping.
            let timeout = left.map(|left| timespec(left.saturating_sub(self.spin)));
            match rustix::event::poll(&mut descriptors, timeout.as_ref()) {
                Ok(count) if count > 0 || left == Some(Duration::ZERO) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn obey(&mut self) -> bool {
        let Self { commands, cuts, up, down, .. } = self;
        commands.carry_out(|command| match command {
            // They take effect in `apply_cuts`, before anything else is delivered.
            Command::Cut => cuts.set_by_hand(true),
            Command::Restore => cuts.set_by_hand(false),
            Command::SetDelay { up: up_delay, down: down_delay } => {
                up.schedule.set_delay(up_delay);
                down.schedule.set_delay(down_delay);
            }
            Command::Stop => {}
        })
    }

    fn apply_cuts(&mut self) {
        let is_cut = self.cuts.is_cut(self.started.elapsed());
        if is_cut != self.is_cut {
            tracing::info!("the path is {}", if is_cut { "cut" } else { "restored" });
            self.is_cut = is_cut;
            self.up.lose_all(&self.counters.up);
            self.down.lose_all(&self.counters.down);
        }
    }
}

impl Direction {
    fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            order: Order::default(),
            queue: BinaryHeap::new(),
            queued_bytes: 0,
            taken: 0,
        }
    }

    fn leaves_at(&self) -> Option<Duration> {
        self.queue.peek().map(|packet| packet.leaves_at)
    }

    /// Reads what the kernel of the source has sent.
    fn enter(
        &mut self,
        source: &OwnedFd,
        buffer: &mut [u8],
        buffer_bytes: usize,
        is_cut: bool,
        counters: &DirectionCounters,
        started: Instant,
    ) -> io::Result<()> {
        for _ in 0..BATCH_PACKETS {
            let count = match rustix::io::read(source, &mut *buffer) {
                Ok(count) => count,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let now = started.elapsed();
            for _ in 0..self.schedule.copies() {
                self.enter_one(&buffer[..count], buffer_bytes, is_cut, counters, now);
            }
        }
        Ok(())
    }

    fn enter_one(
        &mut self,
        packet: &[u8],
        buffer_bytes: usize,
        is_cut: bool,
        counters: &DirectionCounters,
        now: Duration,
    ) {
        add(&counters.packets, 1);
        self.taken += 1;
        let size = packet.len().saturating_sub(HEADER_BYTES);
        let fate = if is_cut {
            Fate::Lost
        } else if self.queued_bytes + packet.len() > buffer_bytes {
            Fate::QueueFull
        } else {
            self.schedule.packet(&mut self.order, size, now)
        };
        match fate {
            Fate::Lost => add(&counters.lost, 1),
            Fate::QueueFull => add(&counters.dropped, 1),
            Fate::Leaves(leaves_at) => {
                self.queued_bytes += packet.len();
                add(&counters.queued_bytes, packet.len() as u64);
                self.queue.push(Packet { leaves_at, number: self.taken, bytes: packet.to_vec() });
            }
        }
    }

    /// Writes what is due to the kernel of the destination.
    fn leave(&mut self, sink: &OwnedFd, counters: &DirectionCounters, now: Duration) {
        while self.leaves_at().is_some_and(|at| at <= now)
            && let Some(packet) = self.pop(counters)
        {
            match rustix::io::write(sink, &packet.bytes) {
                Ok(count) => add(&counters.bytes, count.saturating_sub(HEADER_BYTES) as u64),
                Err(error) => {
                    tracing::debug!(%error, "packet dropped: the kernel of the far side does not \
                                             accept it");
                    add(&counters.dropped, 1);
                }
            }
        }
    }

    fn lose_all(&mut self, counters: &DirectionCounters) {
        while self.pop(counters).is_some() {
            add(&counters.lost, 1);
        }
    }

    fn pop(&mut self, counters: &DirectionCounters) -> Option<Packet> {
        let packet = self.queue.pop()?;
        self.queued_bytes -= packet.bytes.len();
        take(&counters.queued_bytes, packet.bytes.len() as u64);
        Some(packet)
    }
}

impl Packet {
    fn key(&self) -> (Duration, u64) {
        (self.leaves_at, self.number)
    }
}

impl Ord for Packet {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Packet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Packet {}
