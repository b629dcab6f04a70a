//! Each way keeps its rules, whatever the duel decides.

use slab::Slab;

use super::super::Links;
use super::*;

/// A cache of `items` that goes one way.
struct Cache {
    parts: Parts,
    slots: Slab<Links>,
    way: Way,
    items: usize,
    newcomers: u32,
}

impl Cache {
    fn new(way: Way, items: usize) -> Self {
        Self { parts: Parts::default(), slots: Slab::new(), way, items, newcomers: 0 }
    }

    fn find(&self, hash: u32) -> Option<Id> {
        self.slots.iter().find(|(_, slot)| slot.hash == hash).map(|(id, _)| id as Id)
    }

    /// Whether the key is held; one newcomer in `stay_one_in` may stay.
    fn access(&mut self, hash: u32, stay_one_in: u32) -> bool {
        if let Some(id) = self.find(hash) {
            self.slots.set_marks(id, self.slots.marks(id) | READ);
            return true;
        }
        let is_full = self.slots.len() >= self.items;
        self.newcomers += 1;
        let stays = !is_full || self.newcomers.is_multiple_of(stay_one_in);
        let place = self.way.place(if stays { 0 } else { u32::MAX });
        if place != Place::Refused {
            while self.slots.len() >= self.items {
                let victim = self.parts.victim(&mut self.slots, self.way, place, self.items);
                self.slots.remove(victim.expect("there are items") as usize);
            }
            let id = self.slots.insert(Links::new(hash)) as Id;
            self.parts.enter(&mut self.slots, id, place);
        }
        false
    }

    /// The number of keys that were held.
    fn access_all(&mut self, hashes: std::ops::Range<u32>, stay_one_in: u32) -> usize {
        hashes.filter(|&hash| self.access(hash, stay_one_in)).count()
    }

    fn passing(&self) -> usize {
        self.slots.iter().filter(|&(id, _)| self.slots.marks(id as Id) & PASSES != 0).count()
    }
}

#[test]
fn what_is_held_stays_and_a_few_newcomers_too() {
    let mut cache = Cache::new(Way::Steady { passing: 0 }, 100);
    for turn in 0..20 {
        let hits = cache.access_all(0..400, 50);
        assert!(turn == 0 || (85..=100).contains(&hits), "{turn}: {hits}");
    }
    // What is not used any more makes room for the few that may stay.
    for _ in 0..40 {
        cache.access_all(1000..1400, 20);
    }
    assert!(cache.slots.iter().all(|(_, slot)| slot.hash >= 1000));
}

#[test]
fn others_pass_through_a_queue_of_their_own() {
    let mut cache = Cache::new(Way::Steady { passing: 4 }, 100);
    cache.access_all(0..100, 1);
    cache.access_all(1000..1200, u32::MAX);
    assert_eq!((cache.passing(), cache.slots.len()), (25, 100));
    assert!((1175..1200).all(|hash| cache.find(hash).is_some()), "the last are there");
    // Under SIEVE they leave first, and none of the others.
    cache.way = Way::Sieve;
    cache.access_all(2000..2025, 1);
    assert_eq!((cache.passing(), cache.slots.len()), (0, 100));
    assert_eq!(cache.slots.iter().filter(|(_, slot)| slot.hash < 100).count(), 75);
}

#[test]
fn every_item_is_in_exactly_one_queue() {
    let mut state = 1_u32;
    let mut draw = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((u64::from(state) * u64::from(below)) >> 32) as u32
    };
    let ways = [0, 2, 8].map(|passing| Way::Steady { passing });
    let mut cache = Cache::new(Way::Sieve, 50);
    for step in 0..20_000 {
        match draw(40) {
            0 => cache.way = ways[draw(3) as usize],
            1 => cache.way = Way::Sieve,
            2..5 => {
                if let Some(id) = cache.find(draw(200)) {
                    cache.parts.leave(&mut cache.slots, id);
                    cache.slots.remove(id as usize);
                }
            }
            5..8 => {
                if let Some(from) = cache.find(draw(200)) {
                    // At a place of its own, while the old one is still taken.
                    let to = cache.slots.insert(cache.slots[from as usize]) as Id;
                    cache.parts.relocate(&mut cache.slots, from, to);
                    cache.slots.remove(from as usize);
                }
            }
            _ => {
                cache.access(draw(200).min(draw(200)), 5);
            }
        }
        assert!(cache.slots.len() <= 50, "{step}");
    }
    for left in (0..cache.slots.len()).rev() {
        let id = cache.parts.victim(&mut cache.slots, cache.way, Place::Main, 50);
        cache.slots.remove(id.expect("one is left") as usize);
        assert_eq!(cache.slots.len(), left);
    }
    assert_eq!(cache.parts.victim(&mut cache.slots, cache.way, Place::Main, 50), None);
}

#[test]
fn a_small_cache_has_no_duel_and_one_that_shrinks_begins_anew() {
    let Hull { mut duel, .. } = Hull::default();
    duel.held = 4_000;
    duel.set_bytes(16 << 20);
    duel.note_full();
    for _ in 0..5 {
        (0..8_000_u32).for_each(|key| duel.note(key.wrapping_mul(0x85eb_ca6b), false));
    }
    assert!(duel.bytes > 0 && duel.bytes <= (16 << 20) / 64, "{}", duel.bytes);
    assert!(duel.way() != Way::Sieve, "a circle twice as large as the cache");
    duel.set_bytes(1 << 20);
    assert!(duel.bytes <= (1 << 20) / 32, "{}", duel.bytes);
    duel.set_bytes(100 << 10);
    assert_eq!((duel.bytes, duel.way()), (0, Way::Sieve));
    (0..8_000_u32).for_each(|key| duel.note(key, false));
    assert_eq!(duel.bytes, 0);
}
