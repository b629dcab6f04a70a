//! A map of bounded size that evicts the least recently used entry.

use std::collections::HashMap;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Lru {
    capacity: usize,
    places: HashMap<u32, u32>,
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u32,
    value: u32,
    newer: u32,
    older: u32,
}

impl Lru {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity: capacity as usize,
            places: HashMap::new(),
            entries: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(super) fn get(&mut self, key: u32) -> Option<u32> {
        let place = *self.places.get(&key)?;
        self.touch(place);
        Some(self.entries[place as usize].value)
    }

    pub(super) fn put(&mut self, key: u32, value: u32) {
        if let Some(place) = self.places.get(&key).copied() {
            self.entries[place as usize].value = value;
            self.touch(place);
        } else if self.entries.len() < self.capacity {
            let place = self.entries.len() as u32;
            self.entries.push(Entry { key, value, newer: NONE, older: NONE });
            self.places.insert(key, place);
            self.link(place);
        } else if self.capacity > 0 {
            let place = self.oldest;
            self.places.remove(&self.entries[place as usize].key);
            self.entries[place as usize].key = key;
            self.entries[place as usize].value = value;
            self.places.insert(key, place);
            self.touch(place);
        }
    }

    fn touch(&mut self, place: u32) {
        if self.newest == place {
            return;
        }
        let Entry { newer, older, .. } = self.entries[place as usize];
        self.entries[newer as usize].older = older;
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        self.link(place);
    }

    fn link(&mut self, place: u32) {
        let entry = &mut self.entries[place as usize];
        (entry.newer, entry.older) = (NONE, self.newest);
        match self.entries.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_what_was_used_longest_ago() {
        let mut lru = Lru::new(2);
        lru.put(1, 10);
        lru.put(2, 20);
        assert_eq!(lru.get(1), Some(10));
        lru.put(3, 30);
        assert_eq!((lru.get(1), lru.get(2), lru.get(3)), (Some(10), None, Some(30)));
        lru.put(1, 11);
        lru.put(4, 40);
        assert_eq!((lru.get(1), lru.get(3), lru.get(4)), (Some(11), None, Some(40)));
        let mut none = Lru::new(0);
        none.put(1, 10);
        assert_eq!(none.get(1), None);
    }
}
