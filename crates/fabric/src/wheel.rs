//! The event queue of packets: one slot for each nanosecond of the present epoch, one list for each
//! later epoch.
//!
//! Packets of the same nanosecond come out in the order of their event numbers. A slot is the head
//! of a list of numbers of packets; the packets themselves, which together are larger than a
//! processor's cache, are not touched here.
//!
//! Decision: `docs/decisions/0040-fabric-event-queue.md`.

use std::collections::VecDeque;

use crate::packet::{NONE, PacketId};

const EPOCH_BITS: u32 = 16;
const SLOTS: usize = 1 << EPOCH_BITS;
const SLOT_MASK: u64 = SLOTS as u64 - 1;

/// No packet may be due further ahead: ten simulated seconds.
const EPOCHS_MAX: u64 = 10_000_000_000 >> EPOCH_BITS;

#[derive(Debug)]
pub(crate) struct Wheel {
    epoch: u64,
    /// Latest packet of each nanosecond.
    slots: Vec<PacketId>,
    /// Which slots are not empty, and which words of that.
    occupied: Vec<u64>,
    words: Vec<u64>,
    /// For each packet: the next one in its slot, and the number of its event.
    links: Vec<Link>,
    /// Packets of later epochs with their times, in the order they came.
    later: VecDeque<Vec<(u64, PacketId)>>,
    /// Empty lists for reuse.
    spare: Vec<Vec<(u64, PacketId)>>,
    pending: u64,
    /// Events get ascending numbers when they are set; they wrap.
    event: u32,
    /// Event number from which the ages of due packets are counted.
    born: u32,
    /// The number of the current event.
    pub now_event: u32,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    next: PacketId,
    event: u32,
}

/// Whether event `a` was set before event `b`.
pub(crate) fn earlier(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self {
            epoch: 0,
            slots: vec![NONE; SLOTS],
            occupied: vec![0; SLOTS / 64],
            words: vec![0; SLOTS / 64 / 64],
            links: Vec::new(),
            later: VecDeque::new(),
            spare: Vec::new(),
            pending: 0,
            event: 0,
            born: 0,
            now_event: 0,
        }
    }

    /// A number for an event that is set now.
    pub(crate) fn number(&mut self) -> u32 {
        self.event = self.event.wrapping_add(1);
        self.event
    }

    /// Makes this packet's event the current one.
    pub(crate) fn happen(&mut self, id: PacketId) {
        self.now_event = self.links[id as usize].event;
    }

    /// Sets the order of the current event from outside the wheel: before everything that waits, or
    /// after it.
    pub(crate) fn happen_outside(&mut self, before: bool) {
        self.now_event = if before { self.event.wrapping_sub(1 << 30) } else { self.number() };
    }

    /// Sets a packet's next event, at `at_ns`, which is not before the last time taken out.
    pub(crate) fn insert(&mut self, id: PacketId, at_ns: u64) {
        let event = self.number();
        self.insert_numbered(id, event, at_ns);
    }

    /// The same, with a number given earlier.
    pub(crate) fn insert_numbered(&mut self, id: PacketId, event: u32, at_ns: u64) {
        let link = Link { next: NONE, event };
        match self.links.get_mut(id as usize) {
            Some(place) => *place = link,
            None => self.links.resize(id as usize + 1, link),
        }
        self.file(id, at_ns);
    }

    fn file(&mut self, id: PacketId, at_ns: u64) {
        self.pending += 1;
        let epoch = at_ns >> EPOCH_BITS;
        if epoch == self.epoch {
            self.file_now(id, at_ns);
            return;
        }
        let ahead = (epoch - self.epoch).min(EPOCHS_MAX) as usize - 1;
        while self.later.len() <= ahead {
            self.later.push_back(self.spare.pop().unwrap_or_default());
        }
        self.later[ahead].push((at_ns, id));
    }

    fn file_now(&mut self, id: PacketId, at_ns: u64) {
        let slot = (at_ns & SLOT_MASK) as usize;
        self.links[id as usize].next = self.slots[slot];
        self.slots[slot] = id;
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.words[slot / 4096] |= 1 << (slot / 64 % 64);
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
        for (at_ns, id) in due.drain(..) {
            if at_ns >> EPOCH_BITS == self.epoch {
                self.file_now(id, at_ns);
            } else {
                self.pending -= 1;
                self.file(id, at_ns);
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

    /// Takes everything due at `at_ns` (of the present epoch) into `due` with its age, the youngest
    /// first; `due` may hold what was taken before of the same nanosecond and has not happened yet.
    pub(crate) fn take(&mut self, at_ns: u64, due: &mut Vec<(i32, PacketId)>) {
        let slot = (at_ns & SLOT_MASK) as usize;
        if self.slots[slot] == NONE {
            return;
        }
        if due.is_empty() {
            self.born = self.event;
        }
        let mut id = std::mem::replace(&mut self.slots[slot], NONE);
        while id != NONE {
            let Link { next, event } = self.links[id as usize];
            due.push((self.born.wrapping_sub(event) as i32, id));
            self.pending -= 1;
            id = next;
        }
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        if self.occupied[slot / 64] == 0 {
            self.words[slot / 4096] &= !(1 << (slot / 64 % 64));
        }
        // Nearly always in order already, except where hundreds are due in one nanosecond.
        if !due.is_sorted() {
            due.sort_unstable();
        }
        debug_assert!(due.is_sorted_by(|a, b| a.0 < b.0), "two events of one number");
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
