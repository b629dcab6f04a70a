//! Finds the row of a command name in a few nanoseconds: an open-addressing hash table built at
//! compile time.

use super::{Command, table};

/// Number of slots: about four per command, so that a search seldom reads a second one.
const SLOTS: usize = 2048;

/// Marks an empty slot.
const EMPTY: Slot = Slot { group: u8::MAX, row: 0 };

/// The position of a command in [`table::GROUPS`].
#[derive(Clone, Copy)]
struct Slot {
    group: u8,
    row: u8,
}

static INDEX: [Slot; SLOTS] = build();

#[inline]
pub(super) fn lookup(name: &[u8]) -> Option<&'static Command> {
    let mut at = hash(name);
    loop {
        let slot = INDEX.get(at % SLOTS)?;
        // An empty slot names no group and ends the search; there is always one, as `build` fails
        // to compile on a full table.
        let command = table::GROUPS.get(usize::from(slot.group))?.get(usize::from(slot.row))?;
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        at += 1;
    }
}

#[expect(clippy::indexing_slicing, reason = "runs in the compiler, where a panic is a build error")]
const fn build() -> [Slot; SLOTS] {
    let mut slots = [EMPTY; SLOTS];
    let mut group = 0;
    while group < table::GROUPS.len() {
        let mut row = 0;
        while row < table::GROUPS[group].len() {
            let mut at = hash(table::GROUPS[group][row].name.as_bytes()) % SLOTS;
            while slots[at].group != EMPTY.group {
                at = (at + 1) % SLOTS;
            }
            slots[at] = Slot { group: group as u8, row: row as u8 };
            row += 1;
        }
        assert!(row <= u8::MAX as usize);
        group += 1;
    }
    assert!(group < EMPTY.group as usize);
    slots
}

/// Hashes the length, the first and the last bytes of a name, which is all of a name of up to
/// sixteen bytes. Upper and lower case give the same hash: they differ in one bit, which is set
/// here.
#[inline]
const fn hash(name: &[u8]) -> usize {
    const LOWER_CASE: u64 = 0x2020_2020_2020_2020;
    let (head, tail) = if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk()) {
        (u64::from_le_bytes(*head), u64::from_le_bytes(*tail))
    } else if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk()) {
        (u32::from_le_bytes(*head) as u64, u32::from_le_bytes(*tail) as u64)
    } else if let (Some(head), Some(tail)) = (name.first_chunk(), name.last_chunk()) {
        (u16::from_le_bytes(*head) as u64, u16::from_le_bytes(*tail) as u64)
    } else {
        (0, 0)
    };
    let head = (head | LOWER_CASE).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let tail = (tail | LOWER_CASE).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    ((head ^ tail.rotate_left(23)).wrapping_add(name.len() as u64) >> 40) as usize
}
