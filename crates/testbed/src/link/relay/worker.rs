//! The relay's thread: waits for sockets and for the next departure, whichever is first.
//!
//! One thread of its own instead of the asynchronous runtime, whose timers tick in milliseconds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reactor::{Acceptor, Events, Reactor, Seats, Token};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};

use super::RelayConfig;
use super::connection::{Connection, Next, Paths, Side};
use super::flow::Path;
use crate::link::control::{Command, Commands};
use crate::link::cuts::Cuts;
use crate::link::schedule::{PathConfig, SEGMENT_BYTES, Schedule};
use crate::link::stats::{LinkCounters, add, take};

/// Maximum size of one read.
const READ_BYTES: usize = 64 * 1024;

/// Window of a connection without a rate: the largest window of Linux.
const WINDOW_BYTES_UNRATED: usize = 6 * 1024 * 1024;

/// Bounds of a window derived from rate and delay.
const WINDOW_BYTES_MIN: usize = 256 * 1024;
const WINDOW_BYTES_MAX: usize = 64 * 1024 * 1024;

const LISTENER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;

/// State of the relay's thread.
pub(super) struct Worker {
    to: SocketAddr,
    handshake: bool,
    connections_max: usize,
    spin: Duration,
    cuts: Cuts,
    cut_at: Duration,
    started: Instant,
    reactor: Reactor,
    acceptor: Acceptor,
    commands: Commands,
    paths: Paths,
    seats: Seats<Connection>,
    timers: BinaryHeap<Reverse<(Duration, Token)>>,
    counters: Arc<LinkCounters>,
}

impl Worker {
    pub(super) fn new(
        config: RelayConfig,
        listener: TcpListener,
        commands: Commands,
        counters: Arc<LinkCounters>,
    ) -> io::Result<Self> {
        let reactor = Reactor::new()?;
        let acceptor = Acceptor::new(listener, &reactor, LISTENER)?;
        reactor.watch_input(&commands, WAKE)?;
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
            reactor,
            acceptor,
            commands,
            paths: Paths { up, down, is_cut: false, counters: Arc::clone(&counters) },
            seats: Seats::default(),
            timers: BinaryHeap::new(),
            counters,
        })
    }

    /// Relays until stopped.
    pub(super) fn run(mut self) {
        // Without this the kernel may wake a sleeping thread 50 µs late to save power.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut buffer = vec![0; READ_BYTES];
        let mut events = Events::with_capacity(256);
        loop {
            if let Err(error) = self.wait(&mut events) {
                tracing::error!(%error, "the relay stopped: epoll_wait failed");
                return;
            }
            self.note(&events);
            if !self.obey() {
                return;
            }
            let now = self.started.elapsed();
            self.apply_cuts(now);
            self.accept(now);
            self.ring_timers(now);
            let ready = self.seats.take_called();
            for &token in &ready {
                self.advance(token, &mut buffer);
            }
            self.seats.end_round(ready);
        }
    }

    /// Waits for an event, a command or the next timer.
    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let until = self.wakes_at();
        loop {
            let now = self.started.elapsed();
            let left = until.map(|until| until.saturating_sub(now));
            // Shortly before the departure, poll instead of sleeping.
            self.reactor.wait(events, left.map(|left| left.saturating_sub(self.spin)))?;
            if !events.is_empty() || left == Some(Duration::ZERO) {
                return Ok(());
            }
        }
    }

    fn wakes_at(&self) -> Option<Duration> {
        if self.seats.is_called() {
            return Some(Duration::ZERO);
        }
        let now = self.started.elapsed();
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let accept = self.acceptor.patience().filter(|_| self.has_room()).map(|rest| now + rest);
        [timer, self.cuts.next_change(now), accept].into_iter().flatten().min()
    }

    fn note(&mut self, events: &Events) {
        for (event, possible) in events.iter() {
            match event {
                LISTENER => self.acceptor.notice(),
                // Commands are checked after every wait.
                WAKE => {}
                event => {
                    let (token, tag) = Token::of(event);
                    let side = if tag == 0 { Side::Client } else { Side::Server };
                    if let Some(connection) = self.seats.call(token) {
                        connection.note_ready(side, possible);
                    }
                }
            }
        }
    }

    /// Carries out the commands of the handle. False after a stop command.
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
        self.seats.call_all();
        for connection in self.seats.values_mut() {
            connection.restore(self.cut_at, &self.paths, now);
        }
    }

    fn accept(&mut self, now: Duration) {
        while self.has_room()
            && let Some((client, from)) = self.acceptor.accept()
        {
            match self.open(client, now) {
                Ok(()) => tracing::debug!(%from, "accepted"),
                Err(error) => {
                    tracing::warn!(%error, %from, "connection closed: cannot set up its sockets");
                }
            }
        }
    }

    /// Clients beyond the limit wait to be accepted.
    fn has_room(&self) -> bool {
        self.seats.len() < self.connections_max
    }

    fn open(&mut self, client: TcpStream, now: Duration) -> io::Result<()> {
        client.set_nonblocking(true)?;
        client.set_nodelay(true)?;
        let (server, refused) = connect(self.to)?;
        server.set_nodelay(true)?;
        let connection = Connection::new(client, server, self.handshake, refused, &self.paths, now);
        let token = self.seats.seat(|token| {
            for (stream, side) in connection.streams() {
                self.reactor.watch(stream, token.tagged(u16::from(side == Side::Server)))?;
            }
            io::Result::Ok(connection)
        })?;
        self.seats.call(token);
        add(&self.counters.connections, 1);
        add(&self.counters.connections_open, 1);
        Ok(())
    }

    fn ring_timers(&mut self, now: Duration) {
        while let Some(Reverse((at, token))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            if self.seats.get(token).is_some_and(|connection| connection.armed == Some(at))
                && let Some(connection) = self.seats.call(token)
            {
                connection.armed = None;
            }
        }
    }

    fn advance(&mut self, token: Token, buffer: &mut [u8]) {
        // Each connection is advanced with its own timestamp, because those before it took time.
        let now = self.started.elapsed();
        let Some(connection) = self.seats.end_turn(token) else { return };
        match connection.advance(&mut self.paths, buffer, now) {
            Next::Closed => self.close(token),
            Next::Again => drop(self.seats.call(token)),
            Next::Wait(None) => {}
            Next::Wait(Some(at)) => {
                if connection.armed.is_none_or(|armed| at < armed) {
                    connection.armed = Some(at);
                    self.timers.push(Reverse((at, token)));
                }
            }
        }
    }

    fn close(&mut self, token: Token) {
        if let Some(connection) = self.seats.leave(token) {
            let (up, down) = connection.queued_bytes();
            take(&self.counters.up.queued_bytes, up as u64);
            take(&self.counters.down.queued_bytes, down as u64);
            take(&self.counters.connections_open, 1);
        }
    }
}

/// Starts to connect. Returns an error if the server has refused already.
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

/// Window of one connection: the capacity of the path, with some reserve.
fn window_bytes(path: &PathConfig) -> usize {
    let Some(bits_per_second) = path.bits_per_second else { return WINDOW_BYTES_UNRATED };
    let held = path.delay + path.jitter + path.queue;
    let bytes = held.as_secs_f64() * bits_per_second as f64 / 8.0;
    (bytes as usize + SEGMENT_BYTES).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
}
