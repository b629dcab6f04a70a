//! Exact hit counts of the cached keys: one counter for each place in the cache.

use alloc::{vec, vec::Vec};

/// Saturating 16-bit counters by the cached key's place.
#[derive(Debug, Clone)]
pub struct Counters {
    counters: Vec<u16>,
}

impl Counters {
    /// Counters for `places` cached keys, all zero.
    pub fn new(places: usize) -> Self {
        Self { counters: vec![0; places] }
    }

    /// Counts a hit. A place that is not there counts nowhere.
    pub fn add(&mut self, place: usize) {
        if let Some(counter) = self.counters.get_mut(place) {
            *counter = counter.saturating_add(1);
        }
    }

    /// Hits counted; 0 for a place that is not there.
    pub fn count(&self, place: usize) -> u16 {
        self.counters.get(place).copied().unwrap_or(0)
    }

    /// Forgets a place's hits, when another key takes it.
    pub fn reset(&mut self, place: usize) {
        if let Some(counter) = self.counters.get_mut(place) {
            *counter = 0;
        }
    }

    /// Of some places, the one hit least; the first of equals. NetCache's controller compares a new
    /// hot key with a few cached ones, drawn at random, rather than with all.
    pub fn coldest(&self, places: impl IntoIterator<Item = usize>) -> Option<usize> {
        places.into_iter().min_by_key(|&place| self.count(place))
    }

    /// Ends a period: forgets all hits.
    pub fn clear(&mut self) {
        self.counters.fill(0);
    }
}
