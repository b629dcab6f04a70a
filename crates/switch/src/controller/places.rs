//! Places in the data plane: allocation and eviction.

use std::time::Duration;

use rand_xoshiro::rand_core::Rng;

use super::{Cached, Command, Controller, View};
use crate::{
    install::{Key, Room},
    layout::UNIT_BYTES,
};

impl Controller {
    /// Places kept free, so that a hot key need not wait until an evicted place is unused.
    pub(super) fn reserve(&self) -> usize {
        self.config.entries as usize / 16
    }

    /// The least requested of a few cached keys.
    pub(super) fn coldest(&mut self, view: &impl View) -> Option<u32> {
        let places = self.cached.len() as u64;
        let mut drawn = Vec::with_capacity(self.config.compared);
        // Most places are occupied when this is called; it is bounded nevertheless.
        for _ in 0..self.config.compared * 8 {
            let place = ((u128::from(self.draw()) * u128::from(places)) >> 64) as u32;
            if self.cached[place as usize].is_some() {
                drawn.push(place);
            }
            if drawn.len() == self.config.compared {
                break;
            }
        }
        drawn.into_iter().min_by_key(|place| view.count(*place))
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.random.next_u64()
    }

    pub(super) fn admit(&mut self, key: Key, value_bytes: usize, version: u64) -> Option<u32> {
        let place = self.free.pop()?;
        let room = match &mut self.allocation {
            None => Some(Room { place, bitmap: 0 }),
            Some(allocation) => {
                let units = value_bytes.div_ceil(UNIT_BYTES).max(1) as u32;
                allocation.allocate(units)
            }
        };
        let Some(room) = room else {
            self.free.push(place);
            self.make_room(value_bytes);
            return None;
        };
        self.by_name.insert(key.name, place);
        let cached = Cached { key: key.clone(), room, version, asked: Duration::ZERO, invalid: 0 };
        self.cached[place as usize] = Some(cached);
        self.ready.push_back(Command::Admit(place, key, room, version));
        Some(place)
    }

    /// Reorganizes, at most once a period: values in the way move to other rows. Those that fit
    /// nowhere else are evicted. What was refused fits when the period ends.
    fn make_room(&mut self, value_bytes: usize) {
        if std::mem::replace(&mut self.reorganised, true) {
            return;
        }
        let Some(allocation) = &mut self.allocation else { return };
        let taken: Vec<Room> = self.cached.iter().flatten().map(|cached| cached.room).collect();
        let units = value_bytes.div_ceil(UNIT_BYTES).max(1) as u32;
        let mut unmoved = Vec::new();
        for room in allocation.reorganise(units, &taken) {
            let mut cached = (0u32..).zip(&mut self.cached);
            let Some((place, Some(cached))) =
                cached.find(|(_, one)| one.as_ref().is_some_and(|cached| cached.room == room))
            else {
                continue;
            };
            if let Some(elsewhere) = allocation.allocate_elsewhere(room) {
                cached.room = elsewhere;
                self.left.push(room);
                self.stats.moved += 1;
                self.ready.push_back(Command::Move(place, elsewhere));
            } else {
                unmoved.push(place);
            }
        }
        for place in unmoved {
            self.evict(place);
        }
    }

    pub(super) fn evict(&mut self, place: u32) {
        if let Some(cached) = self.cached[place as usize].take() {
            self.by_name.remove(&cached.key.name);
            self.resting.push((place, cached.room));
            self.stats.evicted += 1;
            self.ready.push_back(Command::Evict(place, cached.key.name));
        }
    }
}
