//! Which keys are followed.
//!
//! Keys are sampled by their hash, so that every read of a sampled key is seen (SHARDS, Waldspurger
//! et al., FAST 2015). Of real traffic a few keys have most of the reads; whether they are in the
//! sample would decide the result. So keys that are read often are followed all, and count for
//! themselves; the sample stands for the others only.

use std::mem;

use hashbrown::HashMap;
use policy::hotkey::CountMin;
use store::Followed;

/// Maximum number of sampled keys that are held.
pub(super) const SAMPLES_MAX: usize = 8_192;
/// Maximum number of keys that are followed because they are read often.
const FREQUENT_MAX: usize = 8_192;
/// Reads within a period that make a key frequent, at first; more if too many keys have as many.
const FREQUENT_READS_MIN: u16 = 8;
const FREQUENT_READS_MAX: u16 = 1 << 14;
/// Number of reads of a period. A key that was read less than half as often as a frequent one in a
/// period leaves these.
const PERIOD: u64 = 1 << 20;
/// Four counters for each read of a period: a count is too high by one or two.
const SKETCH_ROWS: usize = 4;
const SKETCH_WIDTH_BITS: u32 = 18;
/// A key is sampled if its hash, modulo this number, is below a threshold.
const MODULUS: u64 = 1 << 24;

/// The keys that are followed, and the reads of all.
#[derive(Debug)]
pub(super) struct Sample {
    threshold: u64,
    sketch: CountMin,
    /// Frequent keys, and their reads in this period.
    frequent: HashMap<u64, u16>,
    frequent_reads_min: u16,
    /// There were more frequent keys than room for them in this period.
    lacked_room: bool,
    demoted: Vec<u64>,
    reads: u64,
    /// Reads of keys while they were frequent.
    reads_of_frequent: u64,
    /// Reads of sampled keys, each as the number of reads that it stands for.
    reads_of_sampled: f64,
}

/// How a read counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Its key is not followed.
    Not,
    /// Its key is followed from now on. What was held of it is not known: the read does not count.
    First,
    /// Its key is followed: by itself, or as one of the sample.
    Counts {
        /// It stands for others.
        sampled: bool,
    },
}

/// A read that counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    /// It stands for others.
    pub(super) sampled: bool,
    /// For how many reads it stands.
    pub(super) weight: f64,
}

/// Sums over reads of frequent keys and of sampled ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums([f64; 2]);

/// By how much the sums of sampled reads are too small or too large.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share(f64);

impl Default for Share {
    fn default() -> Self {
        Self(1.0)
    }
}

impl Sums {
    pub(super) fn add(&mut self, counts: Counts, value: f64) {
        self.0[usize::from(counts.sampled)] += counts.weight * value;
    }

    /// The sum over all reads.
    pub(super) fn all(&self, of_others: Share) -> f64 {
        self.0[0] + self.0[1] * of_others.0
    }
}

impl Sample {
    pub(super) fn new() -> Self {
        Self {
            // All keys at first: a few are exact.
            threshold: MODULUS,
            sketch: CountMin::new(SKETCH_ROWS, SKETCH_WIDTH_BITS).expect("within the limits"),
            frequent: HashMap::new(),
            frequent_reads_min: FREQUENT_READS_MIN,
            lacked_room: false,
            demoted: Vec::new(),
            reads: 0,
            reads_of_frequent: 0,
            reads_of_sampled: 0.0,
        }
    }

    /// Counts a read; also says whether its key has become frequent.
    pub(super) fn see(&mut self, hash: u64) -> (Seen, bool) {
        self.reads += 1;
        if self.reads.is_multiple_of(PERIOD) {
            self.end_period();
        }
        if let Some(count) = self.frequent.get_mut(&hash) {
            *count = count.saturating_add(1);
            self.reads_of_frequent += 1;
            return (Seen::Counts { sampled: false }, false);
        }
        let is_frequent = self.sketch.add(hash) >= self.frequent_reads_min && self.promote(hash);
        if hash % MODULUS < self.threshold {
            self.reads_of_sampled += self.scale();
            return (Seen::Counts { sampled: true }, is_frequent);
        }
        (if is_frequent { Seen::First } else { Seen::Not }, is_frequent)
    }

    fn promote(&mut self, hash: u64) -> bool {
        let has_room = self.frequent.len() < FREQUENT_MAX;
        if has_room {
            self.frequent.insert(hash, self.frequent_reads_min);
        }
        self.lacked_room |= !has_room;
        has_room
    }

    fn end_period(&mut self) {
        self.sketch.clear();
        if mem::take(&mut self.lacked_room) {
            self.frequent_reads_min = (self.frequent_reads_min * 2).min(FREQUENT_READS_MAX);
        }
        let least = self.frequent_reads_min / 2;
        self.demoted.extend(self.frequent.extract_if(|_, count| *count < least).map(|of| of.0));
        self.frequent.values_mut().for_each(|count| *count = 0);
        if self.frequent.len() < FREQUENT_MAX / 4 {
            self.frequent_reads_min = (self.frequent_reads_min / 2).max(FREQUENT_READS_MIN);
        }
    }

    /// Keys that are not frequent any more.
    pub(super) fn take_demoted(&mut self) -> Vec<u64> {
        mem::take(&mut self.demoted)
    }

    /// The key, if it is followed.
    pub(super) fn followed(&self, hash: u64) -> Option<Followed> {
        let is_frequent = self.frequent.contains_key(&hash);
        let is_sampled = hash % MODULUS < self.threshold;
        (is_frequent || is_sampled).then_some(Followed { hash, is_sampled: !is_frequent })
    }

    pub(super) fn counts(&self, seen: Seen) -> Option<Counts> {
        match seen {
            Seen::Counts { sampled: true } => Some(Counts { sampled: true, weight: self.scale() }),
            Seen::Counts { sampled: false } => Some(Counts { sampled: false, weight: 1.0 }),
            Seen::First | Seen::Not => None,
        }
    }

    pub(super) fn is_too_large(&self, held: usize) -> bool {
        held > SAMPLES_MAX && self.threshold >= 8
    }

    /// Leaves out the eighth of the keys with the highest hashes.
    pub(super) fn choose_fewer(&mut self) {
        self.threshold -= self.threshold / 8;
    }

    /// Number of keys that a sampled one stands for.
    pub(super) fn scale(&self) -> f64 {
        MODULUS as f64 / self.threshold as f64
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads
    }

    /// The reads of keys that are not frequent are known exactly; those of the sample are nearly as
    /// many.
    pub(super) fn of_others(&self) -> Share {
        let others = (self.reads - self.reads_of_frequent) as f64;
        Share(if self.reads_of_sampled > 0.0 { others / self.reads_of_sampled } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: u64) -> u64 {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn frequent_keys_are_followed_and_leave_when_they_are_read_no_more() {
        let mut sample = Sample::new();
        while sample.threshold > MODULUS / 1_000 {
            sample.choose_fewer();
        }
        let others = |at: u64| hash(10 + at % 500_000);
        let frequent = hash(1);
        assert!(sample.followed(frequent).is_none(), "another key, one that is not sampled");
        let mut promoted = Vec::new();
        for at in 0..PERIOD - 1 {
            let hash = if at.is_multiple_of(1_000) { frequent } else { others(at) };
            let (seen, is_frequent) = sample.see(hash);
            if is_frequent && seen == Seen::First {
                promoted.push((at, hash));
            }
        }
        // Its eighth read. A few others are taken for frequent, because counts can be too high.
        assert_eq!(promoted.first(), Some(&(7_000, frequent)));
        assert!(promoted.len() < 5_000, "{}", promoted.len());
        let followed = sample.followed(frequent);
        assert_eq!(followed, Some(Followed { hash: frequent, is_sampled: false }));
        // The end of this period, in which it was read, and of the next.
        for (ends, leaves) in [(1, false), (2, true)] {
            while sample.reads() < ends * PERIOD {
                sample.see(others(sample.reads()));
            }
            assert_eq!(sample.take_demoted().contains(&frequent), leaves);
        }
        assert!(sample.followed(frequent).is_none());
    }

    #[test]
    fn sums_of_the_sample_stand_for_all_reads() {
        let mut sample = Sample::new();
        while sample.threshold > MODULUS / 64 {
            sample.choose_fewer();
        }
        let (mut even, mut all) = (Sums::default(), 0.0);
        for at in 0..400_000_u64 {
            // A tenth of the reads are of one key, the others of 200,000.
            let key = if at.is_multiple_of(10) { 0 } else { 1 + at % 199_999 };
            let counted = key.is_multiple_of(2);
            all += f64::from(u8::from(counted));
            let (seen, _) = sample.see(hash(key));
            if let Some(counts) = sample.counts(seen).filter(|_| counted) {
                even.add(counts, 1.0);
            }
        }
        let forecast = even.all(sample.of_others());
        assert!((forecast / all - 1.0).abs() < 0.02, "{forecast} {all}");
    }
}
