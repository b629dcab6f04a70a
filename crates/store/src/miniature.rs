//! Caches of a sample of keys: what a cache of some size would answer, without its values.
//!
//! A cache of `1/k` of the size, which sees the requests of one key in `k`, has nearly the hit
//! ratio of the whole cache, under any replacement policy (Waldspurger, Saemundsson, Ahmad, Park,
//! "Cache modeling and optimization using miniature simulations", USENIX ATC 2017, §3). Keys are
//! selected by their hash. A few keys with most of the requests would make that ratio a matter of
//! luck; such keys can be followed all: each stands for itself, beside sampled ones that each
//! stand for `k`.

use std::time::Duration;

use hashbrown::HashMap;
use slab::Slab;

use crate::config::{Config, Replacement};
use crate::item::Shape;
use crate::memory::MARGIN_BYTES;
use crate::replacement::{Id, Linked, Links, Policy, policy};

/// Bytes of the index for an item: 64 for twelve slots, of which four fifths are taken.
const INDEX_BYTES: usize = 7;

/// A key of a [`Miniature`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// Its hash.
    pub hash: u64,
    /// It stands for as many keys as [`Miniature::set_scale`] says; if not, for itself.
    pub is_sampled: bool,
}

/// One cache of a sample of keys; `T` is what is known of each.
pub struct Miniature<T> {
    config: Config,
    policy: Box<dyn Policy<Slab<Item<T>>>>,
    items: Slab<Item<T>>,
    index: HashMap<u64, Id>,
    whole: Held,
    sampled: Held,
    scale: f64,
}

#[derive(Debug, Default)]
struct Held {
    items: usize,
    bytes: usize,
}

struct Item<T> {
    key: Followed,
    links: Links,
    bytes: usize,
    expires_at: Duration,
    known: T,
}

impl<T: Send + 'static> Miniature<T> {
    /// The miniature of a cache with these limits and this policy. It holds nothing.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            policy: policy(config.replacement),
            items: Slab::new(),
            index: HashMap::new(),
            whole: Held::default(),
            sampled: Held::default(),
            scale: 1.0,
            config,
        }
    }

    /// Limits and policy of the whole cache.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Sets the number of keys that each sampled one stands for.
    pub fn set_scale(&mut self, scale: f64) {
        self.scale = scale;
    }

    /// Mean memory of one item in a full [`Memory`](crate::Memory): header, key, value, padding,
    /// its part of the index, and of the dead bytes that are not compacted yet.
    #[must_use]
    pub fn item_bytes(&self, key_bytes: usize, value_bytes: usize) -> usize {
        let live = Shape { key_bytes, value_bytes, expires: true }.bytes();
        let dead = match self.config.replacement {
            // Items die in the order in which they were stored, segment by segment.
            Replacement::Fifo => 0,
            // Compaction begins when an eighth of all bytes is dead.
            _ => live / 8,
        };
        live + dead + INDEX_BYTES
    }

    /// Number of keys held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no key is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Number of sampled keys held.
    #[must_use]
    pub fn sampled(&self) -> usize {
        self.sampled.items
    }

    /// Number of items that the whole cache would hold.
    #[must_use]
    pub fn items(&self) -> f64 {
        self.sampled.items as f64 * self.scale + self.whole.items as f64
    }

    /// Bytes that the whole cache would hold.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.sampled.bytes as f64 * self.scale + self.whole.bytes as f64
    }

    /// What is held of a key and not expired, counted as a use.
    pub fn lookup(&mut self, hash: u64, now: Duration) -> Option<&T> {
        let id = *self.index.get(&hash)?;
        if self.items[id as usize].expires_at <= now {
            self.remove(hash);
            return None;
        }
        self.policy.on_hit(&mut self.items, id);
        Some(&self.items[id as usize].known)
    }

    /// What is held of a key and not expired, and when it expires, without counting as a use.
    #[must_use]
    pub fn peek(&self, hash: u64, now: Duration) -> Option<(&T, Duration)> {
        let item = self.items.get(*self.index.get(&hash)? as usize)?;
        (item.expires_at > now).then_some((&item.known, item.expires_at))
    }

    /// Holds a key whose item takes `bytes` ([`Self::item_bytes`]), and evicts as the whole cache
    /// would.
    pub fn insert(&mut self, key: Followed, bytes: usize, known: T, expires_at: Duration) {
        if let Some(&id) = self.index.get(&key.hash) {
            let old = &mut self.items[id as usize];
            let before = std::mem::replace(&mut old.bytes, bytes);
            (old.known, old.expires_at) = (known, expires_at);
            let held = if old.key.is_sampled { &mut self.sampled } else { &mut self.whole };
            held.bytes = held.bytes + bytes - before;
            self.policy.on_hit(&mut self.items, id);
            while self.is_over(0.0, 0.0) && self.evict() {}
            return;
        }
        self.policy.set_capacity(self.capacity(), self.config.bytes_max);
        self.policy.on_incoming(fold(key.hash));
        let weight = if key.is_sampled { self.scale } else { 1.0 };
        if self.is_over(weight, weight * bytes as f64) && !self.policy.admits(fold(key.hash)) {
            return;
        }
        while self.is_over(weight, weight * bytes as f64) && self.evict() {}
        let item = Item { key, links: Links::new(fold(key.hash)), bytes, expires_at, known };
        let id = self.items.insert(item) as Id;
        self.index.insert(key.hash, id);
        let held = self.held(key);
        held.items += 1;
        held.bytes += bytes;
        self.policy.on_insert(&mut self.items, id);
    }

    /// Drops a key.
    pub fn remove(&mut self, hash: u64) {
        if let Some(id) = self.index.remove(&hash) {
            self.policy.on_remove(&mut self.items, id);
            self.forget(id);
        }
    }

    /// Changes what a key stands for.
    pub fn restate(&mut self, key: Followed) {
        let Some(&id) = self.index.get(&key.hash) else { return };
        let item = &mut self.items[id as usize];
        let (before, bytes) = (std::mem::replace(&mut item.key, key), item.bytes);
        for (key, sign) in [(before, -1), (key, 1)] {
            let held = self.held(key);
            held.items = held.items.saturating_add_signed(sign);
            held.bytes = held.bytes.saturating_add_signed(sign * bytes as isize);
        }
    }

    /// Keeps the keys of which `stays` is true.
    pub fn retain(&mut self, stays: impl Fn(Followed) -> bool) {
        self.remove_where(|item| !stays(item.key));
    }

    /// Drops what has expired, as the whole cache does.
    pub fn expire(&mut self, now: Duration) {
        self.remove_where(|item| item.expires_at <= now);
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.remove_where(|_| true);
    }

    fn remove_where(&mut self, leaves: impl Fn(&Item<T>) -> bool) {
        let leaving = self.items.iter().filter(|(_, item)| leaves(item));
        let leaving: Vec<u64> = leaving.map(|(_, item)| item.key.hash).collect();
        leaving.into_iter().for_each(|hash| self.remove(hash));
    }

    /// Items of the present mean size that fit, in the numbers of the sample.
    fn capacity(&self) -> usize {
        let held = self.items.len() as f64;
        if held == 0.0 {
            return usize::MAX;
        }
        let by_items = held * self.config.items_max as f64 / self.items();
        by_items.min(held * self.config.bytes_max as f64 / self.bytes().max(1.0)) as usize
    }

    /// Whether items and bytes would be too many with these in addition.
    fn is_over(&self, items: f64, bytes: f64) -> bool {
        let bytes_max = self.config.bytes_max.saturating_sub(MARGIN_BYTES);
        self.items() + items > self.config.items_max as f64
            || self.bytes() + bytes > bytes_max as f64
    }

    fn evict(&mut self) -> bool {
        let victim = self.policy.victim(&mut self.items);
        if let Some(id) = victim {
            self.index.remove(&self.items[id as usize].key.hash);
            self.forget(id);
        }
        victim.is_some()
    }

    /// Removes an item that index and policy have removed.
    fn forget(&mut self, id: Id) {
        let item = self.items.remove(id as usize);
        let held = self.held(item.key);
        held.items -= 1;
        held.bytes -= item.bytes;
    }

    fn held(&mut self, key: Followed) -> &mut Held {
        if key.is_sampled { &mut self.sampled } else { &mut self.whole }
    }
}

fn fold(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl<T> Linked for Item<T> {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    const VALUE: [u8; 200] = [7; 200];

    /// Splitmix64.
    fn draw(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Lookups of 100,000 keys, few of which are frequent.
    fn lookups() -> impl Iterator<Item = u64> {
        let mut state = 1;
        (0..300_000).map(move |_| {
            let unit = draw(&mut state) as f64 / u64::MAX as f64;
            (unit.powi(3) * 100_000.0) as u64
        })
    }

    /// Hit ratios of a whole cache and of the miniature that follows the most frequent keys, and
    /// one in `keys` of the others.
    fn compare(config: Config, keys: u64) -> [f64; 2] {
        let (mut memory, mut miniature) = (Memory::new(config, 3), Miniature::<()>::new(config));
        miniature.set_scale(keys as f64);
        let (now, end) = (Duration::ZERO, Duration::from_secs(1));
        let (mut reads, mut hits) = (0.0, 0.0);
        // Of frequent keys, and of sampled ones.
        let (mut followed, mut found) = ([0.0; 2], [0.0; 2]);
        for key in lookups() {
            let hash = draw(&mut key.wrapping_mul(0x2545_f491_4f6c_dd1d));
            let name = key.to_be_bytes();
            reads += 1.0;
            match memory.lookup(hash, &name, now) {
                Some(_) => hits += 1.0,
                None => drop(memory.insert(hash, &name, &VALUE, Some(end), now).unwrap()),
            }
            let is_sampled = key >= 1_000;
            if is_sampled && !hash.is_multiple_of(keys) {
                continue;
            }
            followed[usize::from(is_sampled)] += 1.0;
            match miniature.lookup(hash, now) {
                Some(()) => found[usize::from(is_sampled)] += 1.0,
                None => {
                    let key = Followed { hash, is_sampled };
                    let bytes = miniature.item_bytes(name.len(), VALUE.len());
                    miniature.insert(key, bytes, (), end);
                }
            }
        }
        let rest = (reads - followed[0]) * found[1] / followed[1];
        [hits / reads, (found[0] + rest) / reads]
    }

    #[test]
    fn a_miniature_has_the_hit_ratio_of_the_whole_under_every_policy() {
        for replacement in Replacement::ALL {
            let limits = [(usize::MAX, 2 << 20), (usize::MAX, 8 << 20), (10_000, 64 << 20)];
            for (items_max, bytes_max) in limits {
                let config = Config { replacement, items_max, bytes_max, ..Config::default() };
                let [whole, miniature] = compare(config, 8);
                let shown = format!("{replacement:?} {items_max} {bytes_max}: {whole} {miniature}");
                assert!((whole - miniature).abs() < 0.02, "{shown}");
            }
        }
    }

    #[test]
    fn keys_that_stand_for_themselves_count_once() {
        let config = Config { items_max: 20, ..Config::default() };
        let mut miniature = Miniature::new(config);
        miniature.set_scale(8.0);
        let end = Duration::from_secs(9);
        for hash in 0..4 {
            miniature.insert(Followed { hash, is_sampled: false }, 100, hash, end);
        }
        miniature.insert(Followed { hash: 4, is_sampled: true }, 100, 4, end);
        assert_eq!((miniature.items(), miniature.bytes()), (12.0, 1_200.0));
        // It stands for itself from now on; two more that stand for eight each fit then.
        miniature.restate(Followed { hash: 4, is_sampled: false });
        assert_eq!((miniature.items(), miniature.sampled()), (5.0, 0));
        miniature.insert(Followed { hash: 5, is_sampled: true }, 100, 5, end);
        assert_eq!(
            (0..6).filter(|&hash| miniature.peek(hash, Duration::ZERO).is_some()).count(),
            6
        );
        miniature.insert(Followed { hash: 6, is_sampled: true }, 100, 6, end);
        assert!(miniature.items() <= 20.0 && miniature.peek(6, Duration::ZERO).is_some());
        miniature.expire(end);
        assert_eq!((miniature.items(), miniature.bytes()), (0.0, 0.0));
    }
}
