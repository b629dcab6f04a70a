//! The existing segments: where their records are, and how much of each is alive.

use hashbrown::HashMap;

use crate::elastic::record::{Address, Class, UNIT_BYTES};
use crate::elastic::segment::{BLOCK_BYTES, LINE_BYTES, Trailer};
use crate::elastic::table::Location;

/// Bytes that compaction needs to repeat the kill of one record.
pub(in crate::elastic) const KILL_BYTES: u64 = 16;

/// One existing segment.
#[derive(Debug)]
pub(in crate::elastic) struct Segment {
    pub(in crate::elastic) number: u64,
    /// Length of its file.
    pub(in crate::elastic) bytes: u64,
    /// Bytes of records the table points to.
    pub(in crate::elastic) live: u64,
    /// Earliest expiry of an entry here, in seconds.
    pub(in crate::elastic) expires_s: u32,
    /// Contains damage, so it is kept.
    pub(in crate::elastic) damaged: bool,
    /// Number of reads in progress.
    reads: u32,
    /// Number of backups that copy it: it is not removed before they have.
    pub(in crate::elastic) pins: u32,
    /// Number of records in older segments that it kills, and the number of those segments when
    /// this was counted.
    kills: u64,
    older: usize,
    /// The trailer, once the segment is sealed.
    pub(in crate::elastic) trailer: Option<Trailer>,
    /// The segment can be removed once the log is durable up to this position.
    pub(in crate::elastic) doomed: Option<u64>,
    pub(super) removing: bool,
    /// The manifest no longer lists it.
    pub(super) is_unlisted: bool,
}

impl Segment {
    pub(in crate::elastic) fn new(number: u64, bytes: u64) -> Self {
        Self {
            number,
            bytes,
            live: 0,
            expires_s: u32::MAX,
            damaged: false,
            reads: 0,
            pins: 0,
            kills: 0,
            older: 0,
            trailer: None,
            doomed: None,
            removing: false,
            is_unlisted: false,
        }
    }

    /// Upper bound of the bytes needed to repeat its kills, including footer lines.
    pub(in crate::elastic) fn kill_bytes(&self) -> u64 {
        self.kills * (KILL_BYTES + LINE_BYTES as u64)
    }

    /// Bytes of its records, dead ones included, once it is sealed.
    pub(in crate::elastic) fn data_bytes(&self) -> u64 {
        self.trailer.map_or(0, |trailer| trailer.data_end - BLOCK_BYTES as u64)
    }
}

/// All segments, each in a slot that its records' locations name.
#[derive(Debug)]
pub(in crate::elastic) struct Segments {
    /// Maximum length of a segment, and length of a slot. A power of two.
    bytes_max: u64,
    /// Number of bits of a location that give the place in its slot.
    unit_bits: u32,
    slots: Vec<Option<Segment>>,
    slot_of: HashMap<u64, usize>,
    /// Numbers of all segments, ascending.
    numbers: Vec<u64>,
    /// Bytes of their files.
    file_bytes: u64,
    live: u64,
    /// Bytes of records that died since the start.
    killed: u64,
    /// Slots of doomed segments.
    doomed: Vec<usize>,
    /// Earliest expiry of any entry, in seconds.
    expires_s: u32,
}

impl Segments {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            unit_bits: (bytes_max / UNIT_BYTES as u64).ilog2(),
            slots: Vec::new(),
            slot_of: HashMap::new(),
            numbers: Vec::new(),
            file_bytes: 0,
            live: 0,
            killed: 0,
            doomed: Vec::new(),
            expires_s: u32::MAX,
        }
    }

    /// Adds a segment that was found or created at the start.
    pub(super) fn adopt(&mut self, segment: Segment) -> usize {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slot_of.insert(segment.number, slot);
        self.numbers.insert(self.older(segment.number), segment.number);
        self.file_bytes += segment.bytes;
        self.expires_s = self.expires_s.min(segment.expires_s);
        self.slots[slot] = Some(segment);
        slot
    }

    pub(in crate::elastic) fn at(&self, slot: usize) -> &Segment {
        self.slots[slot].as_ref().expect("a segment the table points to is there")
    }

    pub(in crate::elastic) fn at_mut(&mut self, slot: usize) -> &mut Segment {
        self.slots[slot].as_mut().expect("a segment the table points to is there")
    }

    pub(in crate::elastic) fn iter(&self) -> impl Iterator<Item = (usize, &Segment)> {
        self.slots.iter().enumerate().filter_map(|(slot, segment)| Some((slot, segment.as_ref()?)))
    }

    /// Maximum length of a segment, in bytes.
    pub(in crate::elastic) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes of records the table points to.
    pub(in crate::elastic) fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Bytes of memory this table takes.
    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<Segment>() * 2
    }

    /// Number of segments with lower numbers.
    fn older(&self, number: u64) -> usize {
        self.numbers.partition_point(|&other| other < number)
    }

    /// Approximate share of a sealed segment's file that compaction would free, in thousandths:
    /// bytes that are neither alive nor kill records of segments that still exist. Without such
    /// bytes it is the whole file, however few records it has, because later segments must keep
    /// their kills while it exists.
    pub(in crate::elastic) fn dead_share(&self, segment: &Segment) -> u64 {
        let left = self.older(segment.number) as u64;
        if left == 0 && segment.live == 0 {
            return 1000;
        }
        let kills_left =
            segment.kills * left.min(segment.older as u64) / segment.older.max(1) as u64;
        let needed = segment.live + kills_left * KILL_BYTES;
        segment.data_bytes().saturating_sub(needed) * 1000 / segment.bytes
    }

    /// Notes that a segment kills `count` more records in older segments.
    pub(in crate::elastic) fn note_kills(&mut self, slot: usize, count: u64) {
        let older = self.older(self.at(slot).number);
        let segment = self.at_mut(slot);
        segment.kills += count;
        segment.older = older;
    }

    /// Counts a read of the segment in `slot`, which is not removed until [`Segments::end_read`];
    /// returns its number.
    pub(in crate::elastic) fn begin_read(&mut self, slot: usize) -> u64 {
        let segment = self.at_mut(slot);
        segment.reads += 1;
        segment.number
    }

    /// A read of the segment in `slot` has completed.
    pub(in crate::elastic) fn end_read(&mut self, slot: usize) {
        self.at_mut(slot).reads -= 1;
    }

    pub(in crate::elastic) fn slot(&self, location: Location) -> usize {
        (location >> self.unit_bits) as usize
    }

    pub(in crate::elastic) fn offset(&self, location: Location) -> u64 {
        (location & ((1 << self.unit_bits) - 1)) * UNIT_BYTES as u64
    }

    /// Returns offset and length of the bytes to be read for a record.
    pub(in crate::elastic) fn extent(&self, location: Location, class: Class) -> (u64, usize) {
        let (offset, end) = (self.offset(location), self.at(self.slot(location)).bytes);
        // The class rounds up, and a segment ends.
        (offset, (class.bytes() as u64).min(end - offset) as usize)
    }

    pub(in crate::elastic) fn location(&self, slot: usize, offset: u64) -> Location {
        ((slot as u64) << self.unit_bits) | (offset / UNIT_BYTES as u64)
    }

    pub(in crate::elastic) fn address(&self, location: Location) -> Address {
        Address::new(self.at(self.slot(location)).number, self.offset(location))
    }

    /// True if a record with that address may still be on disk.
    pub(in crate::elastic) fn has(&self, number: u64) -> bool {
        self.slot_of.contains_key(&number)
    }

    /// Counts a record to which the table now points.
    pub(in crate::elastic) fn revive(&mut self, location: Location, class: Class) {
        let slot = self.slot(location);
        self.at_mut(slot).live += class.bytes() as u64;
        self.live += class.bytes() as u64;
    }

    /// Counts a record to which the table no longer points.
    pub(in crate::elastic) fn kill(&mut self, location: Location, class: Class) {
        let slot = self.slot(location);
        self.at_mut(slot).live -= class.bytes() as u64;
        self.live -= class.bytes() as u64;
        self.killed += class.bytes() as u64;
    }

    /// Bytes of records that died since the start.
    pub(super) fn killed(&self) -> u64 {
        self.killed
    }

    /// Earliest expiry of any entry, in seconds.
    pub(in crate::elastic) fn expires_s(&self) -> u32 {
        self.expires_s
    }

    pub(in crate::elastic) fn note_expiry(&mut self, slot: usize, expires_s: u32) {
        let segment = self.at_mut(slot);
        segment.expires_s = segment.expires_s.min(expires_s);
        self.expires_s = self.expires_s.min(expires_s);
    }

    /// Computes the first expiry of any entry, given that nothing readable is due at `now_s`.
    pub(super) fn recount_expiry(&mut self, now_s: u32) {
        // A segment that is still being written is due when it is complete.
        let counting = self.iter().filter(|(_, segment)| segment.doomed.is_none());
        let next = counting.map(|(_, segment)| segment.expires_s).min().unwrap_or(u32::MAX);
        self.expires_s = if next == u32::MAX { next } else { next.max(now_s + 1) };
    }

    /// The segment is sealed.
    pub(super) fn seal(&mut self, slot: usize, trailer: Trailer) {
        self.at_mut(slot).trailer = Some(trailer);
    }

    /// Marks a sealed segment for removal once the log is durable up to `position`.
    pub(in crate::elastic) fn doom(&mut self, slot: usize, position: u64) {
        let segment = self.at_mut(slot);
        segment.doomed = Some(position);
        self.doomed.push(slot);
    }

    /// Whether segments wait for removal until the log is durable. Those that are kept for a backup
    /// do not count.
    pub(in crate::elastic) fn are_any_doomed(&self) -> bool {
        self.doomed.iter().any(|&slot| self.at(slot).pins == 0)
    }

    /// Bytes of their files.
    pub(in crate::elastic) fn doomed_bytes(&self) -> u64 {
        self.doomed.iter().map(|&slot| self.at(slot).bytes).sum()
    }

    /// Bytes of the files that are kept for a backup alone.
    pub(in crate::elastic) fn pinned_bytes(&self) -> u64 {
        let pinned = self.doomed.iter().map(|&slot| self.at(slot)).filter(|one| one.pins > 0);
        pinned.map(|segment| segment.bytes).sum()
    }

    /// The slot of the segment with that number.
    pub(super) fn slot_of(&self, number: u64) -> Option<usize> {
        self.slot_of.get(&number).copied()
    }

    /// Marks all entries of all segments as dead, and dooms all segments but the one in `kept`.
    pub(super) fn clear(&mut self, kept: usize, position: u64) {
        for slot in (0..self.slots.len()).filter(|&slot| slot != kept) {
            if self.slots[slot].as_ref().is_some_and(|segment| segment.doomed.is_none()) {
                self.doom(slot, position);
            }
        }
        self.slots.iter_mut().flatten().for_each(|segment| segment.live = 0);
        self.live = 0;
    }

    /// Returns the doomed segments that the manifest may omit, now that the log is durable up to
    /// `durable`.
    pub(super) fn droppable(&self, durable: u64) -> impl Iterator<Item = usize> {
        self.doomed.iter().copied().filter(move |&slot| {
            let segment = self.at(slot);
            !segment.is_unlisted && segment.doomed.is_some_and(|position| position <= durable)
        })
    }

    /// Returns a doomed segment whose file may be removed, as no manifest lists it.
    pub(super) fn removable(&mut self) -> Option<(usize, u64)> {
        for &slot in &self.doomed {
            let segment = self.slots[slot].as_mut().expect("doomed, not yet removed");
            if segment.is_unlisted && !segment.removing && segment.reads + segment.pins == 0 {
                segment.removing = true;
                return Some((slot, segment.number));
            }
        }
        None
    }

    /// Notes that the file of a doomed segment was removed; returns its length.
    pub(super) fn removed(&mut self, slot: usize) -> u64 {
        self.doomed.retain(|&other| other != slot);
        let Some(segment) = self.slots[slot].take() else { return 0 };
        self.slot_of.remove(&segment.number);
        self.numbers.remove(self.older(segment.number));
        self.file_bytes -= segment.bytes;
        segment.bytes
    }
}
