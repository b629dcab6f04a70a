//! Room for values in register arrays: first fit, and reorganisation when free units are scattered
//! (NetCache, SOSP 2017, section 4.4.2, algorithm 2).
//!
//! A value of n units takes one unit from each of n arrays, all in one row.

use crate::{install::Room, layout::UNITS_MAX};

const ALL: u32 = (1 << UNITS_MAX) - 1;

/// Free units.
#[derive(Debug, Clone)]
pub struct Allocation {
    /// A bit for each array with a free unit in this row.
    free: Vec<u32>,
    /// The first row that may have a free unit.
    first: usize,
}

impl Allocation {
    /// `rows` rows, all free.
    pub fn new(rows: u32) -> Self {
        Self { free: vec![ALL; rows as usize], first: 0 }
    }

    /// Free units.
    pub fn free_units(&self) -> u32 {
        self.free.iter().map(|row| row.count_ones()).sum()
    }

    /// Room for `units`, in the first row that has it.
    pub fn allocate(&mut self, units: u32) -> Option<Room> {
        self.allocate_outside(units, None)
    }

    /// Room in another row, as large as `room`, which stays allocated.
    pub fn allocate_elsewhere(&mut self, room: Room) -> Option<Room> {
        self.allocate_outside(room.bitmap.count_ones(), Some(room.place as usize))
    }

    fn allocate_outside(&mut self, units: u32, outside: Option<usize>) -> Option<Room> {
        if units == 0 || units > UNITS_MAX as u32 {
            return None;
        }
        while self.free.get(self.first) == Some(&0) {
            self.first += 1;
        }
        let rows = self.free.iter().enumerate().skip(self.first);
        let (row, free) = rows
            .filter(|(row, _)| Some(*row) != outside)
            .find(|(_, free)| free.count_ones() >= units)?;
        let bitmap = lowest(*free, units);
        self.free[row] &= !bitmap;
        Some(Room { place: row as u32, bitmap })
    }

    /// Frees units.
    pub fn release(&mut self, room: Room) {
        if let Some(row) = self.free.get_mut(room.place as usize) {
            debug_assert_eq!(*row & room.bitmap, 0, "released twice");
            *row |= room.bitmap;
            self.first = self.first.min(room.place as usize);
        }
    }

    /// The values among `taken` to move out of one row so that `units` fit there: the smallest of
    /// the row with the most free units. Empty if there are fewer free units altogether.
    pub fn reorganise(&self, units: u32, taken: &[Room]) -> Vec<Room> {
        let Some((place, free)) =
            self.free.iter().enumerate().max_by_key(|(_, row)| row.count_ones())
        else {
            return Vec::new();
        };
        if self.free_units() < units {
            return Vec::new();
        }
        let mut row: Vec<Room> =
            taken.iter().filter(|room| room.place as usize == place).copied().collect();
        row.sort_by_key(|room| room.bitmap.count_ones());
        let mut gained = free.count_ones();
        let mut moved = Vec::new();
        for room in row {
            if gained >= units {
                break;
            }
            gained += room.bitmap.count_ones();
            moved.push(room);
        }
        moved
    }
}

/// The lowest `count` set bits.
fn lowest(bits: u32, count: u32) -> u32 {
    (0..count)
        .fold((bits, 0), |(left, taken), _| (left & (left - 1), taken | left & left.wrapping_neg()))
        .1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slides_example() {
        let mut allocation = Allocation::new(3);
        for (units, expected) in [(11, 0), (6, 1), (5, 1), (4, 2)] {
            assert_eq!(allocation.allocate(units).map(|room| room.place), Some(expected));
        }
        assert_eq!(allocation.free_units(), 7);
        assert_eq!(allocation.allocate(8), None);
        assert_eq!(allocation.allocate(0), None);
    }

    #[test]
    fn rooms_never_overlap_and_come_back() {
        let mut allocation = Allocation::new(8);
        let mut rooms: Vec<Room> = Vec::new();
        let mut state = 1u32;
        for _ in 0..5_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if state >> 31 == 0 {
                if let Some(room) = allocation.allocate(state >> 16 & 7 | 1) {
                    let clash = |other: &&Room| {
                        other.place == room.place && other.bitmap & room.bitmap != 0
                    };
                    assert_eq!(rooms.iter().find(clash), None);
                    rooms.push(room);
                }
            } else if !rooms.is_empty() {
                allocation.release(rooms.swap_remove(state as usize % rooms.len()));
            }
            let taken: u32 = rooms.iter().map(|room| room.bitmap.count_ones()).sum();
            assert_eq!(allocation.free_units() + taken, 88);
        }
    }

    #[test]
    fn a_value_moves_to_another_row_only() {
        let mut allocation = Allocation::new(2);
        let room = allocation.allocate(3).expect("it is empty");
        let moved = allocation.allocate_elsewhere(room).expect("the other row is empty");
        assert_eq!((room.place, moved.place), (0, 1));
        assert!(allocation.allocate(9).is_none(), "both rooms are taken");
        assert_eq!(Allocation::new(1).allocate_elsewhere(room), None);
    }

    #[test]
    fn reorganising_makes_room_of_scattered_units() {
        let mut allocation = Allocation::new(2);
        let rooms: Vec<Room> = (0..4).filter_map(|_| allocation.allocate(5)).collect();
        allocation.release(rooms[0]);
        allocation.release(rooms[2]);
        assert_eq!(allocation.allocate(7), None);
        let taken = [rooms[1], rooms[3]];
        let moved = allocation.reorganise(7, &taken);
        assert_eq!(moved.len(), 1);
        let elsewhere = allocation.allocate_elsewhere(moved[0]).expect("the other row has room");
        assert_ne!(elsewhere.place, moved[0].place);
        assert_eq!(elsewhere.bitmap.count_ones(), 5);
        assert_eq!(allocation.allocate(7), None, "its old room was not released");
        allocation.release(moved[0]);
        assert!(allocation.allocate(7).is_some());
        assert!(allocation.reorganise(23, &taken).is_empty());
    }
}
