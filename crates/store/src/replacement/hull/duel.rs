//! The duel of the ways in which a full cache may treat newcomers.

use hashbrown::HashTable;
use slab::Slab;

use super::super::{Arena, Id, Links};
use super::{Parts, Place, READ, Way};

/// The ways in the duel, [`PLAIN`] first. An eighth and a half serve what is used again soon: a
/// queue may be some times as long as it must be, and the longest still leaves half to what stays.
const WAYS: [Way; 4] = [
    Way::Sieve,
    Way::Steady { passing: 0 },
    Way::Steady { passing: 8 },
    Way::Steady { passing: 2 },
];
const PLAIN: usize = 0;
/// Items of a miniature, at most and at least: with fewer there is no duel.
const ITEMS_MAX: usize = 256;
const ITEMS_MIN: usize = 32;
/// The miniatures together take at most a 64th of the bytes of the cache.
const BYTES_SHARE: usize = 64;
/// Maximum number of bytes that an item of a miniature takes.
const BYTES_EACH: usize = 72;
/// Bytes of a place of a slab, and of its part in a table; what is taken is at most twice as much.
const SLOT_BYTES: usize = size_of::<Links>() + 8;
const INDEX_BYTES: usize = 6;
/// Accesses, for each item of a miniature, after which what came before has a weight of 1/e.
const REMEMBERED: usize = 64;
const REMEMBERED_MIN: usize = 4096;
/// A way must answer this much more of all accesses than the present one to replace it: in
/// [`REMEMBERED`] accesses, a hit for each item and a quarter. SIEVE returns once it answers more.
const MARGIN: f32 = 0.02;
/// A miniature that answers less than this part of what it used to keeps what is not used any more,
/// and begins anew once that has cost a hit for each of its items.
const USED: f32 = 0.5;
/// The same for the cache, beside its miniature.
const BESIDE: f32 = 0.75;

/// Halvings of a sample that is empty.
const HALVINGS_MAX: u32 = u32::BITS - 1;

/// Chooses the way of a cache.
pub(super) struct Duel {
    /// Items held now.
    pub(super) held: usize,
    /// Items that fit: those held when there was last little room, or none. While there always was
    /// room, 0, and nothing is sampled.
    items: usize,
    /// Bytes of memory of the miniatures.
    pub(super) bytes: usize,
    /// Items that a miniature may have.
    items_max: usize,
    /// A key in two to the power of this number is in the sample.
    halvings: u32,
    minis: [Mini; WAYS.len()],
    way: usize,
    /// Share of the sampled accesses that the cache itself answered.
    answered: f32,
    /// Hits that it lacks beside its miniature.
    lacking: f32,
    /// Newcomers that enter in any case, as the cache begins anew.
    entering: usize,
    chance: Chance,
}

impl Default for Duel {
    fn default() -> Self {
        Self {
            held: 0,
            items: 0,
            bytes: 0,
            items_max: ITEMS_MAX,
            halvings: HALVINGS_MAX,
            minis: WAYS.map(Mini::new),
            way: PLAIN,
            answered: 0.0,
            lacking: 0.0,
            entering: 0,
            chance: Chance::default(),
        }
    }
}

impl Duel {
    /// Sets the bytes of the whole cache.
    pub(super) fn set_bytes(&mut self, bytes: usize) {
        self.items_max = (bytes / BYTES_SHARE / BYTES_EACH / WAYS.len()).min(ITEMS_MAX);
        // The cache shrank by half at least.
        if self.bytes > 2 * (bytes / BYTES_SHARE) {
            *self = Self { held: self.held, items_max: self.items_max, ..Self::default() };
        }
    }

    /// Notes an access to a key, and whether the cache holds it.
    #[inline]
    pub(super) fn note(&mut self, hash: u32, is_held: bool) {
        if is_sampled(hash, self.halvings) {
            self.follow(hash, is_held);
        }
    }

    /// The way of now.
    pub(super) fn way(&self) -> Way {
        WAYS[self.way]
    }

    /// Notes that there is little room, or none.
    pub(super) fn note_full(&mut self) {
        if self.items == 0 {
            let halvings =
                self.held.checked_div(self.items_max).map_or(1, |share| share + 1).ilog2();
            self.halvings = halvings.min(HALVINGS_MAX);
        }
        self.items = self.held;
    }

    /// Where a newcomer enters the full cache.
    pub(super) fn place(&mut self, hash: u32) -> Place {
        self.note_full();
        if self.entering > 0 {
            self.entering -= 1;
            return Place::Main;
        }
        self.way().place(self.chance.draw(hash))
    }

    fn follow(&mut self, hash: u32, is_held: bool) {
        if self.items == 0 {
            return;
        }
        self.items = self.items.max(self.held);
        if self.items.min(self.items_max) < ITEMS_MIN {
            self.way = PLAIN;
            return;
        }
        self.fit();
        let items = self.items >> self.halvings;
        let weight = 1.0 / (REMEMBERED * items).max(REMEMBERED_MIN) as f32;
        for mini in &mut self.minis {
            mini.access(hash, items, weight);
        }
        let hit = f32::from(u8::from(is_held));
        self.answered += (hit - self.answered) * weight;
        self.choose();
        if self.way != PLAIN {
            let beside = BESIDE * f32::from(u8::from(self.minis[self.way].is_hit));
            self.lacking = (self.lacking + beside - hit).max(0.0);
            if self.lacking > items as f32 {
                (self.entering, self.lacking) = (self.items, 0.0);
            }
        }
        self.bytes = self.minis.iter().map(Mini::bytes).sum();
    }

    /// Adapts the sample to the size of the cache, by a factor of two at most.
    fn fit(&mut self) {
        let items = self.items >> self.halvings;
        if items > self.items_max {
            self.halvings += 1;
            self.minis.iter_mut().for_each(|mini| mini.thin(self.halvings));
        } else if items < self.items_max / 4 && self.halvings > 0 {
            self.halvings -= 1;
        }
    }

    fn choose(&mut self) {
        let answered = |way: usize| self.minis[way].answered;
        let now = answered(self.way);
        let best = (0..WAYS.len())
            .fold(PLAIN, |best, way| if answered(way) > answered(best) { way } else { best });
        // Near a step the sample may need more than fits while the cache itself does not.
        let next = if answered(best) > now.max(self.answered) + MARGIN {
            best
        } else if self.way != PLAIN && answered(PLAIN) > now.min(self.answered) {
            PLAIN
        } else {
            return;
        };
        if next == PLAIN {
            let plain = answered(PLAIN);
            self.minis.iter_mut().for_each(|mini| mini.answered = mini.answered.min(plain));
        }
        (self.way, self.answered) = (next, self.minis[next].answered);
        (self.lacking, self.entering) = (0.0, 0);
    }
}

fn is_sampled(hash: u32, halvings: u32) -> bool {
    hash.wrapping_mul(0x9e37_79b9) <= u32::MAX >> halvings
}

/// The hash of a hash, of which a table uses both ends.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Random numbers.
#[derive(Default)]
struct Chance(u32);

impl Chance {
    fn draw(&mut self, hash: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9);
        // The finalizer of MurmurHash3.
        let mixed = ((hash ^ self.0) ^ (hash ^ self.0) >> 16).wrapping_mul(0x85eb_ca6b);
        let mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
        mixed ^ mixed >> 16
    }
}

/// A cache of the sampled keys, without values.
struct Mini {
    way: Way,
    parts: Parts,
    slots: Slab<Links>,
    /// The slots by hash.
    index: HashTable<Id>,
    /// It held the key of the last access.
    is_hit: bool,
    /// Share of the accesses that it answered.
    answered: f32,
    /// Hits that it lacks beside what it used to answer.
    lacking: f32,
    chance: Chance,
}

impl Mini {
    fn new(way: Way) -> Self {
        Self {
            way,
            parts: Parts::default(),
            slots: Slab::new(),
            index: HashTable::new(),
            is_hit: false,
            answered: 0.0,
            lacking: 0.0,
            chance: Chance::default(),
        }
    }

    /// An access to a key, which is a newcomer to a cache of `items` if it is not held.
    fn access(&mut self, hash: u32, items: usize, weight: f32) {
        self.is_hit = self.look_up(hash, items);
        let hit = f32::from(u8::from(self.is_hit));
        self.lacking = (self.lacking + USED * self.answered - hit).max(0.0);
        self.answered += (hit - self.answered) * weight;
        if self.way != Way::Sieve && self.lacking > items as f32 {
            self.clear();
        }
    }

    /// Whether the key is held; if not, it is stored if this way is to store it.
    fn look_up(&mut self, hash: u32, items: usize) -> bool {
        let slots = &mut self.slots;
        if let Some(&id) = self.index.find(spread(hash), |&id| slots.hash(id) == hash) {
            slots.set_marks(id, slots.marks(id) | READ);
            return true;
        }
        let is_full = self.index.len() >= items;
        let chance = if is_full { self.chance.draw(hash) } else { 0 };
        let place = self.way.place(chance);
        if place == Place::Refused {
            return false;
        }
        while self.index.len() >= items && self.evict(place, items) {}
        let id = self.slots.insert(Links::new(hash)) as Id;
        let slots = &self.slots;
        self.index.insert_unique(spread(hash), id, |&id| spread(slots.hash(id)));
        self.parts.enter(&mut self.slots, id, place);
        false
    }

    fn evict(&mut self, place: Place, items: usize) -> bool {
        let victim = self.parts.victim(&mut self.slots, self.way, place, items);
        if let Some(id) = victim {
            let hash = self.slots.hash(id);
            self.slots.remove(id as usize);
            if let Ok(entry) = self.index.find_entry(spread(hash), |&other| other == id) {
                entry.remove();
            }
        }
        victim.is_some()
    }

    /// Drops the keys that are not in the sample any more.
    fn thin(&mut self, halvings: u32) {
        let (parts, slots) = (&mut self.parts, &mut self.slots);
        self.index.retain(|&mut id| {
            let stays = is_sampled(slots.hash(id), halvings);
            if !stays {
                parts.leave(slots, id);
                slots.remove(id as usize);
            }
            stays
        });
    }

    fn clear(&mut self) {
        self.parts = Parts::default();
        self.slots.clear();
        self.index.clear();
        self.lacking = 0.0;
    }

    fn bytes(&self) -> usize {
        self.slots.capacity() * SLOT_BYTES + self.index.capacity() * INDEX_BYTES
    }
}
