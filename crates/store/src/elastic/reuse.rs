//! Sampled miss-ratio curve: the effect of more or less memory (SHARDS, Waldspurger et al., FAST
//! 2015).
//!
//! A lookup hits in an LRU memory of `m` bytes if at most `m` bytes of other entries were looked up
//! since its key was last. These distances are measured for a sample of keys and scaled up. Keys
//! are selected by their hash, so that every lookup of a selected key counts. At most
//! [`SAMPLES_MAX`] keys are kept: if there are more, fewer hashes are selected. One lookup in
//! sixteen to one in thousands has this cost; the others cost one comparison.
//!
//! Decision: `docs/decisions/0014-memory-autoscaling.md`.

use std::time::Duration;

use hashbrown::HashMap;

use super::advice::{Advice, Point};
use super::since::Since;

/// Maximum number of sampled keys, if the owner states none.
const SAMPLES_MAX: usize = 8192;
/// A hash is selected if its lower bits, modulo this number, are below a threshold.
const MODULUS: u64 = 1 << 24;
/// Initially one in sixteen, if the owner states nothing: with few keys this is accurate enough,
/// and cheap.
const SELECTED_ONE_IN: u64 = 16;
/// Buckets of the histogram for every doubling of the distance.
const BUCKETS_PER_DOUBLING: u32 = 8;
const BUCKETS: usize = 48 * BUCKETS_PER_DOUBLING as usize;
/// Number of sampled lookups after which older ones count half, and the time after which they do.
/// With the number alone, an earlier load would be remembered for hours when the load falls.
const HALF_LIFE: f64 = 200_000.0;
const HALF_LIFE_TIME: Duration = Duration::from_secs(60);
/// Number of sampled lookups that are always remembered, regardless of age: fewer are not
/// significant.
const REMEMBERED_MIN: f64 = 4_000.0;
/// Slots of time per sample; renumbered when used up. Few samples have few slots, so that the
/// memory read for each sample is close together.
const SLOTS_PER_SAMPLE: usize = 4;
const SLOTS_MIN: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct Sample {
    slot: usize,
    bytes: u64,
}

/// Sampled keys and their reuse distances.
#[derive(Debug)]
pub struct Reuse {
    samples_max: usize,
    threshold_max: u64,
    threshold: u64,
    samples: HashMap<u64, Sample>,
    /// Sums of bytes by slot of last use (a Fenwick tree).
    sums: Vec<u64>,
    next_slot: usize,
    /// Number of slots in use.
    slots: usize,
    histogram: Vec<f64>,
    /// Sampled lookups of keys not seen before.
    first: f64,
    sampled: f64,
    /// All lookups, sampled or not.
    lookups: f64,
    /// Time of the last aging.
    aged: Since,
}

impl Default for Reuse {
    fn default() -> Self {
        Self::new(SAMPLES_MAX, SELECTED_ONE_IN)
    }
}

impl Reuse {
    /// No lookups yet; up to `samples_max` keys are sampled, of one hash in `one_in` at most.
    #[must_use]
    pub fn new(samples_max: usize, one_in: u64) -> Self {
        let threshold_max = (MODULUS / one_in.max(1)).max(1);
        Self {
            samples_max,
            threshold_max,
            threshold: threshold_max,
            samples: HashMap::new(),
            sums: vec![0; SLOTS_PER_SAMPLE * samples_max + 1],
            next_slot: 0,
            slots: SLOTS_MIN,
            histogram: vec![0.0; BUCKETS],
            first: 0.0,
            sampled: 0.0,
            lookups: 0.0,
            aged: Since::default(),
        }
    }

    /// Reduces the weight of old lookups.
    pub fn age(&mut self, now: Duration) {
        if !self.aged.is_over(HALF_LIFE_TIME / 8, now) {
            return;
        }
        let time = self.aged.elapsed(now);
        self.aged = Since::new(now);
        let halvings = time.as_secs_f64() / HALF_LIFE_TIME.as_secs_f64();
        let factor = (-halvings.min(1.0)).exp2();
        if self.sampled * factor >= REMEMBERED_MIN {
            self.scale(factor);
        }
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        (self.sums.len() + BUCKETS) * 8 + self.samples.capacity() * 34
    }

    /// Notes a lookup of an entry that takes `bytes` in memory.
    #[inline]
    pub(super) fn note(&mut self, hash: u64, bytes: usize) {
        self.lookups += 1.0;
        if Self::selects(self.threshold, hash) {
            self.follow(hash, bytes as u64);
        }
    }

    /// Whether a lookup of a key with this hash is to be followed, at a [`Self::threshold`].
    #[inline]
    #[must_use]
    pub fn selects(threshold: u64, hash: u64) -> bool {
        hash % MODULUS < threshold
    }

    /// What selects hashes now.
    #[must_use]
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The part of all hashes that is selected.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.threshold as f64 / MODULUS as f64
    }

    /// Counts lookups, those that were followed included.
    pub fn count(&mut self, lookups: u64) {
        self.lookups += lookups as f64;
    }

    /// Follows a lookup, of a selected key, of an entry that takes `bytes` in memory.
    pub fn follow(&mut self, hash: u64, bytes: u64) {
        self.sampled += 1.0;
        if self.next_slot == self.slots {
            self.renumber();
        }
        let slot = self.next_slot;
        self.next_slot += 1;
        match self.samples.insert(hash, Sample { slot, bytes }) {
            Some(before) => {
                let between = self.sum(slot) - self.sum(before.slot + 1);
                let distance = (between + bytes) as f64 * MODULUS as f64 / self.threshold as f64;
                self.histogram[bucket(distance)] += 1.0;
                self.add(before.slot, before.bytes.wrapping_neg());
            }
            None => self.first += 1.0,
        }
        self.add(slot, bytes);
        if self.samples.len() > self.samples_max {
            self.choose_fewer();
        }
        if self.sampled > HALF_LIFE {
            self.halve();
        }
    }

    /// Bytes last used in slots before `end`.
    fn sum(&self, end: usize) -> u64 {
        let (mut at, mut sum) = (end, 0u64);
        while at > 0 {
            sum = sum.wrapping_add(self.sums[at]);
            at &= at - 1;
        }
        sum
    }

    fn add(&mut self, slot: usize, bytes: u64) {
        let mut at = slot + 1;
        while at <= self.slots {
            self.sums[at] = self.sums[at].wrapping_add(bytes);
            at += at & at.wrapping_neg();
        }
    }

    fn renumber(&mut self) {
        let mut order: Vec<(usize, u64, u64)> =
            self.samples.iter().map(|(hash, sample)| (sample.slot, *hash, sample.bytes)).collect();
        order.sort_unstable();
        self.sums[..=self.slots].fill(0);
        self.slots = (SLOTS_PER_SAMPLE * order.len()).clamp(SLOTS_MIN, self.sums.len() - 1);
        for (slot, &(_, hash, bytes)) in order.iter().enumerate() {
            self.samples.insert(hash, Sample { slot, bytes });
            self.add(slot, bytes);
        }
        self.next_slot = order.len();
    }

    /// Selects twice as many hashes, at most those of the beginning: too few keys are followed.
    pub fn choose_more(&mut self) {
        let threshold = (2 * self.threshold).min(self.threshold_max);
        let share = threshold as f64 / self.threshold as f64;
        self.threshold = threshold;
        let lookups = self.lookups;
        self.scale(share);
        self.lookups = lookups;
    }

    /// Drops the eighth of the keys with the highest hashes.
    pub fn choose_fewer(&mut self) {
        let threshold = self.threshold - self.threshold / 8;
        let share = threshold as f64 / self.threshold as f64;
        self.threshold = threshold;
        let gone: Vec<(u64, Sample)> =
            self.samples.extract_if(|hash, _| hash % MODULUS >= threshold).collect();
        for (_, sample) in gone {
            self.add(sample.slot, sample.bytes.wrapping_neg());
        }
        // Counts made at the higher sampling rate are scaled to this one.
        self.scale(share);
        self.lookups /= share;
    }

    fn halve(&mut self) {
        self.scale(0.5);
    }

    fn scale(&mut self, factor: f64) {
        self.histogram.iter_mut().for_each(|count| *count *= factor);
        self.first *= factor;
        self.sampled *= factor;
        self.lookups *= factor;
    }

    /// The curve; `fixed_bytes` are needed regardless of what is kept.
    #[must_use]
    pub fn advice(&self, fixed_bytes: usize) -> Advice {
        // Hot keys are in the sample by chance. The expected number of sampled lookups shows how
        // many are missing; these had short distances (the paper's adjustment). Lookups in excess
        // may have any distance, so they are left.
        let expected = self.lookups * self.share();
        let near = (expected - self.sampled).max(0.0);
        let total = (self.sampled + near).max(1.0);
        let mut points = Vec::new();
        let mut hits = near;
        for (index, count) in self.histogram.iter().enumerate() {
            hits += count;
            if *count > 0.0 {
                let memory_bytes = fixed_bytes + bucket_bytes(index) as usize;
                points.push(Point { memory_bytes, hit_ratio: (hits / total).clamp(0.0, 1.0) });
            }
        }
        Advice { fixed_bytes, points, lookups_sampled: self.sampled as u64 }
    }
}

/// The bucket of a distance.
pub(super) fn bucket(distance: f64) -> usize {
    let bucket = (distance.max(1.0).log2() * f64::from(BUCKETS_PER_DOUBLING)).ceil();
    (bucket as usize).min(BUCKETS - 1)
}

/// The largest distance of a bucket.
pub(super) fn bucket_bytes(bucket: usize) -> f64 {
    (bucket as f64 / f64::from(BUCKETS_PER_DOUBLING)).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 27
    }

    fn hash(key: u64) -> u64 {
        draw(&mut key.wrapping_mul(0x94d0_49bb_1331_11eb)) >> 24
    }

    /// Hit ratio of an exact LRU of `entries` entries over the same lookups.
    fn exact(lookups: &[u64], entries: usize) -> f64 {
        let mut order = std::collections::BTreeMap::new();
        let mut last = HashMap::new();
        let mut hits = 0;
        for (time, key) in lookups.iter().enumerate() {
            if let Some(before) = last.insert(*key, time) {
                order.remove(&before);
                hits += 1;
            }
            order.insert(time, *key);
            if order.len() > entries {
                let (_, oldest) = order.pop_first().expect("not empty");
                last.remove(&oldest);
            }
        }
        f64::from(hits) / lookups.len() as f64
    }

    #[test]
    fn the_sampled_curve_is_that_of_an_exact_lru() {
        for (keys, skew) in [(100_000u64, 1.0f64), (100_000, 2.5), (400_000, 4.0)] {
            let mut state = keys;
            let lookups: Vec<u64> = (0..1_000_000)
                .map(|_| {
                    let unit = draw(&mut state) as f64 / u64::MAX as f64;
                    (unit.powf(skew) * keys as f64) as u64
                })
                .collect();
            let mut reuse = Reuse::default();
            for key in &lookups {
                reuse.note(hash(*key), 1000);
            }
            let advice = reuse.advice(0);
            for share in [20, 8, 4, 2] {
                let entries = keys as usize / share;
                let (sampled, exact) = (advice.hit_ratio(entries * 1000), exact(&lookups, entries));
                assert!((sampled - exact).abs() < 0.03, "{keys} {skew} {share}: {sampled} {exact}");
            }
        }
    }

    #[test]
    fn what_is_looked_up_no_more_is_forgotten_in_minutes() {
        let mut reuse = Reuse::default();
        let mut now = Duration::ZERO;
        let mut look_up = |keys: u64, seconds: u64, reuse: &mut Reuse| {
            for second in 0..seconds {
                now += Duration::from_secs(1);
                (0..2_000).for_each(|at| reuse.note(hash((second * 2_000 + at) % keys), 1000));
                reuse.age(now);
            }
            reuse.advice(0).smallest_for(0.99).expect("all is looked up again and again")
        };
        let before = look_up(40_000, 600, &mut reuse);
        let after = look_up(2_000, 480, &mut reuse);
        assert!(before > 30_000_000 && after < 4_000_000, "{before} {after}");
        // Without lookups nothing is forgotten.
        reuse.age(Duration::from_secs(100_000));
        assert!(reuse.advice(0).lookups_sampled >= REMEMBERED_MIN as u64);
    }

    #[test]
    fn a_loop_needs_all_of_itself() {
        let mut reuse = Reuse::default();
        for round in 0..200_000u64 {
            reuse.note(hash(round % 10_000), 100);
        }
        let advice = reuse.advice(0);
        assert!(advice.hit_ratio(800_000) < 0.05 && advice.hit_ratio(1_200_000) > 0.9);
        assert!((900_000..1_250_000).contains(&advice.enough_bytes()), "{}", advice.enough_bytes());
        assert_eq!(advice.smallest_for(0.9), Some(advice.enough_bytes()));
    }
}
