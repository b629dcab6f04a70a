//! The arena: items packed one after another into mapped segments.
//!
//! A new item goes to the end of the open segment; a dead one leaves a hole. When holes exceed an
//! eighth of all bytes, the segment with the most holes is compacted: its survivors move to a
//! second open segment, separate from new items because they tend to live longer, and its memory is
//! reused or returned. Any item fits into any segment, so no mix of sizes wastes memory, as size
//! classes would.
//!
//! An item too large to pack gets its own neighbouring segment slots, of which only the pages it
//! fills are resident.
//!
//! The charge counts pages, so it includes dead items and padding.

mod compaction;

use std::time::Duration;

use bytemuck::{Pod, Zeroable};

use crate::config::Config;
use crate::item::{self, Header, Item, Key, LINE_BYTES, Location, MARKS, Shape, UNIT_BYTES, nanos};
use crate::mapping::{Collapse, Mapping, PAGE_BYTES, pages, prefetch};
use crate::replacement::Arena;
use crate::slots::Slots;
use compaction::Scan;

/// Most lines of an item that are fetched ahead: a value of 64 bytes under a short key may end in
/// the third. The processor fetches a limited number at once.
const LINES_FETCHED: usize = 3;

/// Length of a segment: large enough that returning one is one cheap call, small enough that
/// compacting one takes well under a millisecond.
pub(crate) const SEGMENT_BYTES: usize = 256 << 10;
/// Larger items get slots of their own: packed, they could leave an eighth of a segment unused.
pub(crate) const PACKED_BYTES_MAX: usize = SEGMENT_BYTES / 8;
const SLOTS: usize = Config::BYTES_MAX / SEGMENT_BYTES;
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Segment {
    /// Number of slots in use; 0 if free.
    run: u32,
    /// Bytes filled from the start.
    used: u32,
    /// Bytes of live items. A large item counts whole pages, because nothing else can use them.
    live: u32,
    large: u32,
    /// Earliest expiry of an item here, in nanoseconds.
    earliest: u64,
}

/// The open segment that an item is appended to.
#[derive(Debug, Clone, Copy)]
enum Stream {
    New,
    Survivors,
}

pub(crate) struct Log {
    arena: Mapping<u8>,
    segments: Mapping<Segment>,
    slots: Slots,
    /// Slots at and above were never taken.
    slots_end: usize,
    /// Open segment of each [`Stream`].
    open: [Option<usize>; 2],
    /// A free segment kept resident, so that a steady state costs no system calls.
    spare: Option<usize>,
    compacting: Option<Scan>,
    /// Pages filled, without the segment being compacted.
    filled: usize,
    live: usize,
    /// Earliest expiry of any item, in nanoseconds.
    earliest: u64,
}

impl Log {
    /// Maximum resident memory beyond [`Log::charge`]: the two open segments, the spare one, the
    /// one being compacted.
    pub(crate) const UNCHARGED_BYTES_MAX: usize = 4 * SEGMENT_BYTES;

    pub(crate) fn new() -> Self {
        Self {
            arena: Mapping::reserve(SLOTS * SEGMENT_BYTES),
            segments: Mapping::reserve(SLOTS),
            slots: Slots::new(SLOTS),
            slots_end: 0,
            open: [None; 2],
            spare: None,
            compacting: None,
            filled: 0,
            live: 0,
            earliest: u64::MAX,
        }
    }

    /// The arena, how many bytes from its start may be resident, and how many of them are.
    pub(crate) fn retire(mut self) -> (Mapping<u8>, usize, usize) {
        let charge = self.charge();
        // Memory that is not charged is released at once; it is four segments at most.
        for slot in self
            .open
            .into_iter()
            .flatten()
            .chain(self.spare)
            .chain(self.compacting.map(|scan| scan.slot))
        {
            self.arena.release(slot * SEGMENT_BYTES..(slot + 1) * SEGMENT_BYTES);
        }
        (self.arena, self.slots_end * SEGMENT_BYTES, charge)
    }

    /// Bytes that count against the budget.
    pub(crate) fn charge(&self) -> usize {
        let table = pages(self.slots_end * size_of::<Segment>());
        // Survivors that were not moved yet are charged once, here; after that at their new place.
        let moving =
            self.compacting.map_or(0, |scan| self.segments[scan.slot].live as usize + PAGE_BYTES);
        self.filled + moving + table
    }

    /// As [`Mapping::next_full`], of the arena.
    pub(crate) fn next_full(&mut self) -> Option<Collapse> {
        let (segments, open, spare) = (&self.segments, self.open, self.spare);
        let compacting = self.compacting.map(|scan| scan.slot);
        // The last page of a closed segment is filled, unless what is released after it is a page.
        let is_full = |slot: usize| {
            let Segment { run, used, large, .. } = segments[slot];
            let changes = open.contains(&Some(slot)) || [spare, compacting].contains(&Some(slot));
            run == 1 && large == 0 && pages(used as usize) == SEGMENT_BYTES && !changes
        };
        self.arena.next_full(self.slots_end * SEGMENT_BYTES, |range| {
            (range.start / SEGMENT_BYTES..range.end.div_ceil(SEGMENT_BYTES)).all(is_full)
        })
    }

    /// Bytes of live items.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Returns the increase of [`Log::charge`] when an item of `bytes` is appended.
    pub(crate) fn cost(&self, bytes: usize) -> usize {
        match self.open[Stream::New as usize].map(|slot| self.segments[slot].used as usize) {
            Some(used) if bytes <= PACKED_BYTES_MAX && used + bytes <= SEGMENT_BYTES => {
                pages(used + bytes) - pages(used)
            }
            _ => pages(bytes),
        }
    }

    /// The item at `location`.
    #[inline]
    pub(crate) fn item(&self, location: Location) -> Item<'_> {
        Item::read(&self.arena[location as usize * UNIT_BYTES..])
    }

    /// Prefetches the beginning of the item at `location`, which probably has `bytes` bytes.
    pub(crate) fn prefetch(&self, location: Location, bytes: usize) {
        let start = location as usize * UNIT_BYTES;
        let lines = (start % LINE_BYTES + bytes).div_ceil(LINE_BYTES);
        let item = &self.arena[start..];
        item.chunks(LINE_BYTES).take(lines.min(LINES_FETCHED)).for_each(prefetch);
    }

    /// Returns whether the item at `location` is stored under `key`.
    #[inline]
    pub(crate) fn has_key(&self, location: Location, key: Key<'_>) -> bool {
        item::has_key(&self.arena[location as usize * UNIT_BYTES..], key)
    }

    /// The header at `location`.
    #[inline]
    pub(crate) fn header(&self, location: Location) -> Header {
        item::header(&self.arena[location as usize * UNIT_BYTES..])
    }

    #[inline]
    fn header_mut(&mut self, location: Location) -> &mut Header {
        item::header_mut(&mut self.arena[location as usize * UNIT_BYTES..])
    }

    /// The lengths of the item at `location`.
    pub(crate) fn shape(&self, location: Location) -> Shape {
        Shape::read(&self.arena[location as usize * UNIT_BYTES..])
    }

    /// Stores an item; `None` when no addresses are left for it.
    pub(crate) fn append(&mut self, item: &Item<'_>) -> Option<Location> {
        let location = self.allocate(Stream::New, item.shape().bytes())?;
        item.write(&mut self.arena[location as usize * UNIT_BYTES..]);
        self.note_expiry(location);
        Some(location)
    }

    /// Writes an item of the same shape over the one at `location`; links and marks stay.
    pub(crate) fn overwrite(&mut self, location: Location, item: &Item<'_>) {
        let Header { prev, next, meta, .. } = self.header(location);
        item.write(&mut self.arena[location as usize * UNIT_BYTES..]);
        let header = self.header_mut(location);
        (header.prev, header.next) = (prev, next);
        header.meta |= meta & MARKS;
        self.note_expiry(location);
    }

    /// Overwrites the value at `location` by one in two parts; returns false if the lengths differ.
    pub(crate) fn overwrite_value(
        &mut self,
        location: Location,
        [first, second]: [&[u8]; 2],
    ) -> bool {
        let held = item::value_mut(&mut self.arena[location as usize * UNIT_BYTES..]);
        let fits = held.len() == first.len() + second.len();
        if fits {
            held[..first.len()].copy_from_slice(first);
            held[first.len()..].copy_from_slice(second);
        }
        fits
    }

    /// Takes over links and marks from another item.
    pub(crate) fn inherit(&mut self, from: Location, to: Location) {
        let Header { prev, next, meta, .. } = self.header(from);
        let header = self.header_mut(to);
        (header.prev, header.next) = (prev, next);
        header.meta = header.meta & !MARKS | meta & MARKS;
    }

    /// Marks the item at `location` as dead, and releases its segment if it was the last live item.
    pub(crate) fn kill(&mut self, location: Location) {
        self.header_mut(location).set_dead();
        let slot = slot_of(location);
        let bytes = self.shape(location).bytes();
        let segment = &mut self.segments[slot];
        let bytes = if segment.large != 0 { pages(bytes) } else { bytes };
        segment.live -= bytes as u32;
        self.live -= bytes;
        if self.segments[slot].live > 0 || self.compacting.is_some_and(|scan| scan.slot == slot) {
            return;
        }
        self.filled -= pages(self.segments[slot].used as usize);
        if self.open.contains(&Some(slot)) {
            self.segments[slot].used = 0;
        } else {
            self.free(slot);
        }
    }

    /// A segment in which something may have expired by `now`.
    pub(crate) fn due(&mut self, now: Duration) -> Option<usize> {
        if self.earliest > nanos(now) {
            return None;
        }
        let segments = &self.segments[..self.slots_end];
        let taken = |segment: &&Segment| segment.run > 0;
        let due =
            segments.iter().position(|segment| segment.run > 0 && segment.earliest <= nanos(now));
        if due.is_none() {
            self.earliest =
                segments.iter().filter(taken).map(|s| s.earliest).min().unwrap_or(u64::MAX);
        }
        due
    }

    /// The next live item of a segment at or after `offset`; advances `offset` past it.
    pub(crate) fn next_in(&self, slot: usize, offset: &mut usize) -> Option<Location> {
        while *offset < self.segments[slot].used as usize {
            let location = location_at(slot, *offset);
            *offset += self.shape(location).bytes();
            if !self.header(location).is_dead() {
                return Some(location);
            }
        }
        None
    }

    /// Recomputes the earliest expiry in a segment.
    pub(crate) fn renew_due(&mut self, slot: usize) {
        let mut earliest = u64::MAX;
        let mut offset = 0;
        while let Some(location) = self.next_in(slot, &mut offset) {
            earliest = earliest.min(self.item(location).expires_at.map_or(u64::MAX, nanos));
        }
        self.segments[slot].earliest = earliest;
    }

    fn allocate(&mut self, stream: Stream, bytes: usize) -> Option<Location> {
        if bytes > PACKED_BYTES_MAX {
            return self.allocate_large(bytes);
        }
        let fits = |slot: &usize| self.segments[*slot].used as usize + bytes <= SEGMENT_BYTES;
        let slot = match self.open[stream as usize].filter(fits) {
            Some(slot) => slot,
            None => {
                self.close(stream);
                let slot = self.claim_segment()?;
                self.open[stream as usize] = Some(slot);
                slot
            }
        };
        let segment = &mut self.segments[slot];
        let offset = segment.used as usize;
        segment.used += bytes as u32;
        segment.live += bytes as u32;
        self.filled += pages(offset + bytes) - pages(offset);
        self.live += bytes;
        Some(location_at(slot, offset))
    }

    fn allocate_large(&mut self, bytes: usize) -> Option<Location> {
        let run = bytes.div_ceil(SEGMENT_BYTES);
        let slot = self.slots.claim(run)?;
        self.slots_end = self.slots_end.max(slot + run);
        let whole = pages(bytes);
        self.segments[slot] = Segment {
            run: run as u32,
            used: whole as u32,
            live: whole as u32,
            large: 1,
            earliest: u64::MAX,
        };
        self.filled += whole;
        self.live += whole;
        Some(location_at(slot, 0))
    }

    fn claim_segment(&mut self) -> Option<usize> {
        let slot = self.spare.take().or_else(|| self.slots.claim(1))?;
        self.slots_end = self.slots_end.max(slot + 1);
        self.segments[slot] = Segment { run: 1, earliest: u64::MAX, ..Segment::zeroed() };
        Some(slot)
    }

    /// Stops filling the open segment of `stream`, and releases the pages after its end, which may
    /// be resident from an earlier use.
    fn close(&mut self, stream: Stream) {
        let Some(slot) = self.open[stream as usize].take() else { return };
        let start = slot * SEGMENT_BYTES;
        let used = self.segments[slot].used as usize;
        if used == 0 {
            self.free(slot);
        } else {
            self.arena.release(start + used..start + SEGMENT_BYTES);
        }
    }

    /// Keeps or returns the memory of a segment or a large item without live items.
    fn free(&mut self, slot: usize) {
        let Segment { run, used, large, .. } = self.segments[slot];
        self.segments[slot] = Segment::zeroed();
        if large == 0 && self.spare.is_none() {
            self.spare = Some(slot);
            return;
        }
        let start = slot * SEGMENT_BYTES;
        let end = start + if large == 0 { SEGMENT_BYTES } else { used as usize };
        self.arena.release(start..end);
        self.slots.free(slot, run as usize);
    }

    fn note_expiry(&mut self, location: Location) {
        if let Some(at) = self.item(location).expires_at {
            let segment = &mut self.segments[slot_of(location)];
            segment.earliest = segment.earliest.min(nanos(at));
            self.earliest = self.earliest.min(nanos(at));
        }
    }
}

fn slot_of(location: Location) -> usize {
    location as usize / (SEGMENT_BYTES / UNIT_BYTES)
}

fn location_at(slot: usize, offset: usize) -> Location {
    ((slot * SEGMENT_BYTES + offset) / UNIT_BYTES) as Location
}

impl Arena for Log {
    fn prev(&self, id: Location) -> Location {
        self.header(id).prev
    }

    fn set_prev(&mut self, id: Location, prev: Location) {
        self.header_mut(id).prev = prev;
    }

    fn next(&self, id: Location) -> Location {
        self.header(id).next
    }

    fn set_next(&mut self, id: Location, next: Location) {
        self.header_mut(id).next = next;
    }

    fn marks(&self, id: Location) -> u8 {
        (self.header(id).meta & MARKS) as u8
    }

    fn set_marks(&mut self, id: Location, marks: u8) {
        let meta = self.header(id).meta & !MARKS | u32::from(marks) & MARKS;
        // Most hits find the mark set: a line that is not written need not go back to memory.
        if self.header(id).meta != meta {
            self.header_mut(id).meta = meta;
        }
    }

    fn hash(&self, id: Location) -> u32 {
        self.header(id).hash
    }
}
