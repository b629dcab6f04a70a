//! The elastic store compared with an ordered map, from one seed, on a simulated device.

mod asking;
mod refusing;
mod restarting;

use std::collections::BTreeMap;
use std::time::Duration;

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
pub use refusing::Refusal;
use store::device::DeviceCommand;
use store::elastic::{Config, Elastic, Error, Load, Position, Sync, Ticket};
use store::{Faults, SimulatedDevice};

/// Random numbers from one seed.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// Pairs of keys with the same forty bits of hash under the hash key `[1, 2]`, found by search.
const COLLIDING: [u32; 12] = [
    3_486_490, 4_570_898, 2_991_711, 3_451_334, 3_580_122, 4_777_999, 789_896, 2_096_477,
    3_324_427, 4_986_933, 1_736_257, 4_635_978,
];

pub fn key(number: u64) -> Vec<u8> {
    let name = COLLIDING.get(number as usize).map_or(number, |name| u64::from(*name));
    format!("key {name}").into_bytes()
}

pub type Entry = (Vec<u8>, Option<Duration>);
pub type Map = BTreeMap<Vec<u8>, Entry>;

/// Maximum length of values in most runs.
const VALUE_BYTES_MAX: u64 = 6000;

/// A recorded write: its effect, and the position at which it is durable.
#[derive(Clone, Debug)]
enum Done {
    Put(Vec<u8>, Entry),
    Remove(Vec<u8>),
    Clear,
    Step(Vec<Done>),
}

fn apply(map: &mut Map, done: &Done) {
    match done {
        Done::Put(key, entry) => drop(map.insert(key.clone(), entry.clone())),
        Done::Remove(key) => drop(map.remove(key)),
        Done::Clear => map.clear(),
        Done::Step(step) => step.iter().for_each(|done| apply(map, done)),
    }
}

pub fn visible(map: &Map, now: Duration) -> Map {
    let over = |at: &Option<Duration>| at.is_some_and(|at| at <= now);
    map.iter().filter(|(_, (_, at))| !over(at)).map(|(k, e)| (k.clone(), e.clone())).collect()
}

/// A command that waits for its keys.
struct Waiting {
    key: Vec<u8>,
    writes: bool,
    tickets: Vec<Ticket>,
    ready: usize,
}

pub struct Run {
    pub store: Elastic,
    pub device: SimulatedDevice,
    pub random: Random,
    pub now: Duration,
    pub keys: u64,
    pub value_bytes_max: u64,
    /// Clears the store occasionally.
    pub clears: bool,
    /// Changes several keys in one step occasionally.
    pub steps: bool,
    /// Range above the minimum within which the memory budget changes.
    pub rescale_bytes: u64,
    /// The clock is stopped.
    pub frozen: bool,
    pub refusal: Option<Refusal>,
    in_flight: Vec<DeviceCommand>,
    waiting: Vec<Waiting>,
    /// The durable state; later changes are in `since`.
    safe: Map,
    since: Vec<(Position, Done)>,
    /// The expected content of the store.
    pub map: Map,
    writes: u64,
    written: BTreeMap<Vec<u8>, Vec<Entry>>,
    pub refused_full: u64,
    pub failed_loads: u64,
    /// Number of entries whose key scans could not read.
    pub passed_over: u64,
    /// Number of commands after which upkeep could continue.
    pub went_on: u64,
}

pub fn config(random: &mut Random) -> Config {
    Config {
        memory_bytes: Elastic::MEMORY_BYTES_MIN + random.below(1 << 20) as usize,
        sync: [Sync::Always, Sync::EverySecond, Sync::Never][random.below(3) as usize],
        segment_bytes: (64 << 10) << random.below(4),
        hash_key: [1, 2],
        ..Config::default()
    }
}

impl Run {
    pub fn new(seed: u64, faults: Faults) -> Option<Self> {
        Self::with(seed, faults, |_| {})
    }

    pub fn with(seed: u64, faults: Faults, change: impl FnOnce(&mut Config)) -> Option<Self> {
        let mut random = Random::new(seed);
        let device = SimulatedDevice::new(random.draw(), faults);
        let now = Duration::from_secs(1_700_000_000);
        let mut config = config(&mut random);
        change(&mut config);
        let store = Elastic::open(config, &device, now).ok()?;
        let keys = 1 + random.below(200);
        Some(Self {
            store,
            device,
            keys,
            value_bytes_max: if random.one_in(6) {
                40_000
            } else {
                1 + random.below(VALUE_BYTES_MAX)
            },
            random,
            now,
            clears: true,
            steps: false,
            rescale_bytes: 4 << 20,
            frozen: false,
            refusal: None,
            in_flight: Vec::new(),
            waiting: Vec::new(),
            safe: Map::new(),
            since: Vec::new(),
            map: Map::new(),
            writes: 0,
            written: BTreeMap::new(),
            refused_full: 0,
            failed_loads: 0,
            passed_over: 0,
            went_on: 0,
        })
    }

    /// Executes `steps` random steps; stops when the device stops.
    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            if self.device.has_crashed() {
                return;
            }
            match self.random.below(100) {
                0..40 => self.begin(),
                40..50 => drop(self.store.step(self.now)),
                50..51 => self.now += Duration::from_millis(self.random.below(3000)),
                51..52 => {
                    let more = self.random.below(self.rescale_bytes) as usize;
                    self.store.rescale(Elastic::MEMORY_BYTES_MIN + more);
                }
                _ => self.device_once(),
            }
            self.resume();
            self.note_durable();
        }
    }

    /// Executes one of the possible operations of the device.
    fn device_once(&mut self) {
        while self.in_flight.len() < 8 {
            let Some(command) = self.store.poll_device(self.now) else { break };
            self.in_flight.push(command);
        }
        if self.in_flight.is_empty() {
            if !self.frozen {
                self.now += Duration::from_millis(60);
            }
            return;
        }
        let at = self.random.below(self.in_flight.len() as u64) as usize;
        let command = self.in_flight.swap_remove(at);
        let completion = self.carry_out(&command);
        if !self.device.has_crashed() {
            self.went_on += u64::from(self.store.complete(completion, self.now));
        }
    }

    fn begin(&mut self) {
        if self.clears && self.random.one_in(700) {
            return self.clear();
        }
        if self.steps && self.random.one_in(8) && self.store.accepts_writes().is_ok() {
            return self.take_step();
        }
        let key = key(self.random.below(self.keys));
        let writes = self.random.one_in(2);
        self.waiting.push(Waiting { key, writes, tickets: Vec::new(), ready: 0 });
        self.attempt(self.waiting.len() - 1);
    }

    fn clear(&mut self) {
        if let Ok(position) = self.store.clear(self.now) {
            self.record(position, Done::Clear);
        }
    }

    /// Changes those of a few keys that need not wait in one step, occasionally together with
    /// clearing the store; any segment has room for that.
    fn take_step(&mut self) {
        let count = 2 + self.random.below(4);
        let keys: Vec<_> = (0..count).map(|_| key(self.random.below(self.keys))).collect();
        let since = self.since.len();
        // Each may have expired, and is then written too.
        let bytes = keys.len() * (VALUE_BYTES_MAX as usize + 20);
        if self.store.reserve_step(2 * keys.len(), bytes, self.clears, false).is_err() {
            return;
        }
        self.store.begin_step();
        let value_bytes_max = self.value_bytes_max;
        self.value_bytes_max = value_bytes_max.min(VALUE_BYTES_MAX);
        for key in keys {
            if self.clears && self.random.one_in(200) {
                self.clear();
            }
            match self.store.load(&key, self.now) {
                Load::Present | Load::Absent => self.change(&key),
                Load::Pending(ticket) => self.store.release(ticket),
                Load::Failed(_) => self.failed_loads += 1,
            }
        }
        self.store.end_step();
        self.value_bytes_max = value_bytes_max;
        let step = self.since.split_off(since);
        if let Some((position, _)) = step.last() {
            let done = step.iter().map(|(_, done)| done.clone()).collect();
            self.since.push((*position, Done::Step(done)));
        }
    }

    fn attempt(&mut self, at: usize) {
        let Waiting { key, writes, .. } = &self.waiting[at];
        let (key, writes) = (key.clone(), *writes);
        let load = if writes {
            self.store.load(&key, self.now)
        } else {
            self.store.load_to_read(&key, self.now)
        };
        let load = match load {
            Load::Pending(ticket) => return self.waiting[at].tickets.push(ticket),
            load => load,
        };
        let command = self.waiting.swap_remove(at);
        self.check(&key, &load);
        if writes && !matches!(load, Load::Failed(_)) {
            self.change(&key);
        }
        for ticket in command.tickets {
            self.store.release(ticket);
        }
    }

    fn check(&mut self, key: &[u8], load: &Load) {
        let now = self.now;
        let expected = self.map.get(key).filter(|(_, at)| at.is_none_or(|at| at > now));
        match load {
            Load::Present => {
                let read = self.store.read(key, now).expect("a present entry is read");
                let read = (read.value.to_vec(), read.expires_at);
                assert!(Some(&read) == expected, "{}", self.differs(key, Some(&read)));
            }
            Load::Absent => assert!(expected.is_none(), "{}", self.differs(key, None)),
            Load::Failed(_) => self.failed_loads += 1,
            Load::Pending(_) => unreachable!(),
        }
    }

    fn differs(&self, key: &[u8], held: Option<&Entry>) -> String {
        let short = |entry: Option<&Entry>| entry.map(|(value, at)| (value[0], value.len(), *at));
        let expected = short(self.map.get(key));
        let key = String::from_utf8_lossy(key);
        format!("{key} at {:?}: held {:?}, expected {expected:?}", self.now, short(held))
    }

    fn change(&mut self, key: &[u8]) {
        if self.random.one_in(5) {
            if let Ok(Some(position)) = self.store.remove(key, self.now) {
                self.record(position, Done::Remove(key.to_vec()));
            }
            return;
        }
        self.writes += 1;
        let bytes = self.random.below(self.value_bytes_max) as usize;
        let mut value = self.writes.to_le_bytes().to_vec();
        value.resize(bytes.max(8), self.writes as u8);
        let expires_at = self
            .random
            .one_in(8)
            .then(|| self.now + Duration::from_millis(1 + self.random.below(20_000)));
        match self.store.write(key, &value, expires_at, self.now) {
            Ok(written) => {
                self.record(written.position, Done::Put(key.to_vec(), (value.clone(), expires_at)));
                let read = self.store.read(key, self.now).expect("written, so there");
                assert_eq!((read.value, read.expires_at), (&value[..], expires_at));
                assert_eq!(read.version, written.version);
            }
            Err(Error::Full { .. }) => self.refused_full += 1,
            Err(Error::Busy { .. } | Error::WriteFailed { .. } | Error::Closed) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn record(&mut self, position: Position, done: Done) {
        apply(&mut self.map, &done);
        if let Done::Put(key, entry) = &done {
            self.written.entry(key.clone()).or_default().push(entry.clone());
        }
        self.since.push((position, done));
    }

    fn resume(&mut self) {
        while let Some(ticket) = self.store.poll_loaded() {
            let find = |waiting: &Waiting| waiting.tickets.contains(&ticket);
            let Some(at) = self.waiting.iter().position(find) else { continue };
            self.waiting[at].ready += 1;
            if self.waiting[at].ready == self.waiting[at].tickets.len() {
                self.attempt(at);
            }
        }
    }

    fn note_durable(&mut self) {
        let durable = self.store.durable_up_to();
        let count = self.since.partition_point(|(position, _)| *position <= durable);
        for (_, done) in self.since.drain(..count) {
            apply(&mut self.safe, &done);
        }
    }

    /// Completes all device operations, so that no request waits.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.device.has_crashed() {
                return;
            }
            let more = self.store.step(self.now);
            self.device_once();
            self.resume();
            self.note_durable();
            if self.in_flight.is_empty() && self.waiting.is_empty() && !more {
                return;
            }
        }
        panic!("the device does not become idle");
    }
}
