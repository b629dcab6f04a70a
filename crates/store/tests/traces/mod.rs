//! Deterministic traces and the hit ratio of a policy on them; shared by the test of the papers'
//! claims and the example `replacement_table`.

use std::time::Duration;

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use store::{Config, Memory, Refused, Replacement};

/// Number of keys of the traces; a twentieth of them fits.
const KEYS: usize = 20_000;
const ACCESSES: usize = 400_000;
/// Capacity of the cache in items for the traces of this file.
pub(crate) const ITEMS: usize = KEYS / 20;
const SEED: u64 = 42;

struct Random(SplitMix64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Zipf: key `k` has a probability proportional to `1 / (k + 1)^0.99`, as in YCSB.
pub(crate) fn zipf() -> Vec<u64> {
    let mut sums = Vec::with_capacity(KEYS);
    let mut sum = 0.0;
    for key in 0..KEYS {
        sum += ((key + 1) as f64).powf(-0.99);
        sums.push(sum);
    }
    let mut random = Random::new(SEED);
    let mut draw = || random.unit() * sum;
    std::iter::repeat_with(&mut draw)
        .map(|drawn| sums.partition_point(|&below| below < drawn) as u64)
        .take(ACCESSES)
        .collect()
}

/// As `zipf`, with a third of all accesses to keys that occur once.
pub(crate) fn one_hit_wonders() -> Vec<u64> {
    let mut random = Random::new(SEED + 1);
    let new = |(at, key)| if random.unit() < 1.0 / 3.0 { (KEYS + at) as u64 } else { key };
    zipf().into_iter().enumerate().map(new).collect()
}

/// As `zipf`, with a scan of twice as many new keys as fit after every 4,000 accesses.
pub(crate) fn scans() -> Vec<u64> {
    let mut trace = vec![];
    for (at, key) in zipf().into_iter().enumerate() {
        if at % 4_000 == 0 {
            trace.extend((0..2 * ITEMS).map(|offset| (KEYS + at + offset) as u64));
        }
        trace.push(key);
    }
    trace
}

/// Cycles through a tenth more keys than fit.
pub(crate) fn ring() -> Vec<u64> {
    (0..ACCESSES).map(|at| (at % (ITEMS + ITEMS / 10)) as u64).collect()
}

/// The fraction of accesses that hit a cache of `items`; misses are inserted.
pub(crate) fn hit_ratio(replacement: Replacement, trace: &[u64], items: usize) -> f64 {
    let config = Config { items_max: items, replacement, ..Config::default() };
    let mut memory = Memory::new(config, SEED);
    for &key in trace {
        let bytes = key.to_le_bytes();
        if memory.lookup(key, &bytes, Duration::ZERO).is_none() {
            match memory.insert(key, &bytes, &[], None, Duration::ZERO) {
                Ok(_) | Err(Refused::NotAdmitted) => {}
                Err(refused) => panic!("{refused}"),
            }
        }
    }
    memory.stats().hits as f64 / trace.len() as f64
}
