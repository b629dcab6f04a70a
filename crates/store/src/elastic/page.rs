//! One page of the storage table: slots in groups of sixteen, found by the last bits of the hash.
//!
//! A group's tags are one cache line, and most lookups need no other. When a group is full, further
//! slots lie in the groups after it, and the group counts them.

use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;

use super::{
    lanes::{self, LANES},
    record::Class,
    table::Slot,
};
use crate::blocks::Blocks;
use crate::mapping::{PAGE_BYTES, prefetch};

const GROUPS: usize = 21;
/// Slots of a page.
pub(super) const SLOTS: usize = GROUPS * LANES;

/// Places of slots in a page.
pub(super) type Places = SmallVec<[u16; 4]>;

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Page {
    checksum: u32,
    count: u16,
    pub(super) depth: u16,
    pub(super) prefix: u64,
    /// Number of slots in use of every group; these are its first slots.
    used: [u8; GROUPS],
    /// For each group, the number of its slots that are stored in other groups.
    elsewhere: [u8; GROUPS],
    unused: [u8; 6],
    /// The last 32 bits of the hash.
    tags: [u32; SLOTS],
    /// Location in the low 40 bits, then 16 bits of class, then the first 8 bits of the hash.
    words: [u64; SLOTS],
}

const _: () = assert!(size_of::<Page>() == PAGE_BYTES);

/// The group of a hash. It uses none of the bits that distinguish pages.
fn group_of(hash: u64) -> usize {
    ((hash & 0xFFFF) as usize * GROUPS) >> 16
}

/// The first value of the last sixteen bits of hashes that belong to a group, and the number of
/// such values.
fn hashes_of(group: usize) -> (u16, u16) {
    let start = |group: usize| (group << 16).div_ceil(GROUPS);
    (start(group) as u16, (start(group + 1) - start(group)) as u16)
}

impl Page {
    pub(super) fn new(prefix: u64, depth: u16) -> Self {
        Self { prefix, depth, ..Self::zeroed() }
    }

    pub(super) fn is_full(&self) -> bool {
        usize::from(self.count) == SLOTS
    }

    pub(super) fn hash(&self, at: usize) -> u64 {
        self.words[at] >> 56 << 32 | u64::from(self.tags[at])
    }

    pub(super) fn slot(&self, at: usize) -> Slot {
        let word = self.words[at];
        Slot { location: word & ((1 << 40) - 1), class: Class((word >> 40) as u16) }
    }

    pub(super) fn set(&mut self, at: usize, hash: u64, slot: Slot) {
        self.tags[at] = hash as u32;
        self.words[at] = hash >> 32 << 56 | u64::from(slot.class.0) << 40 | slot.location;
    }

    /// Adds a slot. The page must not be full.
    pub(super) fn push(&mut self, hash: u64, slot: Slot) {
        let home = group_of(hash);
        let with_room =
            (home..GROUPS).chain(0..home).find(|&at| usize::from(self.used[at]) < LANES);
        let group = with_room.expect("a page with room");
        self.set(group * LANES + usize::from(self.used[group]), hash, slot);
        self.used[group] += 1;
        self.elsewhere[home] += u8::from(group != home);
        self.count += 1;
    }

    /// Removes a slot; the last slot of its group moves to its place.
    pub(super) fn remove(&mut self, at: usize) {
        let (home, group) = (group_of(self.hash(at)), at / LANES);
        self.elsewhere[home] -= u8::from(group != home);
        self.used[group] -= 1;
        let last = group * LANES + usize::from(self.used[group]);
        self.tags[at] = self.tags[last];
        self.words[at] = self.words[last];
        self.count -= 1;
    }

    /// The places in use.
    pub(super) fn places(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let used = self.used;
        (0..SLOTS).filter(move |at| at % LANES < usize::from(used[at / LANES]))
    }

    /// Places of the slots of this hash.
    pub(super) fn places_of(&self, hash: u64) -> Places {
        let home = group_of(hash);
        let mut places = Places::new();
        self.look_in(home, hash, &mut places);
        let mut elsewhere = u32::from(self.elsewhere[home]);
        let (first, count) = hashes_of(home);
        for group in (home + 1..GROUPS).chain(0..home) {
            if elsewhere == 0 {
                break;
            }
            let of_home = lanes::ends_among(self.tags_of(group), first, count);
            elsewhere -= (of_home & self.in_use(group)).count_ones();
            self.look_in(group, hash, &mut places);
        }
        places
    }

    #[inline]
    fn tags_of(&self, group: usize) -> &[u32; LANES] {
        &self.tags.as_chunks().0[group]
    }

    /// A bit for each slot of a group that is in use.
    #[inline]
    fn in_use(&self, group: usize) -> u32 {
        (1 << self.used[group]) - 1
    }

    #[inline]
    fn look_in(&self, group: usize, hash: u64, places: &mut Places) {
        // All lanes are compared, and those in use count.
        let mut equal = lanes::equal(self.tags_of(group), hash as u32) & self.in_use(group);
        while equal != 0 {
            let at = group * LANES + equal.trailing_zeros() as usize;
            if self.hash(at) == hash {
                places.push(at as u16);
            }
            equal &= equal - 1;
        }
    }

    /// Prefetches the memory that [`Page::places_of`] will read.
    pub(super) fn prefetch(&self, hash: u64) {
        let start = group_of(hash) * LANES;
        prefetch(&self.checksum);
        prefetch(&self.tags[start]);
        prefetch(&self.words[start]);
        prefetch(&self.words[start + LANES / 2]);
    }

    /// Slots that lie in other groups than their own.
    #[cfg(test)]
    pub(super) fn displaced(&self) -> usize {
        self.elsewhere.iter().map(|&count| usize::from(count)).sum()
    }

    /// Returns the page's bytes with its checksum, to be written.
    pub(super) fn sealed(&mut self) -> Blocks {
        self.checksum = self.sum();
        bytemuck::bytes_of(self).into()
    }

    /// Returns the page that [`Page::sealed`] wrote as these bytes; `None` if the checksum does not
    /// match.
    pub(super) fn unsealed(bytes: &[u8]) -> Option<Self> {
        let page = bytemuck::try_pod_read_unaligned::<Self>(bytes).ok()?;
        (page.checksum == page.sum()).then_some(page)
    }

    fn sum(&self) -> u32 {
        crc32c::crc32c(&bytemuck::bytes_of(self)[size_of::<u32>()..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(location: u64) -> Slot {
        Slot { location, class: Class(location as u16) }
    }

    #[test]
    fn every_hash_is_of_the_group_it_belongs_to() {
        for hash in 0..1 << 16 {
            let holds = |group: &usize| {
                let (first, count) = hashes_of(*group);
                (u32::from(first)..u32::from(first) + u32::from(count)).contains(&hash)
            };
            let holding: Vec<_> = (0..GROUPS).filter(holds).collect();
            assert_eq!(holding, [group_of(hash.into())], "{hash}");
        }
    }

    /// Few groups, so that most slots overflow into other groups, and many equal hashes.
    fn hash(draw: u64) -> u64 {
        (draw % 3) << 38 | (draw / 3 % 7) << 14
    }

    #[test]
    fn crowded_groups_lose_nothing() {
        let (mut page, mut model, mut draw) = (Page::new(0, 0), Vec::new(), 1u64);
        for step in 0..40_000u64 {
            draw = draw
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let hash = hash(draw >> 33);
            // Alternately filled to capacity and emptied.
            let grows = step / 500 % 2 == 0;
            if grows && !page.is_full() {
                page.push(hash, slot(step));
                model.push((hash, step));
            } else if !model.is_empty() {
                let (hash, location) = model.swap_remove(draw as usize % model.len());
                let mut places = page.places_of(hash).into_iter().map(usize::from);
                let at = places.find(|&at| page.slot(at).location == location);
                page.remove(at.expect("what was pushed"));
            }
            let of = |wanted: u64| {
                let mut of: Vec<_> =
                    model.iter().filter(|(hash, _)| *hash == wanted).copied().collect();
                of.sort_unstable();
                of
            };
            let found = page.places_of(hash).into_iter().map(usize::from);
            let mut found: Vec<_> =
                found.map(|at| (page.hash(at), page.slot(at).location)).collect();
            found.sort_unstable();
            assert_eq!(found, of(hash), "step {step}");
            assert_eq!(page.places().count(), model.len(), "step {step}");
        }
        assert!(page.elsewhere.iter().zip(page.used).all(|(_, used)| usize::from(used) <= LANES));
    }

    #[test]
    fn a_page_that_was_changed_is_refused() {
        let mut page = Page::new(5, 3);
        page.push(hash(1), slot(7));
        let mut bytes = page.sealed();
        assert_eq!(Page::unsealed(&bytes).map(|page| page.prefix), Some(5));
        bytes[100] ^= 1;
        assert!(Page::unsealed(&bytes).is_none());
    }
}
