//! Approximate recent access counts of items: a four-bit count-min sketch with aging, behind a
//! doorkeeper.
//!
//! The first access to an item is recorded only in the doorkeeper, a Bloom filter, so the many
//! items with one access use no counters. Later accesses increment the smallest of its four
//! counters (Einziger, Friedman, Manes, "TinyLFU: a highly efficient cache admission policy", ACM
//! ToS 13(4), 2017, sections 3.2 to 3.4). After ten times as many accesses as there are items, all
//! counters are halved and the doorkeeper is cleared, so that old accesses lose weight.
//!
//! Aging, and widening or narrowing the sketch when the cache grows or shrinks, run over the table
//! in portions, a few words with every access, so no request waits for them. A place is a hash
//! modulo the width, so widening copies the lower half to the upper and narrowing keeps the larger
//! of two counters: no count is lost.

use crate::mapping::{Mapping, PAGE_BYTES, pages};

/// Accesses per item between two agings.
const SAMPLES_PER_ITEM: usize = 10;
/// Items per word: four counters per item, sixteen per word.
const ITEMS_PER_WORD: usize = 4;
/// Words of counters per word of the doorkeeper, which has eight bits per item.
const WORDS_PER_DOOR: usize = 2;
const WORDS_MIN: usize = 16;
const WORDS_MAX: usize = 1 << 28;
/// Words processed with each access. A pass ends long before the next is due.
const SWEPT_PER_SIGHTING: usize = 64;
const ROWS: usize = 4;
/// Odd numbers without a pattern, one per row and one for the doorkeeper (digits of SplitMix64).
const MIXERS: [u64; ROWS + 1] = [
    0xe220_a839_7b1d_cdaf,
    0x6e78_9e6a_a1b9_65f5,
    0x06c4_5d18_8009_454f,
    0xf88b_b8a8_724c_81ed,
    0x1b39_896a_51a8_749b,
];

/// A pass over the table in progress, and its next word.
#[derive(Debug, Clone, Copy)]
enum Sweep {
    Age(usize),
    Widen(usize),
    Narrow(usize),
}

pub(crate) struct Sketch {
    counters: Mapping<u64>,
    doors: Mapping<u64>,
    /// Words of counters, a power of two.
    words: usize,
    sweep: Option<Sweep>,
    items: usize,
    sightings: usize,
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            counters: Mapping::reserve(WORDS_MAX),
            doors: Mapping::reserve(WORDS_MAX / WORDS_PER_DOOR),
            words: WORDS_MIN,
            sweep: None,
            items: 0,
            sightings: 0,
        }
    }
}

impl Sketch {
    /// Counts one access to `hash`, while `items` are stored.
    pub(crate) fn add(&mut self, hash: u32, items: usize) {
        self.items = items;
        self.sweep_some();
        self.sightings += 1;
        let (door, bits) = self.door(hash);
        if self.doors[door] & bits != bits {
            self.doors[door] |= bits;
            return;
        }
        let places: [(usize, u32); ROWS] = std::array::from_fn(|row| self.place(hash, row));
        let counts = places.map(|place| self.count(place));
        let least = counts.into_iter().min().unwrap_or(0);
        for ((word, shift), count) in places.into_iter().zip(counts) {
            // Without a branch, because the smallest counters are unpredictable.
            self.counters[word] += u64::from((count == least) & (least < 15)) << shift;
        }
    }

    /// Returns an estimate of the recent number of accesses to `hash`, up to 16; errors are
    /// upwards.
    pub(crate) fn estimate(&self, hash: u32) -> u8 {
        let least = (0..ROWS).map(|row| self.count(self.place(hash, row))).min().unwrap_or(0);
        let (door, bits) = self.door(hash);
        least + u8::from(self.doors[door] & bits == bits)
    }

    pub(crate) fn bytes(&self) -> usize {
        let words = match self.sweep {
            Some(Sweep::Widen(cursor)) => self.words + cursor,
            Some(Sweep::Narrow(cursor)) => self.words - cursor,
            _ => self.words,
        };
        pages(words * 8) + pages(words * 8 / WORDS_PER_DOOR) + PAGE_BYTES
    }

    /// Narrows the sketch a little if it is too wide for `items`; false if it is not.
    pub(crate) fn trim(&mut self, items: usize) -> bool {
        self.items = items;
        self.sweep_some();
        matches!(self.sweep, Some(Sweep::Narrow(_)))
    }

    fn count(&self, (word, shift): (usize, u32)) -> u8 {
        (self.counters[word] >> shift & 15) as u8
    }

    /// Word and bit of the counter of a row.
    fn place(&self, hash: u32, row: usize) -> (usize, u32) {
        let mixed = mix(hash, row);
        let nibble = 4 * row as u32 + (mixed >> 62) as u32;
        (self.locate(mixed as u32 as usize, 1), nibble * 4)
    }

    /// Word and two bits of the doorkeeper.
    fn door(&self, hash: u32) -> (usize, u64) {
        let mixed = mix(hash, ROWS);
        (
            self.locate(mixed as u32 as usize, WORDS_PER_DOOR),
            1 << (mixed >> 58) | 1 << (mixed >> 52 & 63),
        )
    }

    /// Reduces `mixed` to a word, in a table `share` times smaller than that of counters.
    fn locate(&self, mixed: usize, share: usize) -> usize {
        let width = self.words / share;
        match self.sweep {
            Some(Sweep::Widen(cursor)) => {
                let wide = mixed & (2 * width - 1);
                let copied = wide < width || wide - width < cursor / share;
                if copied { wide } else { wide - width }
            }
            Some(Sweep::Narrow(cursor)) => {
                let narrow = mixed & (width / 2 - 1);
                if narrow < cursor / share { narrow } else { mixed & (width - 1) }
            }
            _ => mixed & (width - 1),
        }
    }

    fn sweep_some(&mut self) {
        if self.sweep.is_none() {
            self.sweep = self.next_sweep();
        }
        for _ in 0..SWEPT_PER_SIGHTING {
            match self.sweep {
                None => return,
                Some(Sweep::Age(cursor)) => self.age(cursor),
                Some(Sweep::Widen(cursor)) => self.widen(cursor),
                Some(Sweep::Narrow(cursor)) => self.narrow(cursor),
            }
        }
    }

    fn next_sweep(&mut self) -> Option<Sweep> {
        if self.items > self.words * ITEMS_PER_WORD && self.words < WORDS_MAX / 2 {
            return Some(Sweep::Widen(0));
        }
        if self.items < self.words * ITEMS_PER_WORD / 4 && self.words > WORDS_MIN {
            return Some(Sweep::Narrow(0));
        }
        let sample = SAMPLES_PER_ITEM * self.items.max(WORDS_MIN * ITEMS_PER_WORD);
        (self.sightings >= sample).then(|| {
            self.sightings /= 2;
            Sweep::Age(0)
        })
    }

    fn age(&mut self, cursor: usize) {
        self.counters[cursor] = self.counters[cursor] >> 1 & 0x7777_7777_7777_7777;
        if cursor.is_multiple_of(WORDS_PER_DOOR) {
            self.doors[cursor / WORDS_PER_DOOR] = 0;
        }
        self.sweep = (cursor + 1 < self.words).then_some(Sweep::Age(cursor + 1));
    }

    fn widen(&mut self, cursor: usize) {
        self.counters[self.words + cursor] = self.counters[cursor];
        if (cursor + 1).is_multiple_of(WORDS_PER_DOOR) {
            let door = cursor / WORDS_PER_DOOR;
            self.doors[self.words / WORDS_PER_DOOR + door] = self.doors[door];
        }
        if cursor + 1 < self.words {
            self.sweep = Some(Sweep::Widen(cursor + 1));
        } else {
            self.words *= 2;
            self.sweep = None;
        }
    }

    fn narrow(&mut self, cursor: usize) {
        let half = self.words / 2;
        self.counters[cursor] =
            larger_counters(self.counters[cursor], self.counters[half + cursor]);
        give_up(&mut self.counters, half + cursor);
        if (cursor + 1).is_multiple_of(WORDS_PER_DOOR) {
            let (door, doors) = (cursor / WORDS_PER_DOOR, half / WORDS_PER_DOOR);
            self.doors[door] |= self.doors[doors + door];
            give_up(&mut self.doors, doors + door);
        }
        if cursor + 1 < half {
            self.sweep = Some(Sweep::Narrow(cursor + 1));
        } else {
            self.words = half;
            self.sweep = None;
        }
    }
}

/// The larger of each pair of four-bit counters.
fn larger_counters(one: u64, two: u64) -> u64 {
    (0..16)
        .map(|nibble| 15 << (4 * nibble))
        .map(|mask| (one & mask).max(two & mask))
        .fold(0, |all, one| all | one)
}

/// Returns the page that ends with this word, if any, to the system. Its words are no longer used.
fn give_up(words: &mut Mapping<u64>, word: usize) {
    let page = PAGE_BYTES / size_of::<u64>();
    if (word + 1).is_multiple_of(page) {
        words.release(word + 1 - page..word + 1);
    }
}

/// 64 bits: the lower 32 select a word, the highest ones a place in it.
fn mix(hash: u32, row: usize) -> u64 {
    let mixed = (u64::from(hash) ^ MIXERS[row] >> 32).wrapping_mul(MIXERS[row]);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_estimates_too_little_and_seldom_too_much() {
        let mut sketch = Sketch::default();
        // The sketch grows and shrinks in between, which must lose no counts.
        for round in 1..=8u32 {
            for hash in 0..1000 {
                if hash % 8 < round {
                    sketch.add(hash, if round < 6 { 500 << round } else { 2000 });
                }
            }
        }
        let excess: u32 = (0..1000u32)
            .map(|hash| {
                let estimate = u32::from(sketch.estimate(hash));
                assert!(estimate >= 8 - hash % 8, "{hash}: {estimate}");
                estimate - (8 - hash % 8)
            })
            .sum();
        assert!(excess < 100, "{excess}");
        assert!((0..1000).filter(|unseen| sketch.estimate(unseen + 1_000_000) > 0).count() < 50);
    }

    #[test]
    fn old_fame_fades() {
        let mut sketch = Sketch::default();
        for _ in 0..20 {
            sketch.add(1, 64);
        }
        assert_eq!(sketch.estimate(1), 16);
        for hash in 0..10 * 64 {
            sketch.add(hash % 64 + 100, 64);
        }
        assert!((7..=8).contains(&sketch.estimate(1)), "{}", sketch.estimate(1));
    }
}
