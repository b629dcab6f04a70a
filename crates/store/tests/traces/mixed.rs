//! Traces whose hit ratio is a step over the size of the cache, others that change, and what an LRU
//! cache of any size would answer.

use std::collections::{BTreeMap, HashMap};

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

const ACCESSES: usize = 300_000;
/// Number of keys of the circles.
pub(crate) const CIRCLE: usize = 4_000;
/// Keys from here on are in no circle.
const OTHERS: u64 = 1 << 32;

fn unit(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Zipf over `keys`: key `k` has a probability proportional to `1 / (k + 1)^skew`.
pub(crate) fn zipf(keys: usize, skew: f64) -> Vec<u64> {
    let sums: Vec<f64> = (0..keys)
        .scan(0.0, |sum, key| {
            *sum += ((key + 1) as f64).powf(-skew);
            Some(*sum)
        })
        .collect();
    let mut random = SplitMix64::seed_from_u64(42);
    let mut draw = || unit(&mut random) * sums[keys - 1];
    let key = |drawn| OTHERS + sums.partition_point(|&below| below < drawn) as u64;
    std::iter::repeat_with(&mut draw).map(key).take(ACCESSES).collect()
}

/// Keys of equal probability.
pub(crate) fn uniform() -> Vec<u64> {
    let mut random = SplitMix64::seed_from_u64(5);
    (0..ACCESSES).map(|_| random.next_u64() % CIRCLE as u64).collect()
}

/// One circle after the other, each of other keys.
pub(crate) fn circles(accesses_each: usize) -> Vec<u64> {
    (0..ACCESSES).map(|at| (at / accesses_each * 100_000 + at % CIRCLE) as u64).collect()
}

/// Every second access, by chance, of `others`, and the rest in a circle.
pub(crate) fn beside_a_circle(others: &[u64]) -> Vec<u64> {
    let mut random = SplitMix64::seed_from_u64(6);
    let mut turns = (0..CIRCLE as u64).cycle();
    let mut next = |other| if random.next_u64() % 2 == 0 { other } else { turns.next() };
    others.iter().filter_map(|&other| next(Some(other))).collect()
}

/// Zipf over few keys, with a scan of the same 6,000 others after every 2,000 accesses.
pub(crate) fn scans() -> Vec<u64> {
    let scan = || 0..6_000;
    zipf(2_000, 0.99).chunks(2_000).flat_map(|part| part.iter().copied().chain(scan())).collect()
}

/// Each key five times within some 600 accesses, and never again.
pub(crate) fn bursts() -> Vec<u64> {
    let mut random = SplitMix64::seed_from_u64(9);
    let (mut due, mut next) = (BTreeMap::new(), OTHERS);
    let mut trace = Vec::new();
    for now in 0..ACCESSES as u64 {
        if due.first_key_value().is_some_and(|(&(at, _), ())| at <= now) {
            let ((_, key), ()) = due.pop_first().expect("not empty");
            trace.push(key);
            continue;
        }
        next += 1;
        trace.push(next);
        due.extend((0..4).map(|_| ((now + 1 + random.next_u64() % 300, next), ())));
    }
    trace
}

/// Zipf over keys that are all replaced after `accesses_each`.
pub(crate) fn shifting(accesses_each: usize) -> Vec<u64> {
    let shift = |(at, key)| key + (at / accesses_each * 1_000_000) as u64;
    zipf(20_000, 0.99).into_iter().enumerate().map(shift).collect()
}

/// A set of keys that moves on steadily.
pub(crate) fn drifting() -> Vec<u64> {
    let mut random = SplitMix64::seed_from_u64(3);
    let mut back = || unit(&mut random) * unit(&mut random) * 3_000.0;
    (0..ACCESSES).map(|at| (at as f64 / 20.0 + back()) as u64).collect()
}

/// The convex hull of the hit ratio of LRU over sizes, in the part of a trace from `from` on: its
/// corners (Mattson's stack distances).
pub(crate) fn lru_hull(trace: &[u64], from: usize) -> Vec<(f64, f64)> {
    let mut sums = vec![0_i64; trace.len() + 1];
    let add = |sums: &mut [i64], at: usize, more: i64| {
        let mut at = at + 1;
        while at < sums.len() {
            sums[at] += more;
            at += at & at.wrapping_neg();
        }
    };
    let sum = |sums: &[i64], end: usize| {
        let (mut at, mut sum) = (end, 0);
        while at > 0 {
            sum += sums[at];
            at &= at - 1;
        }
        sum
    };
    let (mut last, mut counts) = (HashMap::new(), BTreeMap::new());
    for (at, key) in trace.iter().enumerate() {
        if let Some(before) = last.insert(key, at) {
            if at >= from {
                *counts.entry(sum(&sums, at) - sum(&sums, before)).or_insert(0) += 1;
            }
            add(&mut sums, before, -1);
        }
        add(&mut sums, at, 1);
    }
    let slope = |a: (f64, f64), b: (f64, f64)| (b.1 - a.1) / (b.0 - a.0);
    let (mut corners, mut hits) = (vec![(0.0, 0.0)], 0);
    for (distance, count) in counts {
        hits += count;
        let point = (distance as f64, f64::from(hits) / (trace.len() - from) as f64);
        while let [.., before, end] = corners[..]
            && slope(before, point) >= slope(before, end)
        {
            corners.pop();
        }
        corners.push(point);
    }
    corners
}

/// The height of a hull at a size.
pub(crate) fn height(corners: &[(f64, f64)], size: usize) -> f64 {
    let size = size as f64;
    let at = |pair: &&[(f64, f64)]| size <= pair[1].0;
    let Some([(x, y), (end, high)]) = corners.windows(2).find(at).map(|pair| [pair[0], pair[1]])
    else {
        return corners[corners.len() - 1].1;
    };
    y + (size - x) * (high - y) / (end - x)
}
