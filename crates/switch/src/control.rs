//! The controller with its data plane: commands of the controller to the data plane are executed
//! here, and datagrams to send are returned.
//!
//! After each input call [`Control::ready`] until it returns nothing: commands are executed
//! in order, and a message is sent before later commands.

use std::{
    collections::{HashMap, hash_map},
    net::SocketAddr,
    os::fd::BorrowedFd,
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use wire::{
    memcache::{frame::Frame, item},
    netcache::Message,
};

use crate::{
    asking::Asking,
    controller::{Command, Config, Controller, Event, Stats, View},
    install::Key,
    layout::{Entry, Protocol},
    plane::DataPlane,
};

/// Interval of the controller's period.
const PERIOD: Duration = Duration::from_secs(1);
/// Interval after which a key that cannot be requested now is checked again.
const LATER: Duration = Duration::from_millis(2);
/// Maximum number of outstanding requests to memcached servers.
const QUESTIONS_MAX: usize = 16_384;

/// A datagram to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// From the port of the controller, to an agent or a client.
    Message(SocketAddr, Vec<u8>),
    /// A request to a memcached server. If it cannot be sent, [`Control::unsent`] takes its number.
    Question(SocketAddr, Vec<u8>, u16),
}

struct Question {
    number: u64,
    place: u32,
    version: u64,
    epoch: u64,
    asked: Duration,
}

/// A controller and its data plane.
pub struct Control {
    plane: DataPlane,
    controller: Controller,
    questions: HashMap<u16, Question>,
    /// Number of the newest request to memcached.
    question: u64,
    period_ends: Duration,
}

/// The controller's view of the data plane.
struct Counters<'a>(&'a DataPlane, Duration);

impl View for Counters<'_> {
    fn count(&self, place: u32) -> u16 {
        self.0.counters.counter(place)
    }

    fn is_valid(&self, place: u32) -> bool {
        let Self(plane, now) = self;
        let entry = &plane.entries[place as usize];
        let lives = entry.protocol() != Protocol::Memcache || lives(plane, entry, *now);
        lives && plane.version(place).is_some_and(|(_, valid)| valid)
    }

    fn flushed_from(&self, asked: Duration) -> Option<Duration> {
        self.0.shared().flushed_from(asked.as_nanos() as u64).map(Duration::from_nanos)
    }
}

/// Whether a memcached entry is of this epoch and has not expired.
fn lives(plane: &DataPlane, entry: &Entry, now: Duration) -> bool {
    entry.epoch.load(Relaxed) == plane.shared().epoch.load(Relaxed)
        && u128::from(entry.expires_ns.load(Relaxed)) > now.as_nanos()
}

impl Control {
    /// Takes over an attached data plane, with nothing cached. `seed` and `question` are
    /// unpredictable; answers to the questions of an earlier controller are ignored.
    #[must_use]
    pub fn new(plane: DataPlane, seed: u64, question: u64, now: Duration) -> Self {
        let (entries, values) = (plane.config().entries, plane.config().values);
        let config = Config { entries, values, seed, ..Config::default() };
        Self {
            controller: Controller::new(config),
            plane,
            questions: HashMap::new(),
            question,
            period_ends: now + PERIOD,
        }
    }

    /// Readable when the data plane has reported a key.
    #[must_use]
    pub fn reports_fd(&self) -> BorrowedFd<'_> {
        self.plane.reports_fd()
    }

    /// Whether keys wait for a reply.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.controller.is_waiting()
    }

    /// Number of keys that wait for a reply.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.controller.waiting()
    }

    /// Counters of the controller, and the number of cached keys.
    #[must_use]
    pub fn stats(&self) -> (Stats, usize) {
        (self.controller.stats(), self.controller.cached())
    }

    /// Number of keys that are served now.
    #[must_use]
    pub fn served(&self, now: Duration) -> usize {
        let view = Counters(&self.plane, now);
        self.plane.lookup.places().filter(|place| view.is_valid(*place)).count()
    }

    /// Tells the program the wall clock, which it cannot read: a `flush_all` may name such a time.
    pub fn tell_wall_clock(&self, wall: Duration, now: Duration) {
        self.plane.shared().wall_ns.store(wall.saturating_sub(now).as_nanos() as u64, Relaxed);
    }

    /// Caches `key` regardless of its popularity.
    pub fn insert(&mut self, key: Key, now: Duration) {
        self.controller.insert(key, false, now);
    }

    /// Handles a report of the data plane; false if there is none.
    pub fn take_report(&mut self, now: Duration) -> bool {
        let Some(report) = self.plane.report() else { return false };
        self.step(Event::Report(report), now);
        true
    }

    /// Handles a datagram to the port of the controller.
    ///
    /// # Errors
    /// It is not a message.
    pub fn receive(&mut self, from: SocketAddr, bytes: &[u8], now: Duration) -> wire::Result<()> {
        self.step(Event::Message(from, Message::decode(bytes)?), now);
        Ok(())
    }

    /// Handles a reply of memcached; other datagrams are ignored.
    ///
    /// # Errors
    /// It is not a reply of memcached.
    pub fn receive_answer(&mut self, bytes: &[u8], now: Duration) -> wire::Result<()> {
        let Ok(frame) = Frame::decode(bytes) else { return Ok(()) };
        let hash_map::Entry::Occupied(question) = self.questions.entry(frame.request) else {
            return Ok(());
        };
        if frame.datagrams != 1 {
            question.remove();
            return Ok(());
        }
        let item = item::answer(frame.payload, question.get().number)?;
        let Question { place, version, epoch, asked, .. } = question.remove();
        self.step(Event::Item { place, version, epoch, asked, item }, now);
        Ok(())
    }

    /// Ends a period if it is due; otherwise returns false.
    pub fn end_period(&mut self, wall: Duration, now: Duration) -> bool {
        if now < self.period_ends {
            return false;
        }
        self.period_ends = now + PERIOD;
        self.tell_wall_clock(wall, now);
        self.plane.end_holds(now);
        self.questions.retain(|_, question| question.asked + PERIOD > now);
        self.step(Event::Period, now);
        true
    }

    /// Handles elapsed time.
    pub fn tick(&mut self, now: Duration) {
        self.step(Event::Tick, now);
    }

    fn step(&mut self, event: Event<'_>, now: Duration) {
        self.controller.step(event, &Counters(&self.plane, now), now);
    }

    /// Executes commands up to the next datagram.
    pub fn ready(&mut self, now: Duration) -> Option<Output> {
        while let Some(command) = self.controller.ready() {
            match command {
                Command::Send(to, bytes) => return Some(Output::Message(to, bytes)),
                // A request that does not fit into the socket buffer is not sent; its key is
                // evicted as the coldest.
                Command::Admit(place, key, room, version) => {
                    self.plane.admit(place, &key, room, version);
                }
                Command::Fill(place, version, value) => {
                    self.plane.fill(place, version, &value);
                }
                Command::Move(place, room) => self.plane.relocate(place, room),
                Command::Evict(place, name) => self.plane.evict(place, &name),
                Command::Ask(place, server, key) => {
                    if let Some(question) = self.ask(place, server, &key, now) {
                        return Some(question);
                    }
                }
                Command::Lease(lease, until) => {
                    self.plane.leases[lease as usize].store(until.as_nanos() as u64, Relaxed);
                }
                Command::ClearStatistics => {
                    self.plane.counters.clear();
                    self.plane.sketch.clear();
                    self.plane.filter.clear();
                }
            }
        }
        None
    }

    /// Requests an item, unless a write is in flight to the server, or may still be.
    fn ask(&mut self, place: u32, server: SocketAddr, key: &[u8], now: Duration) -> Option<Output> {
        if Counters(&self.plane, now).is_valid(place) {
            return None;
        }
        let later = match self.plane.asking(place, now) {
            Asking::Reported => return None,
            Asking::Later(at) => at.max(now + LATER),
            Asking::Now { .. } if self.questions.len() >= QUESTIONS_MAX => now + LATER,
            Asking::Now { version, epoch } => {
                self.question = self.question.wrapping_add(1);
                let (number, request) = (self.question, self.question as u16);
                let question = Question { number, place, version, epoch, asked: now };
                self.questions.insert(request, question);
                let frame = Frame::whole(request, &item::question(key, number)).bytes();
                return Some(Output::Question(server, frame, request));
            }
        };
        self.controller.postpone(place, later);
        None
    }

    /// The request with this number could not be sent.
    pub fn unsent(&mut self, request: u16) {
        self.questions.remove(&request);
    }
}

impl DataPlane {
    /// The most requested cached keys of this period, with their sampled counts and places.
    #[must_use]
    pub fn hottest(&self, count: usize) -> Vec<(u16, u32)> {
        let counted = |place: u32| (self.counters.counter(place), place);
        let mut places: Vec<(u16, u32)> = self.lookup.places().map(counted).collect();
        places.sort_by(|a, b| b.cmp(a));
        places.truncate(count);
        places
    }
}
