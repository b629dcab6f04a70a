//! What is cached: a pure state machine over the data plane's reports.
//!
//! NetCache (SOSP 2017, section 4.4): a key reported as hot is compared with a few cached ones, drawn
//! at random, and takes the coldest one's place if it is asked for more often. A key of NetCache's
//! protocol enters by its agent, which holds its writes meanwhile; one of memcached's is asked for
//! like any client would. [`Controller::step`] takes what happened, [`Controller::ready`] gives what
//! is to be done.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use wire::netcache::{Flags, Message, Op};

use crate::{
    allocation::Allocation,
    install::{Key, Room, Value},
    layout::{LEASES_MAX, Name, Protocol, Report, ReportKind, UNIT_BYTES, VALUE_BYTES_MAX},
    plane::Values,
};

/// Limits and times.
#[derive(Debug, Clone)]
pub struct Config {
    /// Places for keys in the data plane.
    pub entries: u32,
    /// How values lie there.
    pub values: Values,
    /// Cached keys a hot one is compared with.
    pub compared: usize,
    /// Keys waited for at once; more reports are forgotten and come again.
    pub waiting_max: usize,
    /// How long a server may be waited for.
    pub wait: Duration,
    /// How long a server is promised to be served under what it said.
    pub lease: Duration,
    /// memcached: nothing is asked for so soon after a write or an admission.
    pub fill_wait: Duration,
    /// memcached: an item without end is asked for again after so long.
    pub item_lives_max: Duration,
    /// Decides which keys are compared.
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
            item_lives_max: Duration::from_secs(3600),
            seed: 0,
        }
    }
}

/// So many periods in a row a key may be found invalid before it leaves.
const PERIODS_INVALID_MAX: u8 = 3;

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys reported as hot.
    pub reported: u64,
    /// Reports not followed: not hotter than what is cached.
    pub declined: u64,
    /// Keys whose value came.
    pub inserted: u64,
    /// Keys taken out.
    pub evicted: u64,
    /// Keys whose server did not answer.
    pub unanswered: u64,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// The data plane reported a key.
    Report(Report),
    /// A message of an agent's.
    Message(SocketAddr, Message<'a>),
    /// What a memcached said of the key in this place; `None`: there is no such item.
    Item {
        /// Which entry.
        place: u32,
        /// Its version when the question was sent.
        version: u64,
        /// The epoch then.
        epoch: u64,
        /// When that was.
        asked: Duration,
        /// The answer.
        item: Option<wire::memcache::item::Item>,
    },
    /// A second is over: the counters are about to be cleared.
    Period,
    /// Time has passed.
    Tick,
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Send a message.
    Send(SocketAddr, Vec<u8>),
    /// [`crate::plane::DataPlane::admit`].
    Admit(u32, Key, Room, u64),
    /// [`crate::plane::DataPlane::fill`].
    Fill(u32, u64, Value),
    /// [`crate::plane::DataPlane::evict`].
    Evict(u32, Name),
    /// Ask a memcached for the key in this place, if nothing was written lately.
    Ask(u32, SocketAddr, Vec<u8>),
    /// A server's keys may be served until then.
    Lease(u32, Duration),
    /// Forget counters, sketch and filter.
    ClearStatistics,
}

/// What the controller wants to know of the data plane.
pub trait View {
    /// Sampled accesses to the key in a place, this period.
    fn count(&self, place: u32) -> u16;
    /// Whether the value in a place is that of the last write.
    fn is_valid(&self, place: u32) -> bool;
}

#[derive(Debug, Clone)]
struct Cached {
    key: Key,
    room: Room,
    version: u64,
    /// Periods it was found invalid in a row.
    invalid: u8,
}

#[derive(Debug, Clone)]
struct Waiting {
    key: Key,
    version: u64,
    since: Duration,
}

#[derive(Debug, Clone)]
struct Server {
    lease: u32,
    generation: u64,
    /// Sequence, time and generation of the last question.
    asked: (u32, Duration, u64),
    granted: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Controller {
    config: Config,
    cached: Vec<Option<Cached>>,
    by_name: HashMap<Name, u32>,
    free: Vec<u32>,
    /// Places no processor may look at any more once a period has passed.
    resting: Vec<(u32, Room)>,
    allocation: Option<Allocation>,
    waiting: HashMap<Name, Waiting>,
    asks: BTreeMap<(Duration, u32), u64>,
    servers: BTreeMap<SocketAddr, Server>,
    version: u64,
    sequence: u32,
    random: u64,
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
            allocation,
            waiting: HashMap::new(),
            asks: BTreeMap::new(),
            servers: BTreeMap::new(),
            version: 0,
            sequence: 0,
            random: config.seed,
            ready: VecDeque::new(),
            stats: Stats::default(),
            config,
        }
    }

    /// Counters since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Keys cached now.
    pub fn cached(&self) -> usize {
        self.by_name.len()
    }

    /// Takes what happened.
    pub fn step(&mut self, event: Event<'_>, view: &impl View, now: Duration) {
        match event {
            Event::Report(report) => match report.kind {
                ReportKind::Hot => self.hot(report, view, now),
                ReportKind::Stale => self.ask_later(report.place, now + self.config.fill_wait),
            },
            Event::Message(from, message) => self.message(from, &message, view, now),
            Event::Item { place, version, epoch, asked, item } => {
                self.item(place, version, epoch, asked, item.as_ref());
            }
            Event::Period => self.period(view, now),
            Event::Tick => self.tick(now),
        }
    }

    /// The next command to carry out.
    pub fn ready(&mut self) -> Option<Command> {
        self.ready.pop_front()
    }

    /// Whether something is waited for, so that ticks should come soon.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.asks.is_empty()
    }

    /// Asks for a key, as if it had been reported: warming up, and tests. Of a long key only what
    /// stands for it is known.
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
                let version = self.next_version(now);
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

    /// Places kept free, so that a hot key need not wait for an evicted one's to rest.
    fn reserve(&self) -> usize {
        self.config.entries as usize / 16
    }

    /// Of a few cached keys the one asked for least.
    fn coldest(&mut self, view: &impl View) -> Option<u32> {
        let places = self.cached.len() as u64;
        let mut drawn = Vec::with_capacity(self.config.compared);
        // Most places are taken when this is asked; a bound all the same.
        for _ in 0..self.config.compared * 8 {
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            let place = ((u128::from(mixed) * u128::from(places)) >> 64) as u32;
            if self.cached[place as usize].is_some() {
                drawn.push(place);
            }
            if drawn.len() == self.config.compared {
                break;
            }
        }
        drawn.into_iter().min_by_key(|place| view.count(*place))
    }

    /// Versions grow beyond whatever writes made of earlier ones, as the clock does.
    fn next_version(&mut self, now: Duration) -> u64 {
        self.version = (self.version + 1).max(now.as_nanos() as u64);
        self.version
    }

    fn fetch(&mut self, mut key: Key, is_long: bool, now: Duration) {
        let Some(lease) = self.server(key.server, now) else { return };
        key.lease = lease;
        let version = self.next_version(now);
        let flags = Flags::default().with(Flags::LONG_KEY, is_long);
        let ask = Message { version, flags, ..Message::new(Op::Fetch, 0, key.name) };
        self.ready.push_back(Command::Send(key.server, ask.bytes()));
        self.waiting.insert(key.name, Waiting { key, version, since: now });
    }

    /// The server's lease; asks for one if it is new.
    fn server(&mut self, address: SocketAddr, now: Duration) -> Option<u32> {
        if !self.servers.contains_key(&address) {
            if self.servers.len() >= LEASES_MAX {
                return None;
            }
            let lease = self.servers.len() as u32;
            let server = Server { lease, generation: 0, asked: (0, now, 0), granted: false };
            self.servers.insert(address, server);
            self.ask_lease(address, now);
        }
        self.servers.get(&address).map(|server| server.lease)
    }

    fn ask_lease(&mut self, address: SocketAddr, now: Duration) {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        let Some(server) = self.servers.get_mut(&address) else { return };
        server.asked = (sequence, now, server.generation);
        let ask =
            Message { version: server.generation, ..Message::new(Op::Lease, sequence, [0; 16]) };
        self.ready.push_back(Command::Send(address, ask.bytes()));
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

    fn leased(&mut self, from: SocketAddr, message: &Message<'_>, now: Duration) {
        let Some(server) = self.servers.get_mut(&from) else { return };
        let (sequence, asked, generation) = server.asked;
        if message.sequence != sequence {
            return;
        }
        if message.version == generation {
            server.granted = true;
            let lease = server.lease;
            self.ready.push_back(Command::Lease(lease, asked + self.config.lease));
            return;
        }
        // Another agent, or one that has not heard from us for too long: it knows of no key.
        server.generation = message.version;
        server.granted = false;
        let theirs = |cached: &Cached| {
            cached.key.server == from && cached.key.protocol == Protocol::NetCache
        };
        let places: Vec<u32> = (0..self.config.entries)
            .filter(|place| self.cached[*place as usize].as_ref().is_some_and(theirs))
            .collect();
        for place in places {
            self.evict(place);
        }
        self.waiting.retain(|_, waiting| waiting.key.server != from);
        self.ask_lease(from, now);
    }

    fn fetched(&mut self, from: SocketAddr, message: &Message<'_>, view: &impl View) {
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
        let told = Message { version, ..Message::new(op, 0, message.key) };
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

    fn admit(&mut self, key: Key, value_bytes: usize, version: u64) -> Option<u32> {
        let place = self.free.pop()?;
        let room = match &mut self.allocation {
            None => Some(Room { place, bitmap: 0 }),
            Some(allocation) => {
                let units = value_bytes.div_ceil(UNIT_BYTES).max(1) as u32;
                allocation.allocate(units)
            }
        };
        let Some(room) = room else {
            self.free.push(place);
            self.make_room(value_bytes);
            return None;
        };
        self.by_name.insert(key.name, place);
        self.cached[place as usize] = Some(Cached { key: key.clone(), room, version, invalid: 0 });
        self.ready.push_back(Command::Admit(place, key, room, version));
        Some(place)
    }

    /// Reorganises: what stands in the way leaves, and comes back elsewhere if it is still hot.
    fn make_room(&mut self, value_bytes: usize) {
        let Some(allocation) = &self.allocation else { return };
        let taken: Vec<Room> = self.cached.iter().flatten().map(|cached| cached.room).collect();
        let units = value_bytes.div_ceil(UNIT_BYTES).max(1) as u32;
        for room in allocation.reorganise(units, &taken) {
            let place =
                self.cached.iter().position(|one| one.as_ref().is_some_and(|c| c.room == room));
            if let Some(place) = place {
                self.evict(place as u32);
            }
        }
    }

    fn evict(&mut self, place: u32) {
        if let Some(cached) = self.cached[place as usize].take() {
            self.by_name.remove(&cached.key.name);
            self.resting.push((place, cached.room));
            self.stats.evicted += 1;
            self.ready.push_back(Command::Evict(place, cached.key.name));
        }
    }

    fn ask_later(&mut self, place: u32, at: Duration) {
        if let Some(Some(cached)) = self.cached.get(place as usize)
            && cached.key.protocol == Protocol::Memcache
        {
            self.asks.insert((at, place), cached.version);
        }
    }

    fn item(
        &mut self,
        place: u32,
        version: u64,
        epoch: u64,
        asked: Duration,
        item: Option<&wire::memcache::item::Item>,
    ) {
        let Some(Some(cached)) = self.cached.get(place as usize) else { return };
        let (Some(item), true) = (item, cached.key.protocol == Protocol::Memcache) else { return };
        let bytes = if crate::name::is_meta(&cached.key.name) {
            item.meta_text()
        } else {
            item.get_text(&cached.key.bytes)
        };
        // The server counts whole seconds: the last one may be almost over.
        let lives = item.lives_s.map_or(self.config.item_lives_max, |seconds| {
            Duration::from_secs(seconds.saturating_sub(1)).min(self.config.item_lives_max)
        });
        let expires_ns = (asked + lives).as_nanos() as u64;
        if bytes.len() > VALUE_BYTES_MAX || lives.is_zero() {
            return;
        }
        self.stats.inserted += 1;
        let value = Value { bytes, absent: false, expires_ns, epoch };
        self.ready.push_back(Command::Fill(place, version, value));
    }

    fn period(&mut self, view: &impl View, now: Duration) {
        for (place, room) in std::mem::take(&mut self.resting) {
            self.free.push(place);
            if let Some(allocation) = &mut self.allocation {
                allocation.release(room);
            }
        }
        let (mut gone, mut asked) = (Vec::new(), Vec::new());
        for (place, cached) in self.cached.iter_mut().enumerate() {
            let Some(cached) = cached else { continue };
            cached.invalid = if view.is_valid(place as u32) { 0 } else { cached.invalid + 1 };
            // Its write was lost, or its new value does not fit: begin anew, if it is still hot.
            match cached.invalid {
                0 => {}
                1..=PERIODS_INVALID_MAX => asked.push(place as u32),
                _ => gone.push(place as u32),
            }
        }
        // A report was lost, or everything was forgotten at once.
        for place in asked {
            self.ask_later(place, now);
        }
        for place in gone {
            self.evict(place);
        }
        self.ready.push_back(Command::ClearStatistics);
    }

    fn tick(&mut self, now: Duration) {
        let due: Vec<SocketAddr> = self
            .servers
            .iter()
            .filter(|(_, server)| {
                let every = if server.granted { self.config.lease / 5 } else { self.config.wait };
                now >= server.asked.1 + every
            })
            .map(|(address, _)| *address)
            .collect();
        for address in due {
            self.ask_lease(address, now);
        }
        let wait = self.config.wait;
        let before = self.waiting.len();
        self.waiting.retain(|_, waiting| now < waiting.since + wait);
        self.stats.unanswered += (before - self.waiting.len()) as u64;
        while let Some(((at, place), version)) = self.asks.first_key_value().map(|(k, v)| (*k, *v))
            && at <= now
        {
            self.asks.remove(&(at, place));
            if let Some(Some(cached)) = self.cached.get(place as usize)
                && cached.version == version
            {
                let (server, key) = (cached.key.server, cached.key.bytes.clone());
                self.ready.push_back(Command::Ask(place, server, key));
            }
        }
    }

    /// The key in this place is to be asked for at another time.
    pub fn postpone(&mut self, place: u32, at: Duration) {
        self.ask_later(place, at);
    }
}
