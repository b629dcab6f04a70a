//! The memory tier compared with an ordered map, under random operations from a printed seed.

use std::collections::BTreeMap;
use std::time::Duration;

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use store::{Config, Memory, Replacement};

struct Random(SplitMix64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }
}

#[derive(Clone)]
struct Held {
    value: Vec<u8>,
    expires_at: Option<Duration>,
}

struct Trial {
    random: Random,
    memory: Memory,
    /// The last value stored under each key that was not removed; evicted ones remain here.
    model: BTreeMap<u64, Held>,
    now: Duration,
    keys: u64,
    value_bytes: u64,
    label: String,
}

impl Trial {
    fn new(seed: u64, replacement: Replacement) -> Self {
        let mut random = Random(SplitMix64::seed_from_u64(seed));
        let items_max = [0, 1, 10, 200, usize::MAX][random.below(5) as usize];
        let bytes_max = [1 << 14, 60_000, 1 << 20, 5 << 20][random.below(4) as usize];
        let config = Config { items_max, bytes_max, replacement, ..Config::default() };
        let label = format!("seed {seed}, {config:?}");
        Self {
            memory: Memory::new(config, seed),
            keys: [20, 500, 20_000][random.below(3) as usize],
            value_bytes: [10, 300, 5_000, 120_000][random.below(4) as usize],
            model: BTreeMap::new(),
            now: Duration::ZERO,
            random,
            label,
        }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            let key = self.random.below(self.keys);
            match self.random.below(100) {
                0..45 => self.insert(key),
                45..88 => self.lookup(key),
                88..95 => self.remove(key),
                95..97 => self.now += Duration::from_millis(self.random.below(300)),
                97..99 => {
                    self.memory.step(self.random.below(50) as usize, self.now);
                    self.memory.next_full().into_iter().for_each(store::Collapse::run);
                }
                _ => self.change(),
            }
            self.check();
        }
        while self.memory.step(64, self.now) {}
        self.check();
    }

    /// The key number determines its length; some need a long header.
    fn name(key: u64) -> Vec<u8> {
        let mut name = key.to_le_bytes().to_vec();
        name.resize(8 + (key % 7) as usize + if key.is_multiple_of(50) { 300 } else { 0 }, 0xab);
        name
    }

    fn insert(&mut self, key: u64) {
        let value_bytes = self.random.below(self.value_bytes + 1) as usize;
        let value = vec![self.random.below(256) as u8; value_bytes];
        let lifetime = self.random.below(400);
        let expires_at = (lifetime < 100).then(|| self.now + Duration::from_millis(lifetime));
        match self.memory.insert(key % 1000, &Self::name(key), &value, expires_at, self.now) {
            Ok(_) => self.model.insert(key, Held { value, expires_at }),
            Err(_) => {
                assert_eq!(self.memory.peek(key % 1000, &Self::name(key), self.now), None);
                self.model.remove(&key)
            }
        };
    }

    fn lookup(&mut self, key: u64) {
        let peeked = self
            .memory
            .peek(key % 1000, &Self::name(key), self.now)
            .map(|peek| peek.value.to_vec());
        let found = self.memory.lookup(key % 1000, &Self::name(key), self.now);
        assert_eq!(found, peeked.as_deref(), "{}", self.label);
        let Some(found) = found else { return };
        let held =
            self.model.get(&key).unwrap_or_else(|| panic!("{} was removed: {}", key, self.label));
        assert!(held.value == found, "{}", self.label);
        assert!(held.expires_at.is_none_or(|at| at > self.now), "{}", self.label);
    }

    fn remove(&mut self, key: u64) {
        let was_there = self.memory.remove(key % 1000, &Self::name(key));
        assert!(self.model.remove(&key).is_some() || !was_there, "{}", self.label);
    }

    fn change(&mut self) {
        match self.random.below(12) {
            0 => {
                self.memory.clear();
                self.model.clear();
            }
            1..4 => self.value_bytes = [10, 300, 5_000, 120_000][self.random.below(4) as usize],
            4..8 => {
                let items_max = [1, 10, 1_000, usize::MAX][self.random.below(4) as usize];
                let bytes_max = [1 << 15, 1 << 18, 3 << 20, 8 << 20][self.random.below(4) as usize];
                self.memory.resize(items_max, bytes_max);
                while self.memory.step(self.random.below(64) as usize + 1, self.now) {}
            }
            _ => {}
        }
    }

    fn check(&self) {
        let (stats, config) = (self.memory.stats(), self.memory.config());
        assert!(stats.items <= config.items_max, "{stats:?} {}", self.label);
        assert!(stats.accounted_bytes <= config.bytes_max, "{stats:?} {}", self.label);
        assert!(stats.live_bytes <= stats.accounted_bytes, "{stats:?} {}", self.label);
        let left = stats.evictions + stats.expirations + stats.removals;
        assert_eq!(stats.items as u64 + left, stats.inserts, "{stats:?} {}", self.label);
    }
}

#[test]
fn everything_held_is_what_was_stored() {
    let base = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = base.map_or(0..12u64, |seed: u64| seed..seed + 1);
    for seed in seeds {
        for replacement in Replacement::ALL {
            Trial::new(seed, replacement).run(6_000);
        }
    }
}
