//! A simulation from one seed: writers bypass the cache, while the change stream lags, stalls,
//! disconnects, loses its history and resumes. No read returns a value that was overwritten longer
//! ago than the bound.
//!
//! `ENROUTE_SEEDS=n` runs n seeds instead of the default number; `ENROUTE_SEED=n` runs seed n
//! alone.

use std::{any::Any, panic::catch_unwind, sync::Arc, time::Duration};

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

use super::{
    canonical, principal,
    stream::{KEYS, Link, Origin},
};
use crate::{
    feed::{Config, mongo::Feed},
    filter::mongo::Settings,
    key::{Key, Namespace, Sent},
    lease::{Lease, Outcome},
    principal::Principal,
    storage::{self, Answer, Given, MemoryStorage, Question, Storage, Write},
};

const STEPS: usize = 4_000;
const BOUND: Duration = Duration::from_secs(5);
/// Maximum number of seeds until a broken feed must have been detected.
const BROKEN_SEEDS: u64 = 300;

#[test]
fn no_write_is_missed_for_longer_than_the_bound() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seeds: u64 = number("ENROUTE_SEEDS").unwrap_or(300);
    let seeds = match number("ENROUTE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..seeds,
    };
    let (mut hits, mut kept) = (0, 0);
    for seed in seeds.clone() {
        match catch_unwind(|| run(seed, BOUND)) {
            Ok(world) => {
                hits += world.0;
                kept += world.1;
            }
            Err(_) => panic!("seed {seed} fails: run it alone with ENROUTE_SEED={seed}"),
        }
    }
    let seeds = seeds.end - seeds.start;
    // Without hits, or without entries that survive a loss, the simulation proves nothing.
    assert!(hits > 50 * seeds && kept > seeds, "{hits} hits, {kept} after losses, {seeds} seeds");
}

/// A feed that assumes that a silent stream is complete.
#[test]
fn a_feed_that_trusts_silence_is_found_out() {
    let is_stale = |error: Box<dyn Any + Send>| {
        error.downcast_ref::<String>().is_some_and(|text| text.starts_with("stale"))
    };
    let is_found =
        |seed| catch_unwind(|| run(seed, Duration::from_secs(86_400))).is_err_and(is_stale);
    assert!((0..BROKEN_SEEDS).any(is_found), "no stale value was read in {BROKEN_SEEDS} seeds");
}

/// Runs the simulation of `seed`; returns the hits, and the hits on entries from before a loss.
fn run(seed: u64, silence_max: Duration) -> (u64, u64) {
    let mut world = World::new(seed, silence_max);
    for _ in 0..STEPS {
        world.step();
    }
    (world.hits, world.kept)
}

struct World {
    random: Random,
    storage: MemoryStorage,
    principal: Principal,
    namespace: Namespace,
    keys: [Vec<u8>; KEYS],
    feed: Feed,
    origin: Origin,
    link: Option<Link>,
    now: Duration,
    /// Reads in flight, and their value once the origin has answered.
    reads: Vec<(Lease, usize, Option<u32>)>,
    /// Writes through the cache in flight.
    writes: Vec<(Write, usize)>,
    /// When each key was filled, and when the feed was last lost.
    filled_at: [Duration; KEYS],
    lost_at: Duration,
    calm: usize,
    hits: u64,
    kept: u64,
}

impl World {
    fn new(seed: u64, silence_max: Duration) -> Self {
        let mut random = Random(SplitMix64::seed_from_u64(seed));
        let calm = [2, 20, 200][random.below(3)];
        let settings = Arc::new(Settings::default());
        let config = storage::Config::default();
        let mut storage = MemoryStorage::new(config, seed);
        let config = Config { silence_max, ..Config::default() };
        let feed = Feed::new(Arc::clone(&settings), config, &mut storage);
        let now = super::START;
        Self {
            random,
            storage,
            principal: principal(),
            namespace: Namespace::new(settings.secret, &settings.origin, b"shop", b"users"),
            keys: std::array::from_fn(|key| canonical(key as i32)),
            feed,
            origin: Origin::new(),
            link: None,
            now,
            reads: Vec::new(),
            writes: Vec::new(),
            filled_at: [now; KEYS],
            lost_at: now,
            calm,
            hits: 0,
            kept: 0,
        }
    }

    fn step(&mut self) {
        let key = self.random.below(KEYS);
        match self.random.below(100) {
            0..20 => self.read(key),
            20..35 => self.answer_read(),
            35..50 => self.end_read(),
            50 => self.origin.write(key, self.now),
            51 => self.write(key),
            52..56 => self.end_write(),
            56..62 => {
                let writes = self.random.below(self.origin.lag() + 1);
                self.origin.replicate(writes);
            }
            62..90 => (0..self.random.below(12)).for_each(|_| self.talk()),
            90..97 => self.pass_time(),
            _ if !self.random.one_in(self.calm) => {}
            97 => self.lose(),
            98 => self.origin.forget(),
            _ => {
                // The origin watch (`watch.rs`) drops all entries in this case.
                self.origin.restart();
                self.lose();
                self.storage.written_elsewhere(self.namespace.whole_origin());
            }
        }
    }

    fn read(&mut self, key: usize) {
        let question = Question {
            key: Key::new(self.namespace, &self.keys[key]),
            variant: b"",
            principal: Some(&self.principal),
        };
        let mut found = None;
        let answer = self.storage.read(question, None, self.now, |answer| {
            found = Some(u32::from_le_bytes(answer.try_into().expect("four bytes")));
        });
        match (answer, found) {
            (Answer::Hit, Some(value)) => {
                self.hits += 1;
                self.kept += u64::from(self.filled_at[key] < self.lost_at);
                let ended = self.origin.ended(key, value);
                assert!(
                    ended.is_none_or(|ended| ended + BOUND > self.now),
                    "stale: key {key} was {value} until {ended:?}, and still is at {:?}",
                    self.now
                );
            }
            (Answer::Miss(Ok(grant)), _) => self.reads.push((grant.lease, key, None)),
            _ => {}
        }
    }

    /// The origin executes a read; its reply is in flight.
    fn answer_read(&mut self) {
        let count = self.reads.len();
        if count > 0 {
            let (_, key, value) = &mut self.reads[self.random.below(count)];
            value.get_or_insert(self.origin.value(*key));
        }
    }

    fn end_read(&mut self) {
        let Some(at) = self.reads.iter().position(|(_, _, value)| value.is_some()) else { return };
        let (lease, key, value) = self.reads.swap_remove(at);
        let given = Given {
            key: Key::new(self.namespace, &self.keys[key]),
            variant: b"",
            principal: &self.principal,
            answer: &value.expect("answered").to_le_bytes(),
            asked_at: self.now,
            expires_at: None,
        };
        if self.storage.fill(lease, given, self.now).is_ok() {
            self.filled_at[key] = self.now;
        }
    }

    fn write(&mut self, key: usize) {
        let scope = Sent::Key {
            namespace: self.namespace,
            hash: Key::new(self.namespace, &self.keys[key]).hash,
        };
        let write = self.storage.write_sent(scope);
        self.origin.write(key, self.now);
        self.writes.push((write, key));
    }

    fn end_write(&mut self) {
        if let Some((write, _)) = self.writes.pop() {
            self.storage.write_settled(write, Outcome::Applied);
        }
    }

    /// Bytes move one hop between the feed and the origin, or the origin does something.
    fn talk(&mut self) {
        let Some(link) = &mut self.link else {
            if self.random.one_in(4) {
                self.link = Some(Link::default());
                self.feed.connected(1, self.now);
            }
            return;
        };
        match self.random.below(3) {
            0 => {
                let output = self.feed.output();
                let count = length(output.len(), &mut self.random);
                link.input.extend_from_slice(&output.bytes()[..count]);
                output.advance(count);
            }
            1 => self.origin.serve(link, self.now),
            _ => {
                let count = length(link.output.len(), &mut self.random);
                let piece: Vec<u8> = link.output.drain(..count).collect();
                let received = (count > 0)
                    .then(|| self.feed.receive(&piece, &mut self.storage, self.now).is_err());
                if received == Some(true) {
                    self.lose();
                }
            }
        }
    }

    fn pass_time(&mut self) {
        let scale = [5, 50, 500, 2_000][self.random.below(4)];
        self.now += Duration::from_millis(self.random.below(scale) as u64);
        let due = self.link.is_some() && self.now >= self.feed.poll_timeout();
        if due && self.feed.handle_timeout(&mut self.storage, self.now).is_err() {
            self.lose();
        }
    }

    fn lose(&mut self) {
        if self.link.take().is_some() {
            self.feed.lost(&mut self.storage);
            self.lost_at = self.now;
        }
    }
}

/// The whole length in half of the cases, a random shorter one otherwise.
fn length(all: usize, random: &mut Random) -> usize {
    if random.one_in(2) { all } else { random.below(all + 1) }
}

/// Randomness from one seed.
struct Random(SplitMix64);

impl Random {
    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}
