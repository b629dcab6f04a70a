//! The keys that are read most, from a sample of the reads.
//!
//! A table of fixed size (Space-Saving, Metwally et al., ICDT 2005): a key that is not in it
//! replaces the key with the lowest count and continues from that count, which is the most by which
//! its own can be too high. Counts halve every [`HALF_LIFE`].

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use smallvec::SmallVec;
use telemetry::Counter;

use crate::key::{Key, Shown};

/// One read in this number is sampled, on average.
const SAMPLED: u64 = 32;
/// Number of keys in the table.
const KEYS_MAX: usize = 32;
/// Longest part of a key's name that is kept.
const NAME_BYTES_MAX: usize = 96;
const HALF_LIFE: Duration = Duration::from_secs(5);
/// Maximum number of keys that are shown, and the smallest share of one.
const SHOWN_MAX: usize = 10;
const SHARE_MIN: f64 = 0.005;

/// The keys that one worker is asked for most.
#[derive(Debug, Default)]
pub struct Busiest {
    /// Reads seen, and the number of the next that is sampled.
    reads: Counter,
    next: Counter,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    keys: Vec<Busy>,
    /// Sampled reads.
    reads: f64,
    halved_at: Duration,
}

/// A key that is read often.
#[derive(Debug, Clone)]
struct Busy {
    hash: u64,
    /// Its name, cut after 96 bytes; before it the collection, if the protocol has collections.
    name: SmallVec<[u8; 32]>,
    count: f64,
    /// The most by which `count` is too high.
    excess: f64,
    /// Share of the reads, at least.
    share: f64,
}

impl Busiest {
    /// Sees a read of `key` in a database and a collection, which are "" if the protocol has none.
    /// Only the owner may call it.
    #[inline]
    pub(crate) fn see(&self, key: &Key<'_>, place: (&str, &str), now: Duration) {
        let reads = self.reads.value();
        self.reads.add(1);
        if reads == self.next.value() {
            // A random distance: reads may be periodic.
            let random = reads.wrapping_add(key.hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.next.add(1 + (random >> 32) % (2 * SAMPLED - 1));
            self.table.lock().add(key, place, now);
        }
    }

    /// The keys with their shares of the reads, in no order.
    fn keys(&self) -> Vec<Busy> {
        let table = self.table.lock();
        let share = |key: &Busy| (key.count - key.excess) / table.reads.max(1.0);
        table.keys.iter().map(|key| Busy { share: share(key), ..key.clone() }).collect()
    }

    /// Number of reads that the shares refer to.
    fn weight(&self) -> f64 {
        self.table.lock().reads
    }
}

/// The keys that all workers are asked for most, escaped, with their shares of the reads, most
/// first; at most ten.
#[must_use]
pub fn most_read<'a>(workers: impl Iterator<Item = &'a Busiest>) -> Vec<(String, f64)> {
    let mut reads = 0.0;
    let mut shares = BTreeMap::<_, f64>::new();
    for busiest in workers {
        let weight = busiest.weight();
        reads += weight;
        for key in busiest.keys() {
            *shares.entry(key.name).or_default() += key.share * weight;
        }
    }
    let shares = shares.into_iter().map(|(name, share)| (name, share / reads));
    let mut keys: Vec<_> = shares.filter(|(_, share)| *share >= SHARE_MIN).collect();
    keys.sort_by(|one, other| other.1.total_cmp(&one.1));
    keys.truncate(SHOWN_MAX);
    keys.into_iter().map(|(name, share)| (Shown(&name).to_string(), share)).collect()
}

impl Table {
    fn add(&mut self, key: &Key<'_>, place: (&str, &str), now: Duration) {
        if now.saturating_sub(self.halved_at) >= HALF_LIFE {
            self.halved_at = now;
            self.reads /= 2.0;
            self.keys.iter_mut().for_each(|key| {
                key.count /= 2.0;
                key.excess /= 2.0;
            });
        }
        self.reads += 1.0;
        let hash = key.hash;
        if let Some(key) = self.keys.iter_mut().find(|key| key.hash == hash) {
            key.count += 1.0;
            return;
        }
        let excess = match self.keys.len() {
            KEYS_MAX.. => {
                let counts = self.keys.iter().enumerate().map(|(at, key)| (key.count, at));
                let (least, at) = counts.fold((f64::MAX, 0), |one, other| match other.0 < one.0 {
                    true => other,
                    false => one,
                });
                self.keys.swap_remove(at);
                least
            }
            _ => 0.0,
        };
        let count = excess + 1.0;
        self.keys.push(Busy { hash, name: name_of(key, place), count, excess, share: 0.0 });
    }
}

fn name_of(key: &Key<'_>, (database, collection): (&str, &str)) -> SmallVec<[u8; 32]> {
    let mut name = SmallVec::new();
    if !collection.is_empty() {
        for part in [database, ".", collection, " "] {
            name.extend_from_slice(part.as_bytes());
        }
    }
    name.extend_from_slice(key.bytes);
    name.truncate(NAME_BYTES_MAX);
    name
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Busiest;
    use crate::key::{Key, Namespace};

    #[test]
    fn a_key_that_is_read_often_is_found_with_its_share() {
        let (busiest, mut random) = (Busiest::default(), 7_u64);
        for at in 0..400_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // One in five; the others are 10,000 keys.
            let key = if random >> 40 & 0xff < 51 { 0 } else { 1 + (random >> 40) % 10_000 };
            let bytes = key.to_string();
            let key = Key::new(Namespace::new(1, "o", b"d", b"c"), bytes.as_bytes());
            busiest.see(&key, ("d", "c"), Duration::from_micros(50 * at));
        }
        let keys = busiest.keys();
        let most = keys.iter().max_by(|one, other| one.share.total_cmp(&other.share));
        let most = most.expect("keys");
        assert_eq!(&most.name[..], b"d.c 0");
        assert!((0.15..0.22).contains(&most.share), "{}", most.share);
        let others = keys.iter().filter(|key| &key.name[..] != b"d.c 0");
        assert!(others.clone().count() > 0 && others.clone().all(|key| key.share < 0.02));
    }
}
