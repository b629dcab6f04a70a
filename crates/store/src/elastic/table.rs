//! The storage table (dReDBox key server, §6.1.1): the location of every entry on disk.
//!
//! A table of [pages](super::page) of 336 slots, found by the first bits of the key's hash
//! (extendible hashing): a full page splits in two, independently of the others, so growing never
//! stalls. A slot keeps 40 bits of the hash and no byte of the key; only the record itself proves
//! that it has the key. Pages are in the order of hashes, which a scan follows.
//!
//! A slot takes twelve bytes, and pages are two thirds full: about 18 bytes per entry, including
//! the directory. Pages can be moved to the spill file one by one ([`Table::send_away`]); only
//! operations on an absent page wait for it.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::page::{Page, Places};
use super::record::Class;
use crate::blocks::Blocks;
use crate::mapping::{Mapping, PAGE_BYTES};

/// Bits kept of a hash.
pub(super) const HASH_BITS: u32 = 40;
/// Maximum depth: 2^24 pages, four thousand million entries.
const DEPTH_MAX: u32 = 24;
const PAGES_MAX: usize = 1 << DEPTH_MAX;

/// The page is in memory.
const RESIDENT: u8 = 1;
/// The spill file does not have the present contents of the page.
const DIRTY: u8 = 2;
/// Used since the clock hand last passed.
const USED: u8 = 4;

/// Location of a record: slot of its segment times units in a segment, plus units. 40 bits.
pub(super) type Location = u64;

/// An entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) location: Location,
    pub(super) class: Class,
}

/// The storage table.
pub(super) struct Table {
    pages: Mapping<Page>,
    states: Mapping<u8>,
    /// Page of every prefix of `depth` bits.
    directory: Mapping<u32>,
    depth: u32,
    pages_used: usize,
    /// The pages in memory, in no order.
    residents: Vec<u32>,
    pins: HashMap<u32, u32>,
    /// Position of the clock hand in `residents`.
    hand: usize,
    entries: u64,
    /// Positions, in their page, of the slots of the hash looked up last: a command looks it up
    /// more than once.
    seen: Option<Seen>,
}

struct Seen {
    hash: u64,
    places: Places,
}

impl Table {
    pub(super) fn new() -> Self {
        let mut table = Self {
            pages: Mapping::reserve(PAGES_MAX),
            states: Mapping::reserve(PAGES_MAX),
            directory: Mapping::reserve(1 << DEPTH_MAX),
            depth: 0,
            pages_used: 0,
            residents: Vec::new(),
            pins: HashMap::new(),
            hand: 0,
            entries: 0,
            seen: None,
        };
        table.add_page(0, 0);
        table
    }

    pub(super) fn len(&self) -> u64 {
        self.entries
    }

    /// Bytes resident: pages, their states, the directory.
    pub(super) fn bytes(&self) -> usize {
        self.pages_resident() * PAGE_BYTES + self.bytes_fixed()
    }

    /// The part of [`Table::bytes`] that cannot be moved to the spill file.
    pub(super) fn bytes_fixed(&self) -> usize {
        let pages = crate::mapping::pages;
        let residents = self.residents.capacity() * size_of::<u32>();
        pages(self.pages_used) + pages(4 << self.depth) + residents + 64 * self.pins.len()
    }

    pub(super) fn pages_resident(&self) -> usize {
        self.residents.len()
    }

    pub(super) fn pages_pinned(&self) -> usize {
        self.pins.len()
    }

    pub(super) fn pages_used(&self) -> usize {
        self.pages_used
    }

    /// The memory of an unused table, and how far it may be resident.
    pub(super) fn retire(self) -> [(Mapping<u8>, usize); 3] {
        let (pages, directory) = (self.pages_used, 4usize << self.depth);
        [
            (self.pages.into_bytes(), pages * PAGE_BYTES),
            (self.states, pages),
            (self.directory.into_bytes(), directory),
        ]
    }

    /// The page a hash belongs to.
    pub(super) fn page_of(&self, hash: u64) -> u32 {
        self.directory[(hash >> (HASH_BITS - self.depth)) as usize]
    }

    pub(super) fn is_resident(&self, page: u32) -> bool {
        self.states[page as usize] & RESIDENT != 0
    }

    fn home(&self, hash: u64) -> usize {
        let page = self.page_of(hash) as usize;
        debug_assert!(self.states[page] & RESIDENT != 0, "page {page} is away");
        page
    }

    fn mark(&mut self, page: usize, marks: u8) {
        let state = self.states[page];
        if state & marks != marks {
            self.states[page] = state | marks;
        }
    }

    /// Prefetches the part of the page that a lookup of this hash reads.
    pub(super) fn prefetch(&self, hash: u64) {
        self.pages[self.page_of(hash) as usize].prefetch(hash);
    }

    /// Finds the places of this hash in its page, unless they were just found.
    fn look(&mut self, hash: u64) -> usize {
        let home = self.home(hash);
        if self.seen.as_ref().is_none_or(|seen| seen.hash != hash) {
            let places = self.pages[home].places_of(hash);
            self.seen = Some(Seen { hash, places });
        }
        home
    }

    /// The places [`Table::look`] found.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.seen.iter().flat_map(|seen| seen.places.iter().map(|&at| usize::from(at)))
    }

    /// The records that may be the one of a key of this hash. Its page must be resident.
    pub(super) fn candidates(&mut self, hash: u64) -> SmallVec<[Slot; 2]> {
        let home = self.look(hash);
        self.mark(home, USED);
        let page = &self.pages[home];
        self.places().map(|at| page.slot(at)).collect()
    }

    /// The slot of the record at `location`.
    pub(super) fn find(&mut self, hash: u64, location: Location) -> Option<Slot> {
        let (home, at) = self.place(hash, location)?;
        Some(self.pages[home].slot(at))
    }

    /// The page of the record at `location`, and its place there.
    fn place(&mut self, hash: u64, location: Location) -> Option<(usize, usize)> {
        let home = self.look(hash);
        let page = &self.pages[home];
        self.places().find(|&at| page.slot(at).location == location).map(|at| (home, at))
    }

    /// Adds a slot; false if the table can grow no further.
    #[must_use]
    pub(super) fn insert(&mut self, hash: u64, slot: Slot) -> bool {
        self.seen = None;
        while self.pages[self.home(hash)].is_full() {
            if !self.split(hash) {
                return false;
            }
        }
        let home = self.home(hash);
        self.pages[home].push(hash, slot);
        self.mark(home, DIRTY | USED);
        self.entries += 1;
        true
    }

    /// True if [`Table::insert`] of this hash would succeed, splitting pages if necessary.
    pub(super) fn has_room(&self, hash: u64) -> bool {
        let page = &self.pages[self.home(hash)];
        !page.is_full() || (u32::from(page.depth) < DEPTH_MAX && self.pages_used + 16 < PAGES_MAX)
    }

    /// Changes the location of the slot of the record at `from`; false if there is no such slot.
    pub(super) fn replace(&mut self, hash: u64, from: Location, to: Slot) -> bool {
        let Some((home, at)) = self.place(hash, from) else { return false };
        self.pages[home].set(at, hash, to);
        self.mark(home, DIRTY | USED);
        true
    }

    /// Removes the slot of the record at `location`, if there is one.
    pub(super) fn remove(&mut self, hash: u64, location: Location) -> Option<Slot> {
        let (home, at) = self.place(hash, location)?;
        self.seen = None;
        let page = &mut self.pages[home];
        let slot = page.slot(at);
        page.remove(at);
        self.mark(home, DIRTY);
        self.entries -= 1;
        Some(slot)
    }

    /// Entries of `page` with hashes from `from` on, in their order.
    pub(super) fn page_entries(&self, page: u32, from: u64) -> Vec<(u64, Slot)> {
        let page = &self.pages[page as usize];
        let mut entries: Vec<(u64, Slot)> = page
            .places()
            .map(|at| (page.hash(at), page.slot(at)))
            .filter(|(hash, _)| *hash >= from)
            .collect();
        entries.sort_unstable_by_key(|(hash, slot)| (*hash, slot.location));
        entries
    }

    /// The first hash after those of the page of `hash`, which may not be in memory; `None` after
    /// the last page.
    pub(super) fn next_page_hash(&self, hash: u64) -> Option<u64> {
        let shift = HASH_BITS - self.depth;
        let place = (hash >> shift) as usize;
        let page = self.directory[place];
        let next = (place + 1..1 << self.depth).find(|&place| self.directory[place] != page)?;
        Some((next as u64) << shift)
    }

    fn add_page(&mut self, prefix: u64, depth: u16) -> usize {
        let page = self.pages_used;
        self.pages_used += 1;
        self.residents.push(page as u32);
        self.pages[page] = Page::new(prefix, depth);
        self.states[page] = RESIDENT | DIRTY | USED;
        page
    }

    /// Splits the page of `hash` in two by the next bit.
    fn split(&mut self, hash: u64) -> bool {
        let old = self.home(hash);
        let (depth, prefix) = (self.pages[old].depth, self.pages[old].prefix);
        if u32::from(depth) == DEPTH_MAX || self.pages_used == PAGES_MAX {
            return false;
        }
        if u32::from(depth) == self.depth {
            self.double();
        }
        let new = self.add_page(prefix << 1 | 1, depth + 1);
        // Both pages are filled again: otherwise slots that lie in other groups than their own
        // would stay there, and lookups would continue to search them.
        let full = std::mem::replace(&mut self.pages[old], Page::new(prefix << 1, depth + 1));
        for at in full.places() {
            let hash = full.hash(at);
            let is_high = hash >> (HASH_BITS - 1 - u32::from(depth)) & 1 == 1;
            self.pages[if is_high { new } else { old }].push(hash, full.slot(at));
        }
        self.mark(old, DIRTY);
        let width = 1usize << (self.depth - u32::from(depth) - 1);
        let start = (prefix as usize * 2 + 1) * width;
        self.directory[start..start + width].fill(new as u32);
        true
    }

    fn double(&mut self) {
        for at in (0..1usize << self.depth).rev() {
            let page = self.directory[at];
            self.directory[2 * at] = page;
            self.directory[2 * at + 1] = page;
        }
        self.depth += 1;
    }

    /// Keeps a page in memory until [`Table::unpin`].
    pub(super) fn pin(&mut self, page: u32) {
        *self.pins.entry(page).or_insert(0) += 1;
    }

    pub(super) fn unpin(&mut self, page: u32) {
        if let Some(pins) = self.pins.get_mut(&page) {
            *pins -= 1;
            if *pins == 0 {
                self.pins.remove(&page);
            }
        }
    }

    /// Releases the memory of a page: of up to `patience` pages examined, one not used since the
    /// clock hand last passed, or else the first. Returns its index, and its bytes if the spill
    /// file does not have them; with `clean` only a page is chosen that the spill file has.
    pub(super) fn send_away(
        &mut self,
        patience: usize,
        clean: bool,
    ) -> Option<(u32, Option<Blocks>)> {
        let mut used = None;
        for _ in 0..patience {
            self.hand = if self.hand + 1 < self.residents.len() { self.hand + 1 } else { 0 };
            let page = *self.residents.get(self.hand)?;
            let state = self.states[page as usize];
            if clean && state & DIRTY != 0 || self.pins.contains_key(&page) {
                continue;
            }
            if state & USED == 0 {
                return Some((page, self.drop_resident(self.hand)));
            }
            self.states[page as usize] = state & !USED;
            used = used.or(Some((self.hand, page)));
        }
        used.map(|(place, page)| (page, self.drop_resident(place)))
    }

    fn drop_resident(&mut self, place: usize) -> Option<Blocks> {
        let page = self.residents.swap_remove(place) as usize;
        let is_dirty = self.states[page] & DIRTY != 0;
        let bytes = is_dirty.then(|| self.pages[page].sealed());
        self.seen = None;
        self.states[page] = 0;
        self.pages.release(page..page + 1);
        bytes
    }

    /// Puts a page back into memory; returns false if these bytes are not the page that was
    /// written. With `dirty` the spill file does not have it.
    pub(super) fn returned(&mut self, page: u32, bytes: &[u8], dirty: bool) -> bool {
        let at = page as usize;
        debug_assert!(!self.is_resident(page), "page {page} was not away");
        let Some(read) = Page::unsealed(bytes) else { return false };
        self.pages[at] = read;
        self.states[at] = RESIDENT | USED | if dirty { DIRTY } else { 0 };
        self.residents.push(page);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_split_is_as_good_as_new() {
        let mut table = Table::new();
        let (entries, mut draw) = (60_000, 1u64);
        for location in 0..entries {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let hash = draw >> (64 - HASH_BITS);
            assert!(table.insert(hash, Slot { location, class: Class(1) }));
            assert!(table.find(hash, location).is_some());
        }
        let pages = &table.pages[..table.pages_used];
        assert!(
            pages.len() > 200
                && pages.iter().map(|page| page.places().count()).sum::<usize>() == 60_000
        );
        // In pages filled to 70 % a few percent of the slots are displaced, in full pages a third.
        let displaced: usize = pages.iter().map(Page::displaced).sum();
        assert!(displaced < 60_000 / 25, "{displaced} slots are not in their groups");
    }
}
