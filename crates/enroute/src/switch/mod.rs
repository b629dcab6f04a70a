//! `enroute switch` at work: the controller's sockets and clock, and the agent's.
//!
//! Read first: [`Switch::run`], one loop on one thread.

pub mod agent;
mod explain;
mod pins;

pub use explain::{explain, frame_of};
pub use pins::{LAYOUT, Saved, mount, remove, saved};

use std::{
    collections::{HashMap, hash_map},
    hash::{BuildHasher, RandomState},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use anyhow::Context;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::sockopt::set_socket_recv_buffer_size,
    time::{ClockId, clock_gettime},
};
use switch::{
    asking::Asking,
    controller::{Command, Config, Controller, Event, View},
    install::Key,
    layout::{Entry, Protocol},
    plane::DataPlane,
};
use wire::{
    memcache::{frame::Frame, item},
    netcache::Message,
};

/// The controller's port: this far above NetCache's.
pub const CONTROL_PORT_ABOVE: u16 = 1;
const PERIOD: Duration = Duration::from_secs(1);
/// Polling interval.
const TICK: Duration = Duration::from_millis(2);
/// Reports taken before messages are.
const REPORTS_MAX: usize = 1024;
const DATAGRAM_BYTES: usize = 65_536;
/// Receive buffer; the kernel may allow less.
const SOCKET_BYTES: usize = 4 << 20;
/// Keys asked for at once while the cache is filled beforehand.
const WARM_AT_ONCE: usize = 64;
/// Maximum number of outstanding requests to memcached servers.
const QUESTIONS_MAX: usize = 16_384;

/// The kernel's monotonic clock, as the data plane reads it.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A random secret.
fn secret() -> u64 {
    RandomState::new().hash_one(0u8)
}

struct Question {
    number: u64,
    place: u32,
    version: u64,
    epoch: u64,
    asked: Duration,
}

/// The controller beside its data plane.
pub struct Switch {
    plane: DataPlane,
    controller: Controller,
    control: UdpSocket,
    ask: UdpSocket,
    questions: HashMap<u16, Question>,
    /// Number of the newest question.
    question: u64,
    period_ends: Duration,
}

struct Counters<'a>(&'a DataPlane);

impl View for Counters<'_> {
    fn count(&self, place: u32) -> u16 {
        self.0.counters.counter(place)
    }

    fn is_valid(&self, place: u32) -> bool {
        let entry = &self.0.entries[place as usize];
        let lives = entry.protocol() != Protocol::Memcache || lives(self.0, entry);
        lives && self.0.version(place).is_some_and(|(_, valid)| valid)
    }

    fn flushed_from(&self, asked: Duration) -> Option<Duration> {
        self.0.shared().flushed_from(asked.as_nanos() as u64).map(Duration::from_nanos)
    }
}

/// Whether an entry of memcached's is of this epoch and has not expired.
fn lives(plane: &DataPlane, entry: &Entry) -> bool {
    entry.epoch.load(Relaxed) == plane.shared().epoch.load(Relaxed)
        && u128::from(entry.expires_ns.load(Relaxed)) > now().as_nanos()
}

impl Switch {
    /// Takes over an attached data plane, with nothing cached.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub fn new(plane: DataPlane) -> anyhow::Result<Self> {
        let port = plane.config().netcache_port + CONTROL_PORT_ABOVE;
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let control = UdpSocket::bind((any, port))
            .with_context(|| format!("cannot listen for agents on UDP port {port}"))?;
        let ask =
            UdpSocket::bind((any, 0)).context("cannot open a socket for requests to memcached")?;
        for socket in [&control, &ask] {
            set_socket_recv_buffer_size(socket, SOCKET_BYTES)?;
        }
        control.set_nonblocking(true)?;
        ask.set_nonblocking(true)?;
        let config = Config {
            entries: plane.config().entries,
            values: plane.config().values,
            seed: secret(),
            ..Config::default()
        };
        Ok(Self {
            controller: Controller::new(config),
            plane,
            control,
            ask,
            questions: HashMap::new(),
            // Answers to an earlier controller are ignored.
            question: secret(),
            period_ends: now() + PERIOD,
        })
        .inspect(Self::tell_wall_clock)
    }

    /// A `flush_all` may name a wall-clock time, which the program cannot read.
    fn tell_wall_clock(&self) {
        let wall = clock_gettime(ClockId::Realtime);
        let wall = Duration::new(wall.tv_sec as u64, wall.tv_nsec as u32);
        self.plane.shared().wall_ns.store((wall.saturating_sub(now())).as_nanos() as u64, Relaxed);
    }

    /// Runs until `stop` is set.
    ///
    /// # Errors
    /// An unexpected error of the kernel.
    pub fn run(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        while !stop.load(Relaxed) {
            self.turn()?;
        }
        Ok(())
    }

    /// Waits for input for a while, and handles it.
    fn turn(&mut self) -> anyhow::Result<()> {
        self.wait()?;
        for _ in 0..REPORTS_MAX {
            let Some(report) = self.plane.report() else { break };
            self.step(Event::Report(report))?;
        }
        self.take_messages()?;
        self.take_answers()?;
        if now() >= self.period_ends {
            self.period_ends = now() + PERIOD;
            self.tell_wall_clock();
            self.plane.end_holds(now());
            self.step(Event::Period)?;
            self.questions.retain(|_, question| question.asked + PERIOD > now());
        }
        self.step(Event::Tick)
    }

    /// Caches `keys` in advance, within `wait`; returns how many are cached.
    ///
    /// # Errors
    /// As for [`Switch::run`].
    pub fn warm(&mut self, keys: &[Key], wait: Duration) -> anyhow::Result<usize> {
        let until = now() + wait;
        let served = |plane: &DataPlane| {
            plane.lookup.places().filter(|place| Counters(plane).is_valid(*place)).count()
        };
        while served(&self.plane) < keys.len() && now() < until {
            for key in keys {
                self.controller.insert(key.clone(), false, now());
                // More under way would be sent again before their turn comes.
                while self.controller.waiting() >= WARM_AT_ONCE && now() < until {
                    self.step(Event::Tick)?;
                    self.turn()?;
                }
            }
            self.step(Event::Tick)?;
            self.turn()?;
        }
        Ok(served(&self.plane))
    }

    /// What the controller did, and how many keys are cached.
    pub fn stats(&self) -> (switch::controller::Stats, usize) {
        (self.controller.stats(), self.controller.cached())
    }

    fn wait(&self) -> anyhow::Result<()> {
        let limit = if self.controller.is_waiting() { TICK } else { TICK * 25 };
        let limit = Timespec { tv_sec: 0, tv_nsec: limit.as_nanos() as i64 };
        let reports = self.plane.reports_fd();
        let mut fds = [
            PollFd::new(&reports, PollFlags::IN),
            PollFd::new(&self.control, PollFlags::IN),
            PollFd::new(&self.ask, PollFlags::IN),
        ];
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for reports"),
        }
    }

    fn take_messages(&mut self) -> anyhow::Result<()> {
        let mut buffer = vec![0; DATAGRAM_BYTES];
        while let Some((bytes, from)) = receive(&self.control, &mut buffer)? {
            match Message::decode(&buffer[..bytes]) {
                Ok(message) => self.step(Event::Message(from, message))?,
                Err(error) => tracing::debug!("datagram from {from} ignored: {error}"),
            }
        }
        Ok(())
    }

    fn take_answers(&mut self) -> anyhow::Result<()> {
        let mut buffer = vec![0; DATAGRAM_BYTES];
        while let Some((bytes, from)) = receive(&self.ask, &mut buffer)? {
            let Ok(frame) = Frame::decode(&buffer[..bytes]) else { continue };
            let question = self.questions.entry(frame.request);
            let hash_map::Entry::Occupied(question) = question else { continue };
            if frame.datagrams != 1 {
                question.remove();
                continue;
            }
            match item::answer(frame.payload, question.get().number) {
                Ok(item) => {
                    let Question { place, version, epoch, asked, .. } = question.remove();
                    self.step(Event::Item { place, version, epoch, asked, item })?;
                }
                Err(error) => tracing::debug!("datagram from {from} ignored: {error}"),
            }
        }
        Ok(())
    }

    fn step(&mut self, event: Event<'_>) -> anyhow::Result<()> {
        self.controller.step(event, &Counters(&self.plane), now());
        while let Some(command) = self.controller.ready() {
            self.carry_out(command)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, command: Command) -> anyhow::Result<()> {
        match command {
            // An address that cannot be reached answers nothing, which the controller expects.
            Command::Send(to, bytes) => drop(self.control.send_to(&bytes, to)),
            // A request that does not fit into the socket buffer is not sent; its key is evicted as
            // the coldest.
            Command::Admit(place, key, room, version) => {
                self.plane.admit(place, &key, room, version);
            }
            Command::Fill(place, version, value) => drop(self.plane.fill(place, version, &value)),
            Command::Evict(place, name) => self.plane.evict(place, &name),
            Command::Ask(place, server, key) => self.question(place, server, &key),
            Command::Lease(lease, until) => {
                self.plane.leases[lease as usize].store(until.as_nanos() as u64, Relaxed);
            }
            Command::ClearStatistics => {
                self.plane.counters.clear();
                self.plane.sketch.clear();
                self.plane.filter.clear();
            }
        }
        Ok(())
    }

    /// Requests an item, unless a write is in flight to the server, or may still be.
    fn question(&mut self, place: u32, server: SocketAddr, key: &[u8]) {
        if Counters(&self.plane).is_valid(place) {
            return;
        }
        let now = now();
        let (version, epoch) = match self.plane.asking(place, now) {
            Asking::Reported => return,
            Asking::Later(at) => return self.controller.postpone(place, at.max(now + TICK)),
            Asking::Now { .. } if self.questions.len() >= QUESTIONS_MAX => {
                return self.controller.postpone(place, now + TICK);
            }
            Asking::Now { version, epoch } => (version, epoch),
        };
        self.question = self.question.wrapping_add(1);
        let (number, request) = (self.question, self.question as u16);
        let text = item::question(key, number);
        let frame = Frame::whole(request, &text).bytes();
        if self.ask.send_to(&frame, server).is_ok() {
            let question = Question { number, place, version, epoch, asked: now };
            self.questions.insert(request, question);
        }
    }

    /// The cached keys asked for most in this period: how often, sampled, and where they are.
    pub fn hottest(plane: &DataPlane, count: usize) -> Vec<(u16, u32)> {
        let counted = |place: u32| (plane.counters.counter(place), place);
        let mut places: Vec<(u16, u32)> = plane.lookup.places().map(counted).collect();
        places.sort_by(|a, b| b.cmp(a));
        places.truncate(count);
        places
    }
}

/// The next datagram, if there is one.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> anyhow::Result<Option<(usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok((bytes, from)) => Ok(Some((bytes, from))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        // An ICMP error for an earlier datagram.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
        Err(error) => Err(error).context("cannot receive"),
    }
}
