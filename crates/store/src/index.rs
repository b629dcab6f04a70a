//! Hash index from an item's hash to its location: one flat table that grows in place.
//!
//! A bucket is one cache line: twelve one-byte tags, twelve locations, and the number of items that
//! passed on because this bucket was full (Bronson and Shi, "F14", 2019). A search reads its home
//! bucket and continues only while an item has passed that bucket, so there are no tombstones.
//!
//! The home of a hash is `hash * buckets >> 32`, which keeps hashes in order. A table can therefore
//! grow or shrink in place by any factor, not only by two: a cursor runs over the homes, from the
//! top when growing and from the bottom when shrinking, and moves the items of one home at a time;
//! homes that the cursor has passed have the new width. There is no second table, no pause longer
//! than one home takes, and the load is between 0.68 and 0.88 at any size.

use bytemuck::{Pod, Zeroable};

use crate::item::Location;
use crate::mapping::{Collapse, Mapping, PAGE_BYTES, pages, prefetch};

const SLOTS: usize = 12;
const BUCKETS_MIN: usize = 8;
/// Grow when more than 10.2 of 12 slots are taken, to 5/4 of the buckets.
const GROW_AT_TENTHS: usize = 102;
/// Shrink when fewer than 6 of 12 slots are taken, so that 9 are.
const SHRINK_AT_TENTHS: usize = 60;
const SHRINK_TO: usize = 9;
/// Homes moved per change of the table. A stretch over `n` homes then ends within `n / 2` changes,
/// before the load exceeds 0.9.
const HOMES_PER_CHANGE: usize = 2;
/// Buckets whose memory is released at a time after shrinking: 256 KiB.
const RELEASE_BUCKETS: usize = 4096;
/// Maximum number of buckets: enough for a full arena of the smallest items, with a margin.
const BUCKETS_MAX: usize = 1 << 28;

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Bucket {
    /// 0 is an empty slot.
    tags: [u8; SLOTS],
    passed: u32,
    locations: [Location; SLOTS],
}

impl Bucket {
    /// A bit for each slot with this tag.
    fn matches(&self, tag: u8) -> u32 {
        let mut found = 0;
        for (slot, &other) in self.tags.iter().enumerate() {
            found |= u32::from(other == tag) << slot;
        }
        found
    }
}

/// A stretch of the table in progress.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    target: usize,
    /// Growing: homes from here up have moved. Shrinking: homes below here have.
    cursor: usize,
}

/// The index. Callers distinguish items with equal tags by closures over their own storage.
pub(crate) struct Index {
    buckets: Mapping<Bucket>,
    width: usize,
    stretch: Option<Stretch>,
    items: usize,
    /// Buckets from here on were never touched or have been released.
    touched: usize,
    /// Items of the home being moved; kept for its allocation.
    moving: Vec<(u32, Location)>,
}

fn tag_of(hash: u32) -> u8 {
    (hash as u8).max(1)
}

fn scale(hash: u32, width: usize) -> usize {
    ((u64::from(hash) * width as u64) >> 32) as usize
}

/// The slots set in `bits`, lowest first.
fn slots(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (slot < SLOTS).then_some(slot)
    })
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            buckets: Mapping::reserve(BUCKETS_MAX),
            width: BUCKETS_MIN,
            stretch: None,
            items: 0,
            touched: BUCKETS_MIN,
            moving: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.items
    }

    /// Bytes of the pages in use. A growing table fills its new part from the far end, so this
    /// increases by little with every change.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |buckets: usize| pages(buckets * size_of::<Bucket>());
        match self.stretch {
            Some(Stretch { target, cursor }) if target > self.width => {
                let filled_from = (cursor * target / self.width).max(self.width);
                bytes(self.width) + bytes(self.touched.saturating_sub(filled_from)) + PAGE_BYTES
            }
            _ => bytes(self.touched),
        }
    }

    /// The table's memory, how many bytes from its start may be resident, and how many of them are.
    pub(crate) fn retire(self) -> (Mapping<u8>, usize, usize) {
        let bytes = self.bytes();
        (self.buckets.into_bytes(), pages(self.touched * size_of::<Bucket>()), bytes)
    }

    /// As [`Mapping::next_full`], of the table.
    pub(crate) fn next_full(&mut self) -> Option<Collapse> {
        // Homes are spread evenly, so that no page within the width is empty.
        let end = self.width.min(self.touched) * size_of::<Bucket>();
        self.buckets.next_full(end, |_| true)
    }

    /// Finds the location stored under `hash` for which `is_it` returns true.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: u32,
        mut is_it: impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        let tag = tag_of(hash);
        let mut at = self.home(hash);
        loop {
            let bucket = &self.buckets[at];
            for slot in slots(bucket.matches(tag)) {
                if is_it(bucket.locations[slot]) {
                    return Some(bucket.locations[slot]);
                }
            }
            if bucket.passed == 0 {
                return None;
            }
            at += 1;
        }
    }

    /// Prefetches the home bucket of `hash`.
    pub(crate) fn prefetch(&self, hash: u32) {
        prefetch(&self.buckets[self.home(hash)]);
    }

    /// The first location that may be the one of `hash`, from its home bucket alone.
    pub(crate) fn guess(&self, hash: u32) -> Option<Location> {
        let bucket = &self.buckets[self.home(hash)];
        slots(bucket.matches(tag_of(hash))).next().map(|slot| bucket.locations[slot])
    }

    /// Adds a location that is not in the table. `hash_of` returns the hash of every stored
    /// location.
    pub(crate) fn insert(
        &mut self,
        hash: u32,
        location: Location,
        hash_of: impl Fn(Location) -> u32,
    ) {
        self.place(hash, location);
        self.items += 1;
        self.stretch_some(HOMES_PER_CHANGE, hash_of);
    }

    /// Points the entry at `from` to `to`.
    pub(crate) fn replace(&mut self, hash: u32, from: Location, to: Location) {
        let (at, slot) = self.slot(hash, from);
        self.buckets[at].locations[slot] = to;
    }

    /// Removes a location that is in the table.
    pub(crate) fn remove(
        &mut self,
        hash: u32,
        location: Location,
        hash_of: impl Fn(Location) -> u32,
    ) {
        let home = self.home(hash);
        let (at, slot) = self.slot(hash, location);
        self.take(home, at, slot);
        self.items -= 1;
        self.stretch_some(HOMES_PER_CHANGE, hash_of);
    }

    /// Moves up to `homes` homes of a stretch, or releases memory after one; returns true while
    /// there is more to do.
    pub(crate) fn stretch_some(&mut self, homes: usize, hash_of: impl Fn(Location) -> u32) -> bool {
        if self.stretch.is_none() {
            // First, because a growing table counts its bytes from its new end.
            if self.release_some() {
                return true;
            }
            self.begin_stretch();
        }
        for _ in 0..homes {
            let Some(stretch) = self.stretch else { break };
            self.move_home(stretch, &hash_of);
        }
        self.stretch.is_some()
    }

    fn home(&self, hash: u32) -> usize {
        let home = scale(hash, self.width);
        match self.stretch {
            Some(stretch) if self.has_moved(stretch, home) => scale(hash, stretch.target),
            _ => home,
        }
    }

    fn has_moved(&self, stretch: Stretch, home: usize) -> bool {
        if stretch.target > self.width { home >= stretch.cursor } else { home < stretch.cursor }
    }

    fn place(&mut self, hash: u32, location: Location) {
        let mut at = self.home(hash);
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(slot) = slots(bucket.matches(0)).next() {
                bucket.tags[slot] = tag_of(hash);
                bucket.locations[slot] = location;
                break;
            }
            bucket.passed += 1;
            at += 1;
        }
        self.touched = self.touched.max(at + 1);
    }

    fn slot(&self, hash: u32, location: Location) -> (usize, usize) {
        let tag = tag_of(hash);
        let mut at = self.home(hash);
        loop {
            let bucket = &self.buckets[at];
            if let Some(slot) =
                slots(bucket.matches(tag)).find(|&slot| bucket.locations[slot] == location)
            {
                return (at, slot);
            }
            assert!(bucket.passed > 0, "location {location} of hash {hash:#x} is not in the index");
            at += 1;
        }
    }

    fn take(&mut self, home: usize, at: usize, slot: usize) {
        self.buckets[at].tags[slot] = 0;
        for bucket in &mut self.buckets[home..at] {
            bucket.passed -= 1;
        }
    }

    fn begin_stretch(&mut self) {
        let load_tenths = |width: usize| self.items * 10 / width;
        let target = if load_tenths(self.width) > GROW_AT_TENTHS {
            (self.width * 5 / 4).min(BUCKETS_MAX / 2)
        } else if self.width > BUCKETS_MIN && load_tenths(self.width) < SHRINK_AT_TENTHS {
            (self.items / SHRINK_TO).max(BUCKETS_MIN)
        } else {
            return;
        };
        if target != self.width {
            let cursor = if target > self.width { self.width } else { 0 };
            self.stretch = Some(Stretch { target, cursor });
        }
    }

    fn move_home(&mut self, stretch: Stretch, hash_of: &impl Fn(Location) -> u32) {
        let growing = stretch.target > self.width;
        let home = if growing { stretch.cursor - 1 } else { stretch.cursor };
        self.gather(home, hash_of);
        let cursor = if growing { home } else { home + 1 };
        self.stretch = Some(Stretch { cursor, ..stretch });
        let mut moving = std::mem::take(&mut self.moving);
        for (hash, location) in moving.drain(..) {
            self.place(hash, location);
        }
        self.moving = moving;
        if cursor == if growing { 0 } else { self.width } {
            self.width = stretch.target;
            self.stretch = None;
        }
    }

    /// Removes all items of `home`, in the width before the stretch, from the table.
    fn gather(&mut self, home: usize, hash_of: &impl Fn(Location) -> u32) {
        let mut at = home;
        loop {
            let bucket = self.buckets[at];
            for slot in (0..SLOTS).filter(|&slot| bucket.tags[slot] != 0) {
                let hash = hash_of(bucket.locations[slot]);
                if scale(hash, self.width) == home {
                    self.moving.push((hash, bucket.locations[slot]));
                    self.take(home, at, slot);
                }
            }
            if bucket.passed == 0 {
                return;
            }
            at += 1;
        }
    }

    /// Returns a bounded part of the memory beyond the table to the system; true while there is
    /// more.
    fn release_some(&mut self) -> bool {
        let mut end = self.width;
        while self.buckets[end - 1].passed > 0 {
            end += 1;
        }
        if pages(self.touched * size_of::<Bucket>()) <= pages(end * size_of::<Bucket>()) {
            return false;
        }
        let from = end.max(self.touched.saturating_sub(RELEASE_BUCKETS));
        // The last page touched may be partly used; its rest is empty buckets, so all of it goes.
        let until = pages(self.touched * size_of::<Bucket>()) / size_of::<Bucket>();
        self.buckets.release(from..until);
        self.touched = from;
        from > end
    }
}

#[cfg(test)]
mod tests;
