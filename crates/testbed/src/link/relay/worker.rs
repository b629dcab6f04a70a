//! The relay's thread: waits for sockets and for the next departure, whichever is first.
//!
//! One thread of its own instead of the asynchronous runtime, whose timers tick in milliseconds.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reactor::Failures;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};

use super::RelayConfig;
use super::connection::{Connection, Next, Paths, Side};
use super::flow::Path;
use crate::link::control::{Command, Commands, timespec};
use crate::link::cuts::Cuts;
use crate::link::schedule::{PathConfig, SEGMENT_BYTES, Schedule};
use crate::link::stats::{LinkCounters, add, take};

/// One read takes this much at most.
const READ_BYTES: usize = 64 * 1024;

/// Without a rate, a connection has this much on the way, as the largest window of Linux would.
const WINDOW_BYTES_UNRATED: usize = 6 * 1024 * 1024;

/// Bounds of a window derived from rate and delay.
const WINDOW_BYTES_MIN: usize = 256 * 1024;
const WINDOW_BYTES_MAX: usize = 64 * 1024 * 1024;

const LISTENER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;

/// Everything the relay's thread owns.
pub(super) struct Worker {
    to: SocketAddr,
    handshake: bool,
    connections_max: usize,
    spin: Duration,
    cuts: Cuts,
    cut_at: Duration,
    started: Instant,
    epoll: OwnedFd,
    listener: TcpListener,
    acceptable: bool,
    accept_again_at: Option<Duration>,
    failures: Failures,
    commands: Commands,
    paths: Paths,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    ready: VecDeque<usize>,
    timers: BinaryHeap<Reverse<(Duration, usize)>>,
    counters: Arc<LinkCounters>,
}

impl Worker {
    pub(super) fn new(
        config: RelayConfig,
        listener: TcpListener,
        commands: Commands,
        counters: Arc<LinkCounters>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let edges = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), edges)?;
        epoll::add(&epoll, &commands, EventData::new_u64(WAKE), edges)?;
        let window = |path: &PathConfig| config.window_bytes.unwrap_or_else(|| window_bytes(path));
        let up = Path {
            window_bytes: window(&config.up),
            schedule: Schedule::new(config.up.clone(), config.seed),
        };
        let down = Path {
            window_bytes: window(&config.down),
            // The directions must not lose in step.
            schedule: Schedule::new(config.down.clone(), !config.seed),
        };
        Ok(Self {
            to: config.to,
            handshake: config.handshake,
            connections_max: config.connections_max,
            spin: config.spin,
            cuts: Cuts::new(config.cuts),
            cut_at: Duration::ZERO,
            started: Instant::now(),
            epoll,
            listener,
            acceptable: false,
            accept_again_at: None,
            failures: Failures::default(),
            commands,
            paths: Paths { up, down, is_cut: false, counters: Arc::clone(&counters) },
            connections: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            timers: BinaryHeap::new(),
            counters,
        })
    }

    /// Relays until told to stop.
    pub(super) fn run(mut self) {
        // Without this the kernel may wake a sleeping thread 50 µs late to save power.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut buffer = vec![0; READ_BYTES];
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            if let Err(error) = self.wait(&mut events) {
                tracing::error!(%error, "the relay stopped: epoll_wait failed");
                return;
            }
            for event in &events {
                self.note(*event);
            }
            if !self.obey() {
                return;
            }
            let now = self.started.elapsed();
            self.apply_cuts(now);
            self.accept(now);
            self.ring_timers(now);
            for _ in 0..self.ready.len() {
                if let Some(index) = self.ready.pop_front() {
                    self.advance(index, &mut buffer);
                }
            }
        }
    }

    /// Waits for an event, a command or the next timer.
    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let until = self.wakes_at();
        loop {
            let now = self.started.elapsed();
            let left = until.map(|until| until.saturating_sub(now));
            // Near the time, poll rather than sleep.
            let timeout = left.map(|left| timespec(left.saturating_sub(self.spin)));
            let spare = rustix::buffer::spare_capacity(events);
            match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
                Ok(count) if count > 0 || left == Some(Duration::ZERO) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn wakes_at(&self) -> Option<Duration> {
        if !self.ready.is_empty() || self.may_accept() {
            return Some(Duration::ZERO);
        }
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let cut = self.cuts.next_change(self.started.elapsed());
        [timer, cut, self.accept_again_at].into_iter().flatten().min()
    }

    fn note(&mut self, event: Event) {
        match event.data.u64() {
            LISTENER => self.acceptable = true,
            // Commands are looked for after every wait.
            WAKE => {}
            token => {
                let side = if token & 1 == 0 { Side::Client } else { Side::Server };
                let index = (token >> 1) as usize;
                if let Some(Some(connection)) = self.connections.get_mut(index) {
                    connection.note_ready(side, event.flags);
                    self.ready.push_back(index);
                }
            }
        }
    }

    /// Carries out what the handle asked for. False when it asked to stop.
    fn obey(&mut self) -> bool {
        let (cuts, paths) = (&mut self.cuts, &mut self.paths);
        self.commands.carry_out(|command| match command {
            // They take effect in `apply_cuts`, before anything else is delivered.
            Command::Cut => cuts.set_by_hand(true),
            Command::Restore => cuts.set_by_hand(false),
            Command::SetDelay { up, down } => {
                paths.up.schedule.set_delay(up);
                paths.down.schedule.set_delay(down);
            }
            Command::Stop => {}
        })
    }

    fn apply_cuts(&mut self, now: Duration) {
        let is_cut = self.cuts.is_cut(now);
        if is_cut == self.paths.is_cut {
            return;
        }
        self.paths.is_cut = is_cut;
        tracing::info!("the path is {}", if is_cut { "cut" } else { "restored" });
        if is_cut {
            self.cut_at = now;
            return;
        }
        for (index, connection) in self.connections.iter_mut().enumerate() {
            if let Some(connection) = connection {
                connection.restore(self.cut_at, &self.paths, now);
                self.ready.push_back(index);
            }
        }
    }

    fn accept(&mut self, now: Duration) {
        if self.accept_again_at.is_some_and(|at| at <= now) {
            self.accept_again_at = None;
            self.acceptable = true;
        }
        while self.may_accept() {
            match self.listener.accept() {
                Ok((client, from)) => match self.open(client, now) {
                    Ok(()) => tracing::debug!(%from, "accepted"),
                    Err(error) => {
                        tracing::warn!(%error, %from, "connection closed: cannot set up its sockets");
                    }
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.acceptable = false,
                Err(error) => {
                    self.acceptable = false;
                    let rest = self.failures.rest_after("the relay", &error);
                    self.accept_again_at = Some(now + rest);
                }
            }
        }
    }

    fn may_accept(&self) -> bool {
        self.acceptable && self.connections.len() - self.free.len() < self.connections_max
    }

    fn open(&mut self, client: TcpStream, now: Duration) -> io::Result<()> {
        client.set_nonblocking(true)?;
        client.set_nodelay(true)?;
        let (server, refused) = connect(self.to)?;
        server.set_nodelay(true)?;
        let connection = Connection::new(client, server, self.handshake, refused, &self.paths, now);
        let index = self.free.pop().unwrap_or(self.connections.len());
        if index == self.connections.len() {
            self.connections.push(None);
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        for (stream, side) in connection.streams() {
            let token = (index as u64) << 1 | u64::from(side == Side::Server);
            if let Err(error) = epoll::add(&self.epoll, stream, EventData::new_u64(token), flags) {
                self.free.push(index);
                return Err(error.into());
            }
        }
        self.connections[index] = Some(connection);
        self.ready.push_back(index);
        add(&self.counters.connections, 1);
        add(&self.counters.connections_open, 1);
        Ok(())
    }

    fn ring_timers(&mut self, now: Duration) {
        while let Some(Reverse((at, index))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            if let Some(Some(connection)) = self.connections.get_mut(index)
                && connection.armed == Some(at)
            {
                connection.armed = None;
                self.ready.push_back(index);
            }
        }
    }

    fn advance(&mut self, index: usize, buffer: &mut [u8]) {
        // Each connection is advanced at its own time: those before it took some.
        let now = self.started.elapsed();
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        match connection.advance(&mut self.paths, buffer, now) {
            Next::Closed => self.close(index),
            Next::Again => self.ready.push_back(index),
            Next::Wait(None) => {}
            Next::Wait(Some(at)) => {
                if connection.armed.is_none_or(|armed| at < armed) {
                    connection.armed = Some(at);
                    self.timers.push(Reverse((at, index)));
                }
            }
        }
    }

    fn close(&mut self, index: usize) {
        if let Some(connection) = self.connections[index].take() {
            let (up, down) = connection.queued_bytes();
            take(&self.counters.up.queued_bytes, up as u64);
            take(&self.counters.down.queued_bytes, down as u64);
            take(&self.counters.connections_open, 1);
            self.free.push(index);
        }
    }
}

/// Starts to connect. The error is the far side's answer if it is there already.
fn connect(to: SocketAddr) -> io::Result<(TcpStream, Option<Errno>)> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    let refused = match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => None,
        Err(error) => Some(error),
    };
    Ok((TcpStream::from(socket), refused))
}

/// What one connection may have on the way: as much as the path itself holds, with some to spare.
fn window_bytes(path: &PathConfig) -> usize {
    let Some(bits_per_second) = path.bits_per_second else { return WINDOW_BYTES_UNRATED };
    let held = path.delay + path.jitter + path.queue;
    let bytes = held.as_secs_f64() * bits_per_second as f64 / 8.0;
    (bytes as usize + SEGMENT_BYTES).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
}
