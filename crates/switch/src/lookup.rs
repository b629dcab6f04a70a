//! The lookup table: which entry stands for a name. One writer here, readers on every processor.
//!
//! A line of memory for each value of a hash's first bits, with room for 8 keys: a reader looks at
//! one line, and the write is one store. There are as many lines as entries at most, so that one in
//! a million is full (Poisson with mean 1), and its next key stays uncached.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use policy::hotkey::hash;

use crate::{
    layout::{Bucket, Name},
    mapped::Mapped,
};

/// See the module.
#[derive(Debug)]
pub struct Lookup {
    buckets: Mapped<Bucket>,
    seed: u64,
}

/// Returns the number of buckets for this number of entries.
pub(crate) fn buckets(entries: u32) -> u32 {
    entries.next_power_of_two()
}

/// Returns the number of bits by which a hash is shifted to select a bucket.
pub(crate) fn shift(entries: u32) -> u32 {
    64 - buckets(entries).trailing_zeros()
}

impl Lookup {
    pub(crate) fn new(buckets: Mapped<Bucket>, seed: u64) -> Self {
        Self { buckets, seed }
    }

    fn bucket(&self, name: &Name) -> (&Bucket, u32) {
        let hash = hash(name, self.seed);
        let number = hash >> shift(self.buckets.len() as u32);
        (&self.buckets[number as usize], hash as u32 | 1)
    }

    /// Makes an entry, whose name must stand in it already, visible to the data plane. False if the
    /// bucket is full, or has a key with the same tag: when that key leaves, this one would be
    /// served again without the writes that passed in between.
    pub(crate) fn show(&self, name: &Name, place: u32) -> bool {
        let (bucket, tag) = self.bucket(name);
        let shown = u64::from(place) << 32 | u64::from(tag);
        let taken = bucket.iter().map(|word| word.load(Relaxed)).find(|word| *word as u32 == tag);
        if let Some(taken) = taken {
            return taken == shown;
        }
        let free = bucket.iter().find(|word| word.load(Relaxed) == 0);
        if let Some(word) = free {
            word.store(shown, Release);
        }
        free.is_some()
    }

    /// Hides this entry from the data plane; has no effect if it was not visible.
    pub(crate) fn hide(&self, name: &Name, place: u32) {
        let (bucket, tag) = self.bucket(name);
        let shown = u64::from(place) << 32 | u64::from(tag);
        bucket
            .iter()
            .filter(|word| word.load(Relaxed) == shown)
            .for_each(|word| word.store(0, Release));
    }

    /// The entries that can be found.
    pub fn places(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.buckets.iter().flatten().map(|word| word.load(Acquire));
        words.filter(|word| *word != 0).map(|word| (word >> 32) as u32)
    }
}
