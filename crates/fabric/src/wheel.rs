//! The event queue of packets: one slot for each nanosecond of the present epoch, one list for each
//! later epoch.
//!
//! Packets of the same nanosecond come out in the order of their event numbers. A slot is a list of
//! blocks of events, each a cache line; the packets themselves, which together are larger than a
//! processor's cache, are not touched here.
//!
//! Decision: `docs/decisions/0040-fabric-event-queue.md`.

use std::{cmp::Reverse, collections::VecDeque};

use crate::{
    domain::Domain,
    packet::{NONE, PacketId},
    tcp::NEVER,
};

const EPOCH_BITS: u32 = 16;
const SLOTS: usize = 1 << EPOCH_BITS;
const SLOT_MASK: u64 = SLOTS as u64 - 1;

/// No packet may be due further ahead: ten simulated seconds.
const EPOCHS_MAX: u64 = 10_000_000_000 >> EPOCH_BITS;

#[derive(Debug)]
pub(crate) struct Wheel {
    epoch: u64,
    /// The events of each nanosecond.
    slots: Vec<Slot>,
    /// Which slots are not empty, and which words of that.
    occupied: Vec<u64>,
    words: Vec<u64>,
    blocks: Vec<Block>,
    /// The block to use next, or [`NONE`]; the others follow as `older`.
    free: u32,
    /// Events of later epochs with their times, in the order they came.
    later: VecDeque<Vec<(u64, Event)>>,
    /// Empty lists for reuse.
    spare: Vec<Vec<(u64, Event)>>,
    pending: u64,
    /// Time and domain of the numbers that events get now, and the last count of this nanosecond.
    prefix: u64,
    count: u64,
    /// The number of the current event.
    pub now_event: u64,
}

/// The number of an event, and its packet.
pub(crate) type Event = (u64, PacketId);

/// The latest block of a slot times eight, and how many events it has; [`EMPTY`].
type Slot = u32;

const EMPTY: Slot = u32::MAX;
const LENGTH_BITS: u32 = 3;

/// Some events of one slot. Only the latest block of a slot is not full.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Block {
    numbers: [u64; BLOCK_EVENTS],
    packets: [PacketId; BLOCK_EVENTS],
    /// The block before it in its slot, or [`NONE`].
    older: u32,
}

const BLOCK_EVENTS: usize = 5;

const _: () = assert!(size_of::<Block>() == 64, "a block is a cache line");

impl Block {
    const UNUSED: Self =
        Self { numbers: [0; BLOCK_EVENTS], packets: [NONE; BLOCK_EVENTS], older: NONE };
}

/// The number of an event: the time at which it is set, the domain that sets it, a count.
const COUNT_BITS: u32 = 20;
const TIME_SHIFT: u32 = COUNT_BITS + 1;

/// The last time that fits into a number.
pub(crate) const END_NS_MAX: u64 = u64::MAX >> TIME_SHIFT;

impl Wheel {
    pub(crate) fn new() -> Self {
        Self {
            epoch: 0,
            slots: vec![EMPTY; SLOTS],
            occupied: vec![0; SLOTS / 64],
            words: vec![0; SLOTS / 64 / 64],
            blocks: Vec::new(),
            free: NONE,
            later: VecDeque::new(),
            spare: Vec::new(),
            pending: 0,
            prefix: 0,
            count: 0,
            now_event: 0,
        }
    }

    /// The clock is at `at_ns`. `false`: more events have been set in the last nanosecond than can
    /// be counted.
    #[inline]
    pub(crate) fn begin(&mut self, at_ns: u64) -> bool {
        let counted = self.count >> COUNT_BITS == 0;
        if self.prefix >> TIME_SHIFT != at_ns {
            self.prefix = at_ns << TIME_SHIFT;
            self.count = 0;
        }
        counted
    }

    /// From now on this domain sets events.
    #[inline]
    pub(crate) fn enter(&mut self, domain: Domain) {
        self.prefix = self.prefix >> TIME_SHIFT << TIME_SHIFT | (domain as u64) << COUNT_BITS;
    }

    /// A number for an event that is set now.
    pub(crate) fn number(&mut self) -> u64 {
        self.count += 1;
        self.prefix + self.count
    }

    /// Sets the order of the current event from outside the wheel: before everything that waits, or
    /// after it.
    pub(crate) fn happen_outside(&mut self, before: bool) {
        self.now_event = if before { 0 } else { self.number() };
    }

    /// Sets a packet's next event, at `at_ns`, which is not before the last time taken out.
    pub(crate) fn insert(&mut self, id: PacketId, at_ns: u64) {
        let event = self.number();
        self.insert_numbered(id, event, at_ns);
    }

    /// The same, with a number given earlier.
    pub(crate) fn insert_numbered(&mut self, id: PacketId, event: u64, at_ns: u64) {
        self.file((event, id), at_ns);
    }

    fn file(&mut self, event: Event, at_ns: u64) {
        self.pending += 1;
        let epoch = at_ns >> EPOCH_BITS;
        if epoch == self.epoch {
            self.file_now(event, at_ns);
            return;
        }
        let ahead = (epoch - self.epoch).min(EPOCHS_MAX) as usize - 1;
        while self.later.len() <= ahead {
            self.later.push_back(self.spare.pop().unwrap_or_default());
        }
        self.later[ahead].push((at_ns, event));
    }

    fn file_now(&mut self, (number, id): Event, at_ns: u64) {
        let slot = (at_ns & SLOT_MASK) as usize;
        let mut latest = self.slots[slot];
        let mut length = (latest & ((1 << LENGTH_BITS) - 1)) as usize;
        if length >= BLOCK_EVENTS {
            let older = if latest == EMPTY { NONE } else { latest >> LENGTH_BITS };
            (latest, length) = (self.unused_block(older) << LENGTH_BITS, 0);
        }
        let block = &mut self.blocks[(latest >> LENGTH_BITS) as usize];
        block.numbers[length] = number;
        block.packets[length] = id;
        self.slots[slot] = latest + 1;
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.words[slot / 4096] |= 1 << (slot / 64 % 64);
    }

    /// A block that comes after `older`.
    fn unused_block(&mut self, older: u32) -> u32 {
        if self.free == NONE {
            self.blocks.push(Block { older, ..Block::UNUSED });
            return (self.blocks.len() - 1) as u32;
        }
        let unused = self.free;
        let block = &mut self.blocks[unused as usize];
        self.free = std::mem::replace(&mut block.older, older);
        unused
    }

    /// The next time anything is due, from `from_ns` on; moves to its epoch if that is by
    /// `until_ns`.
    pub(crate) fn next_time(&mut self, from_ns: u64, until_ns: u64) -> Option<u64> {
        let mut from =
            if from_ns >> EPOCH_BITS == self.epoch { (from_ns & SLOT_MASK) as usize } else { 0 };
        loop {
            if self.pending == 0 {
                return None;
            }
            if let Some(slot) = self.next_slot(from) {
                return Some(self.epoch << EPOCH_BITS | slot as u64);
            }
            if (self.epoch + 1) << EPOCH_BITS > until_ns {
                return None;
            }
            self.turn();
            from = 0;
        }
    }

    /// A time before which nothing is due, from `from_ns` on; turns to no other epoch.
    pub(crate) fn not_before(&self, from_ns: u64) -> u64 {
        if self.pending == 0 {
            return NEVER;
        }
        let from =
            if from_ns >> EPOCH_BITS == self.epoch { (from_ns & SLOT_MASK) as usize } else { 0 };
        if let Some(slot) = self.next_slot(from) {
            return self.epoch << EPOCH_BITS | slot as u64;
        }
        let empty = self.later.iter().take_while(|due| due.is_empty()).count() as u64;
        (self.epoch + 1 + empty) << EPOCH_BITS
    }

    #[inline]
    fn next_slot(&self, from: usize) -> Option<usize> {
        let word = from / 64;
        let rest = self.occupied[word] & (u64::MAX << (from % 64));
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let mut group = word / 64;
        let mut bits = self.words[group] & (u64::MAX << (word % 64)) & !(1 << (word % 64));
        loop {
            if bits != 0 {
                let word = group * 64 + bits.trailing_zeros() as usize;
                return Some(word * 64 + self.occupied[word].trailing_zeros() as usize);
            }
            group += 1;
            bits = *self.words.get(group)?;
        }
    }

    /// Begins the next epoch.
    fn turn(&mut self) {
        self.epoch += 1;
        let Some(mut due) = self.later.pop_front() else { return };
        for (at_ns, event) in due.drain(..) {
            if at_ns >> EPOCH_BITS == self.epoch {
                self.file_now(event, at_ns);
            } else {
                self.pending -= 1;
                self.file(event, at_ns);
            }
        }
        self.spare.push(due);
    }

    /// Moves an empty wheel to the epoch of `at_ns`.
    pub(crate) fn advance(&mut self, at_ns: u64) {
        if self.pending == 0 {
            self.epoch = self.epoch.max(at_ns >> EPOCH_BITS);
            self.later.clear();
        }
    }

    /// Takes everything due at `at_ns` (of the present epoch) into `due` with its number, the
    /// latest first; `due` may hold what was taken before of the same nanosecond and has not
    /// happened yet.
    #[inline]
    pub(crate) fn take(&mut self, at_ns: u64, due: &mut Vec<Event>) {
        let slot = (at_ns & SLOT_MASK) as usize;
        if self.slots[slot] != EMPTY {
            self.take_slot(slot, due);
        }
    }

    fn take_slot(&mut self, slot: usize, due: &mut Vec<Event>) {
        let latest = std::mem::replace(&mut self.slots[slot], EMPTY);
        let mut at = latest >> LENGTH_BITS;
        let mut length = (latest & ((1 << LENGTH_BITS) - 1)) as usize;
        while at != NONE {
            let block = &mut self.blocks[at as usize];
            due.extend((0..length).rev().map(|place| (block.numbers[place], block.packets[place])));
            self.pending -= length as u64;
            let older = std::mem::replace(&mut block.older, self.free);
            self.free = at;
            (at, length) = (older, BLOCK_EVENTS);
        }
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        if self.occupied[slot / 64] == 0 {
            self.words[slot / 4096] &= !(1 << (slot / 64 % 64));
        }
        // Nearly always in order already, except where hundreds are due in one nanosecond.
        if !due.is_sorted_by(|a, b| a.0 > b.0) {
            due.sort_unstable_by_key(|event| Reverse(event.0));
        }
        debug_assert!(due.is_sorted_by(|a, b| a.0 > b.0), "two events of one number");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port becomes free in the same nanosecond in which a packet arrives for it: the event of
    /// the previous packet was scheduled first and precedes the other events of that nanosecond.
    #[test]
    fn what_is_set_for_now_comes_in_its_order() {
        let mut wheel = Wheel::new();
        let number = wheel.number();
        wheel.insert(1, 5);
        wheel.insert(2, 5);
        let mut due = Vec::new();
        wheel.take(5, &mut due);
        assert_eq!(due.pop().map(|(_, id)| id), Some(1));
        wheel.insert(3, 5);
        wheel.insert_numbered(4, number, 5);
        wheel.take(5, &mut due);
        let order: Vec<PacketId> = due.iter().rev().map(|(_, id)| *id).collect();
        assert_eq!(order, [4, 2, 3]);
    }
}
