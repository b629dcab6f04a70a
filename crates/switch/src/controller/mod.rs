//! Contents of the cache: a pure state machine over the data plane's reports.
//!
//! NetCache (SOSP 2017, section 4.4): a key reported as hot is compared with a few cached ones,
//! drawn at random, and replaces the coldest of them if it is requested more often. A key of
//! NetCache's protocol enters by its agent, which holds its writes during that; one of memcached's
//! is requested by a normal get. [`Controller::step`] takes events, [`Controller::ready`] returns
//! actions.

mod items;
mod leases;
mod places;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use rand_xoshiro::{SplitMix64, rand_core::SeedableRng};
use wire::netcache::{Flags, Message, Op};

use crate::{
    allocation::Allocation,
    install::{Key, Room, Value},
    layout::{Name, Protocol, Report, ReportKind, VALUE_BYTES_MAX},
    plane::Values,
};
use leases::Server;

/// Limits and times.
#[derive(Debug, Clone)]
pub struct Config {
    /// Places for keys in the data plane.
    pub entries: u32,
    /// The layout of values in the data plane.
    pub values: Values,
    /// Number of cached keys that a hot key is compared with.
    pub compared: usize,
    /// Maximum number of awaited keys; further reports are dropped and come again.
    pub waiting_max: usize,
    /// Timeout of a server's answer.
    pub wait: Duration,
    /// Duration of a lease.
    pub lease: Duration,
    /// memcached: minimum time between an admission and the request.
    pub fill_wait: Duration,
    /// memcached: minimum interval between two requests of a key, however often it is written.
    pub ask_every: Duration,
    /// memcached: interval at which an item without expiry is requested again.
    pub item_lives_max: Duration,
    /// Seed of the choice of compared keys, and of the first version and request number: an
    /// unpredictable number, because messages that contain it are trusted.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            entries: 65_536,
            values: Values::Slots,
            compared: 10,
            waiting_max: 16_384,
            wait: Duration::from_millis(200),
            lease: Duration::from_secs(5),
            fill_wait: Duration::from_millis(50),
            ask_every: Duration::from_millis(2),
            item_lives_max: Duration::from_secs(3600),
            seed: 0,
        }
    }
}

/// Maximum number of consecutive periods for which a key may be found invalid before it leaves.
const PERIODS_INVALID_MAX: u8 = 3;

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys reported as hot.
    pub reported: u64,
    /// Reported keys that were not hotter than the compared ones.
    pub declined: u64,
    /// Keys whose value arrived.
    pub inserted: u64,
    /// Evicted keys.
    pub evicted: u64,
    /// Values that were moved to another row to make room.
    pub moved: u64,
    /// Keys whose server did not answer.
    pub unanswered: u64,
}

/// The events that the controller handles.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// The data plane reported a key.
    Report(Report),
    /// A message of an agent.
    Message(SocketAddr, Message<'a>),
    /// The reply of a memcached server for the key in this place; `None`: no such item.
    Item {
        /// The entry.
        place: u32,
        /// Its version when the request was sent.
        version: u64,
        /// The epoch at that time.
        epoch: u64,
        /// The time of the request.
        asked: Duration,
        /// The reply.
        item: Option<wire::memcache::item::Item>,
    },
    /// A period has ended: the counters are about to be cleared.
    Period,
    /// Time has elapsed.
    Tick,
}

/// Actions, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Send a message.
    Send(SocketAddr, Vec<u8>),
    /// [`crate::plane::DataPlane::admit`].
    Admit(u32, Key, Room, u64),
    /// [`crate::plane::DataPlane::fill`].
    Fill(u32, u64, Value),
    /// [`crate::plane::DataPlane::relocate`].
    Move(u32, Room),
    /// [`crate::plane::DataPlane::evict`].
    Evict(u32, Name),
    /// Request the key in this place from memcached, unless it was written recently.
    Ask(u32, SocketAddr, Vec<u8>),
    /// A server's keys may be served until this time.
    Lease(u32, Duration),
    /// Clear counters, sketch and filter.
    ClearStatistics,
}

/// Queries of the controller to the data plane.
pub trait View {
    /// Sampled accesses to the key in a place, this period.
    fn count(&self, place: u32) -> u16;
    /// Whether the value in a place is that of the last write and has not expired.
    fn is_valid(&self, place: u32) -> bool;
    /// memcached: time of a pending flush that drops items received at the given time.
    fn flushed_from(&self, asked: Duration) -> Option<Duration>;
}

#[derive(Debug, Clone)]
struct Cached {
    key: Key,
    room: Room,
    version: u64,
    /// memcached: time of its last request.
    asked: Duration,
    /// Consecutive periods in which it was invalid.
    invalid: u8,
}

#[derive(Debug, Clone)]
struct Waiting {
    key: Key,
    version: u64,
    since: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct Controller {
    config: Config,
    cached: Vec<Option<Cached>>,
    by_name: HashMap<Name, u32>,
    free: Vec<u32>,
    /// Evicted places, which no processor uses once a period has passed.
    resting: Vec<(u32, Room)>,
    /// Rooms that moved values left, likewise.
    left: Vec<Room>,
    allocation: Option<Allocation>,
    /// Whether values were moved in this period.
    reorganised: bool,
    waiting: HashMap<Name, Waiting>,
    asks: BTreeMap<(Duration, u32), u64>,
    servers: BTreeMap<SocketAddr, Server>,
    random: SplitMix64,
    ready: VecDeque<Command>,
    stats: Stats,
}

impl Controller {
    /// A controller of an empty data plane.
    pub fn new(config: Config) -> Self {
        let allocation = match config.values {
            Values::Slots => None,
            Values::Registers { rows } => Some(Allocation::new(rows)),
        };
        Self {
            cached: vec![None; config.entries as usize],
            by_name: HashMap::new(),
            free: (0..config.entries).rev().collect(),
            resting: Vec::new(),
            left: Vec::new(),
            allocation,
            reorganised: false,
            waiting: HashMap::new(),
            asks: BTreeMap::new(),
            servers: BTreeMap::new(),
            random: SplitMix64::seed_from_u64(config.seed),
            ready: VecDeque::new(),
            stats: Stats::default(),
            config,
        }
    }

    /// Counters since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Number of cached keys.
    pub fn cached(&self) -> usize {
        self.by_name.len()
    }

    /// Handles an event.
    pub fn step(&mut self, event: Event<'_>, view: &impl View, now: Duration) {
        match event {
            Event::Report(report) => match report.kind {
                ReportKind::Hot => self.hot(report, view, now),
                ReportKind::Stale => self.ask_later(report.place, now),
            },
            Event::Message(from, message) => self.message(from, &message, view, now),
            Event::Item { place, version, epoch, asked, item } => {
                if let Some(item) = item {
                    let lives = view.flushed_from(asked);
                    self.item(place, (version, epoch), asked, &item, lives);
                }
            }
            Event::Period => self.period(view, now),
            Event::Tick => self.tick(now),
        }
    }

    /// The next action.
    pub fn ready(&mut self) -> Option<Command> {
        self.ready.pop_front()
    }

    /// Keys whose values were requested from their servers.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a reply is awaited, so that ticks should follow soon.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.asks.is_empty()
    }

    /// Requests a key as if it had been reported, to warm up and in tests. Of a long key only its
    /// hash is known.
    pub fn insert(&mut self, key: Key, is_long: bool, now: Duration) {
        if self.by_name.contains_key(&key.name)
            || self.waiting.contains_key(&key.name)
            || self.waiting.len() >= self.config.waiting_max
        {
            return;
        }
        match key.protocol {
            Protocol::NetCache => self.fetch(key, is_long, now),
            Protocol::Memcache => {
                let version = self.next_version();
                if let Some(place) = self.admit(key, VALUE_BYTES_MAX, version) {
                    self.ask_later(place, now + self.config.fill_wait);
                }
            }
        }
    }

    fn hot(&mut self, report: Report, view: &impl View, now: Duration) {
        self.stats.reported += 1;
        if self.free.len() <= self.reserve() {
            let Some(coldest) = self.coldest(view) else { return };
            if u32::from(view.count(coldest)) >= report.estimate {
                self.stats.declined += 1;
                return;
            }
            self.evict(coldest);
        }
        let is_netcache = report.protocol == Protocol::NetCache;
        let is_long = is_netcache && report.key.is_empty();
        let key = Key {
            name: report.name,
            bytes: if is_netcache { Vec::new() } else { report.key },
            server: report.server,
            protocol: report.protocol,
            lease: 0,
        };
        self.insert(key, is_long, now);
    }

    /// It is random: a message with it, or with a number counted up from it, proves that its sender
    /// got it from here (decision 130). Half of all numbers are left to an entry that is evicted,
    /// and half of the rest to be counted up to.
    fn next_version(&mut self) -> u64 {
        (self.draw() >> 2).max(1)
    }

    fn fetch(&mut self, mut key: Key, is_long: bool, now: Duration) {
        let Some(lease) = self.server(key.server, now) else { return };
        key.lease = lease;
        let version = self.next_version();
        let flags = Flags::default().with(Flags::LONG_KEY, is_long);
        let ask = Message { version, flags, ..Message::new(Op::Fetch, 0, key.name) };
        self.ready.push_back(Command::Send(key.server, ask.bytes()));
        self.waiting.insert(key.name, Waiting { key, version, since: now });
    }

    fn message(
        &mut self,
        from: SocketAddr,
        message: &Message<'_>,
        view: &impl View,
        now: Duration,
    ) {
        match message.op {
            Op::Fetched => self.fetched(from, message, view),
            Op::Leased => self.leased(from, message, now),
            _ => {}
        }
    }

    fn fetched(&mut self, from: SocketAddr, message: &Message<'_>, view: &impl View) {
        if !self.servers.contains_key(&from) {
            return;
        }
        let version = message.version;
        let op = if self.is_awaited(from, message) && self.installs(message, view) {
            Op::Installed
        } else {
            match self
                .by_name
                .get(&message.key)
                .and_then(|place| self.cached[*place as usize].as_ref())
            {
                Some(cached) if cached.version == version && cached.key.server == from => {
                    Op::Installed
                }
                _ => Op::Abandoned,
            }
        };
        let told = Message { version, ..Message::new(op, message.sequence, message.key) };
        self.ready.push_back(Command::Send(from, told.bytes()));
    }

    fn is_awaited(&self, from: SocketAddr, message: &Message<'_>) -> bool {
        self.waiting
            .get(&message.key)
            .is_some_and(|waiting| waiting.key.server == from && waiting.version == message.version)
    }

    fn installs(&mut self, message: &Message<'_>, view: &impl View) -> bool {
        let Some(mut waiting) = self.waiting.remove(&message.key) else { return false };
        if message.value.len() > VALUE_BYTES_MAX {
            return false;
        }
        if let Ok(Some((key, _))) = message.long_key() {
            waiting.key.bytes = key.to_vec();
        }
        if self.free.is_empty()
            && let Some(coldest) = self.coldest(view)
        {
            self.evict(coldest);
        }
        let version = waiting.version;
        let Some(place) = self.admit(waiting.key, message.value.len(), version) else {
            return false;
        };
        let value = Value {
            bytes: message.value.to_vec(),
            absent: !message.flags.has(Flags::FOUND),
            expires_ns: u64::MAX,
            epoch: 0,
        };
        self.stats.inserted += 1;
        self.ready.push_back(Command::Fill(place, version, value));
        true
    }

    fn period(&mut self, view: &impl View, now: Duration) {
        self.reorganised = false;
        let mut unused = std::mem::take(&mut self.left);
        for (place, room) in std::mem::take(&mut self.resting) {
            self.free.push(place);
            unused.push(room);
        }
        if let Some(allocation) = &mut self.allocation {
            unused.into_iter().for_each(|room| allocation.release(room));
        }
        let (mut gone, mut asked) = (Vec::new(), Vec::new());
        for (place, cached) in self.cached.iter_mut().enumerate() {
            let Some(cached) = cached else { continue };
            cached.invalid = if view.is_valid(place as u32) { 0 } else { cached.invalid + 1 };
            // Its write was lost, or its new value does not fit: admit it again if it is still hot.
            match cached.invalid {
                0 => {}
                1..=PERIODS_INVALID_MAX => asked.push(place as u32),
                _ => gone.push(place as u32),
            }
        }
        // A report was lost, or everything was dropped at once.
        for place in asked {
            self.ask_later(place, now);
        }
        for place in gone {
            self.evict(place);
        }
        self.ready.push_back(Command::ClearStatistics);
    }

    fn tick(&mut self, now: Duration) {
        self.renew_leases(now);
        let wait = self.config.wait;
        let before = self.waiting.len();
        self.waiting.retain(|_, waiting| now < waiting.since + wait);
        self.stats.unanswered += (before - self.waiting.len()) as u64;
        self.ask_what_is_due(now);
    }
}
