//! Scans every segment, and repairs the last.

use super::{Found, Lines, Opening, mending};
use crate::blocks::Blocks;
use crate::device::{Device, FileName};
use crate::elastic::Error;
use crate::elastic::lines::{LineReader, add_lines};
use crate::elastic::log::Segment;
use crate::elastic::manifest::SECTOR_BYTES;
use crate::elastic::parity::Parity;
use crate::elastic::record::{Address, Kind, Record, UNIT_BYTES};
use crate::elastic::segment::{
    BLOCK_BYTES, Footer, Header, Line, Trailer, whole_footer, write_footer,
};

/// Result of a scan of records.
pub(super) struct Scanned {
    lines: Vec<Line>,
    end: u64,
    version_max: u64,
}

impl<D: Device + ?Sized> Opening<'_, D> {
    /// Reads the metadata of all segments, and repairs the last.
    pub(super) fn find_segments(
        &mut self,
        files: &[(FileName, u64)],
        accept_data_loss: bool,
    ) -> Result<Vec<Found>, Error> {
        let segments = files.iter().filter_map(|&(name, bytes)| match name {
            FileName::Segment(number) => Some(Segment::new(number, self.whole_blocks(bytes))),
            _ => None,
        });
        let mut segments = self.select(segments.collect(), accept_data_loss)?;
        segments.sort_unstable_by_key(|segment| std::cmp::Reverse(segment.number));
        let mut found: Vec<Found> = Vec::new();
        for segment in segments {
            let (number, is_last) = (segment.number, found.is_empty() && !self.was_closed);
            if number < self.floor {
                self.removals.push(number);
                continue;
            }
            let damage = self.recovery.damage.len();
            match self.find_segment(segment, is_last)? {
                Some(mut segment) => {
                    segment.segment.damaged = self.recovery.damage.len() > damage;
                    found.push(segment);
                }
                None if is_last => self.removals.push(number),
                // The header was durable before any byte after it was written.
                None => self.damaged(number, 0, "nothing that was written is left"),
            }
        }
        self.recovery.segments = found.len();
        Ok(found)
    }

    /// Bytes of a file of this length that can be a segment.
    fn whole_blocks(&self, bytes: u64) -> u64 {
        bytes.min(self.segment_bytes) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
    }

    pub(super) fn remove(&self, number: u64) -> Result<(), Error> {
        let file = FileName::Segment(number);
        self.device.remove(file).map_err(Error::write_failed(file))
    }

    pub(super) fn read(&self, number: u64, offset: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        let file = FileName::Segment(number);
        self.device.read(file, offset, bytes).map_err(|error| Error::ReadFailed {
            file,
            offset,
            reason: error.to_string(),
        })
    }

    /// Returns the contents of a segment; `None` if it was never used.
    fn find_segment(
        &mut self,
        mut segment: Segment,
        is_last: bool,
    ) -> Result<Option<Found>, Error> {
        let Segment { number, bytes, .. } = segment;
        let ends = bytes.checked_sub(BLOCK_BYTES as u64);
        let ends = ends.and_then(|last| self.read(number, last, BLOCK_BYTES).ok());
        let is_ours = |end: &Trailer| end.number == number && end.fits(bytes);
        let trailer = ends.as_deref().and_then(Trailer::read).filter(is_ours);
        if let Some(trailer) = trailer {
            self.floor = self.floor.max(trailer.floor);
            segment.trailer = Some(trailer);
        }
        // The last segment may have been sealed and not synced: records that its footer lists may
        // be torn.
        if !is_last {
            let Some(trailer) = trailer else {
                self.damaged(number, bytes, "no trailer");
                return self.find_unsealed(segment, is_last);
            };
            self.version = self.version.max(trailer.version_max);
            match (self.read_lines(&trailer), trailer.footer) {
                (Ok(lines), footer) => {
                    return Ok(Some(Found { segment, lines: self.keep(lines, footer) }));
                }
                (Err(error), Footer::Lines) => self.recovery.damage.push(error),
                // Damage to the records is found when they are read one by one.
                (Err(_), Footer::Parity) => {}
            }
        }
        self.find_unsealed(segment, is_last)
    }

    /// Keeps derived lines as far as the budget allows, so that they are not derived again.
    fn keep(&mut self, mut lines: Vec<Line>, footer: Footer) -> Lines {
        let kept = self.lines_kept + lines.len() as u64;
        if footer == Footer::Lines || kept > self.lines_max {
            return Lines::OnDisk;
        }
        self.lines_kept = kept;
        lines.shrink_to_fit();
        Lines::Kept(lines)
    }

    pub(super) fn read_lines(&self, trailer: &Trailer) -> Result<Vec<Line>, Error> {
        let (mut reader, mut lines) = (LineReader::new(*trailer), Vec::new());
        while let Some((offset, bytes)) = reader.next() {
            let bytes = self.read(trailer.number, offset, bytes)?;
            lines.append(&mut reader.take(&bytes, |key| self.hasher.hash(key))?);
        }
        Ok(lines)
    }

    pub(super) fn damaged(&mut self, number: u64, offset: u64, found: &str) {
        let (file, found) = (FileName::Segment(number), found.to_owned());
        self.recovery.damage.push(Error::Damaged { file, offset, found });
    }

    fn find_unsealed(
        &mut self,
        mut segment: Segment,
        is_last: bool,
    ) -> Result<Option<Found>, Error> {
        let number = segment.number;
        let mut bytes = self.read_whole(&segment, is_last)?;
        match Header::read(&bytes).filter(|header| header.number == number) {
            Some(header) => self.floor = self.floor.max(header.floor),
            None if behind_damage(number, &bytes, 0, !is_last).is_none() => {
                // Never used, or torn at its beginning: nothing in it was acknowledged as durable.
                return Ok(None);
            }
            None => self.damaged(number, 0, "a header with a wrong checksum"),
        }
        let scanned = self.scan(number, &mut bytes, segment.trailer, is_last);
        self.version = self.version.max(scanned.version_max);
        // The last one is sealed again: the bytes after its records may be torn.
        if is_last || segment.trailer.is_none() {
            segment.trailer = Some(self.seal(&mut segment, &bytes, &scanned, is_last)?);
        }
        Ok(Some(Found { segment, lines: Lines::Kept(scanned.lines) }))
    }

    /// All bytes of a segment, zeroes where it cannot be read.
    pub(super) fn read_whole(
        &mut self,
        segment: &Segment,
        is_last: bool,
    ) -> Result<Vec<u8>, Error> {
        let number = segment.number;
        let mut whole = match self.read(number, 0, segment.bytes as usize) {
            Ok(bytes) => return Ok(bytes),
            // Durable records may follow the apparent end of the log.
            Err(error) if is_last => return Err(error),
            Err(_) => vec![0; segment.bytes as usize],
        };
        for (index, block) in whole.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            match self.read(number, (index * BLOCK_BYTES) as u64, BLOCK_BYTES) {
                Ok(bytes) => block.copy_from_slice(&bytes),
                Err(error) => self.recovery.damage.push(error),
            }
        }
        Ok(whole)
    }

    /// Reads records one by one until they end.
    pub(super) fn scan(
        &mut self,
        number: u64,
        bytes: &mut [u8],
        trailer: Option<Trailer>,
        is_last: bool,
    ) -> Scanned {
        let file = FileName::Segment(number);
        let limit = trailer.map_or(bytes.len(), |trailer| trailer.data_end as usize);
        let sealed = trailer.filter(|_| !is_last);
        let mut parity = sealed.and_then(|trailer| self.parity(bytes, &trailer));
        let mut scanned = Scanned { lines: Vec::new(), end: BLOCK_BYTES as u64, version_max: 0 };
        let mut at = BLOCK_BYTES;
        // Lines and offset at the beginning of the incomplete step.
        let mut step = None;
        while at < limit {
            match Record::read(Address::new(number, at as u64), &bytes[at..]) {
                Ok(record) => {
                    // Nothing of a step is durable before its last record is appended.
                    let same = step.filter(|(_, begun)| record.durable_bytes() <= *begun);
                    let begun = same.unwrap_or((scanned.lines.len(), at as u64));
                    step = record.more.then_some(begun);
                    self.recovery.records_scanned += 1;
                    scanned.version_max = scanned.version_max.max(record.body.version);
                    add_lines(&mut scanned.lines, &record, at as u64, |key| self.hasher.hash(key));
                    at += record.bytes();
                }
                Err(broken) => {
                    let next = behind_damage(number, &bytes[..limit], at, !is_last)
                        .or(sealed.map(|_| limit))
                        .or_else(|| behind_whole(number, &mut bytes[..limit], at));
                    let Some(next) = next else {
                        if is_last && !bytes[at..limit].iter().all(|byte| *byte == 0) {
                            self.recovery.cut = Some((file, at as u64));
                        }
                        break;
                    };
                    self.damaged(number, at as u64, &broken.to_string());
                    let address = Address::new(number, at as u64);
                    let mut by_parity = |bytes: &mut [u8]| {
                        parity.as_mut().is_some_and(|parity| parity.mend(address, bytes, next))
                    };
                    // A repaired record is read like any other.
                    if !by_parity(bytes) && !mending::mend_byte(address, bytes, next) {
                        let begun = step.unwrap_or((scanned.lines.len(), at as u64));
                        // Without a header, a step that had begun continues.
                        let more = self.name_damaged(&mut scanned.lines, address, &bytes[..next]);
                        step = more.map_or(step, |more| more.then_some(begun));
                        at = next;
                    }
                }
            }
            scanned.end = at as u64;
        }
        if let Some((lines, begun)) = step.filter(|_| is_last) {
            scanned.lines.truncate(lines);
            scanned.end = begun;
            self.recovery.cut = Some((file, begun));
        }
        scanned
    }

    /// Adds the line of a damaged record from its header, if the record ends where it should: a
    /// lookup of its key then reports the damage. Returns whether its step continues, if the header
    /// states it.
    fn name_damaged(&self, lines: &mut Vec<Line>, address: Address, bytes: &[u8]) -> Option<bool> {
        let at = address.offset() as usize;
        let record = Record::parse(&bytes[at..]).ok();
        let record = record.filter(|record| at + record.bytes() == bytes.len())?;
        if record.kind == Kind::Put {
            add_lines(lines, &record, at as u64, |key| self.hasher.hash(key));
        }
        Some(record.more)
    }

    /// Data for repairing records of a segment without footer lines.
    fn parity(&mut self, segment: &[u8], trailer: &Trailer) -> Option<Parity> {
        if trailer.footer == Footer::Lines {
            return None;
        }
        let footer = trailer.footer_offset() as usize;
        let Some(stored) = whole_footer(&segment[footer..], trailer) else {
            self.damaged(trailer.number, footer as u64, "a footer with a wrong checksum");
            return None;
        };
        let mut parity = Parity::new();
        parity.add(&segment[..footer]);
        parity.add(stored);
        Some(parity)
    }

    /// Overwrites the bytes that a crash left after the end of the log, before anything else is
    /// written there, so that they are never taken for part of the log.
    fn wipe(&self, number: u64, end: usize, bytes: &[u8]) -> Result<(), Error> {
        let Some(last) = bytes[end..].iter().rposition(|byte| *byte != 0) else { return Ok(()) };
        let begin = end / BLOCK_BYTES * BLOCK_BYTES;
        let until = (end + last + 1).next_multiple_of(BLOCK_BYTES);
        let mut kept = Blocks::from(&bytes[begin..end]);
        kept.fill_up(until - begin);
        let file = FileName::Segment(number);
        let wiped = self.device.write(file, begin as u64, &kept);
        wiped.and_then(|()| self.device.sync(file)).map_err(Error::write_failed(file))
    }

    /// Writes the missing footer and trailer of the segment that was open.
    fn seal(
        &self,
        segment: &mut Segment,
        bytes: &[u8],
        scanned: &Scanned,
        is_last: bool,
    ) -> Result<Trailer, Error> {
        let number = segment.number;
        let mut trailer = Trailer {
            number,
            floor: self.floor,
            data_end: scanned.end,
            footer: Footer::of(scanned.end - BLOCK_BYTES as u64, scanned.lines.len()),
            lines: scanned.lines.len() as u64,
            footer_checksum: 0,
            version_max: scanned.version_max,
        };
        // It may have been filled without room for lines.
        if !trailer.fits(segment.bytes) {
            trailer.footer = Footer::Parity;
        }
        let (mut parity, mut footer) = (Parity::new(), Blocks::default());
        parity.add(&bytes[..trailer.footer_offset() as usize]);
        trailer.footer_checksum =
            write_footer(trailer.footer, &scanned.lines, &parity, &mut footer);
        let whole = bytes;
        // The file may have been growing.
        let end = trailer.footer_offset() + footer.len() as u64 + BLOCK_BYTES as u64;
        let bytes = segment.bytes.max(end);
        // A damaged segment stays unchanged, for inspection.
        if is_last && bytes <= self.segment_bytes {
            self.wipe(number, scanned.end as usize, whole)?;
            let mut last = Blocks::default();
            trailer.write(&mut last);
            let file = FileName::Segment(number);
            let write = |offset, bytes: &[u8]| {
                self.device.write(file, offset, bytes).map_err(Error::write_failed(file))
            };
            write(trailer.footer_offset(), &footer)?;
            self.device.sync(file).map_err(Error::write_failed(file))?;
            write(bytes - BLOCK_BYTES as u64, &last)?;
            self.device.sync(file).map_err(Error::write_failed(file))?;
            segment.bytes = bytes;
        }
        Ok(trailer)
    }
}

/// Returns the offset at which the log continues after a damaged record that reached the disk
/// completely; `None` if a crash may have torn the record, or if the log ends there.
///
/// A segment is created with zeroes and every place is written once, so a sector that a crash lost
/// is zero where the record should be. Any other sector was written, and wrong bytes in it are
/// damage.
fn behind_whole(number: u64, bytes: &mut [u8], at: usize) -> Option<usize> {
    let next = behind_damage(number, bytes, at, true);
    // The footer of a segment whose trailer was lost begins at a block boundary, and no record
    // follows it.
    if next.is_none() && at.is_multiple_of(BLOCK_BYTES) {
        return None;
    }
    let sector_end = |at: usize| (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
    // Records lie one after another; the last ends where it states.
    let end = next.or_else(|| mending::stated_end(Address::new(number, at as u64), bytes));
    let end = end.unwrap_or_else(|| sector_end(at)).min(bytes.len());
    let mut begin = at;
    while begin < end {
        let until = sector_end(begin).min(end);
        if bytes[begin..until].iter().all(|byte| *byte == 0) {
            return None;
        }
        begin = until;
    }
    Some(end)
}

/// Returns the offset of the next record after bytes that are not a record; `None` if the log ends
/// there. With `promised`, the log is known to continue.
fn behind_damage(number: u64, bytes: &[u8], damage: usize, promised: bool) -> Option<usize> {
    let mut first = None;
    let mut at = damage + UNIT_BYTES;
    while at < bytes.len() {
        match Record::read(Address::new(number, at as u64), &bytes[at..]) {
            Ok(record) => {
                let next = *first.get_or_insert(at);
                if promised || record.durable_bytes() > damage as u64 {
                    return Some(next);
                }
                at += record.bytes();
            }
            Err(_) => at += UNIT_BYTES,
        }
    }
    None
}
