//! Opening a store: finding out which entries there are.
//!
//! Every record names the record it kills, so what is alive is simply every record nobody kills, in
//! whatever order segments are read. Sealed segments say it in their footers, 24 bytes a record;
//! the one that was open is read record by record, and cut where the crash tore it.
//!
//! Cut or damaged? Every record says up to where its segment was durable when it was appended. Bytes
//! that do not parse but lie below such a mark were safe once: that is damage, reported with file and
//! offset, and reading goes on behind it. Otherwise nobody was promised anything, and the log ends.

use std::time::Duration;

use hashbrown::{HashSet, HashTable};
use siphasher::sip::SipHasher13;

use super::log::{Log, SPARES, Segment, kills_of};
use super::record::{Address, Class, Kind, Record, UNIT_BYTES};
use super::reuse::Reuse;
use super::segment::{
    BLOCK_BYTES, Header, Line, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Superblock, Trailer,
    read_footer, write_footer,
};
use super::table::{HASH_BITS, Slot, Table};
use super::{Config, Elastic, Error, Stats};
use crate::config::Config as MemoryConfig;
use crate::device::{Device, FileName};
use crate::mapping::PAGE_BYTES;
use crate::memory::Memory;
use crate::replacement::Sketch;
use crate::retired::Retired;

/// Footer lines worked on at once for every byte of the budget: the killed addresses and the pages
/// made of them take about 32 bytes each, and may have a quarter of it.
const BUDGET_BYTES_PER_LINE: usize = 128;

/// What opening a store found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Entries there are.
    pub entries: u64,
    /// Segments read.
    pub segments: usize,
    /// Records read one by one, as their segment was not sealed or its footer damaged.
    pub records_scanned: u64,
    /// Where the log was cut, if the last crash tore it: file, offset in bytes.
    pub cut: Option<(FileName, u64)>,
    /// Damaged places.
    pub damage: Vec<Error>,
}

/// A segment as found.
struct Found {
    segment: Segment,
    lines: Lines,
}

/// Where the lines of a segment are.
enum Lines {
    InFooter,
    Scanned(Vec<Line>),
}

/// What a scan of records found.
struct Scanned {
    lines: Vec<Line>,
    end: u64,
    version_max: u64,
}

struct Opening<'a, D: Device + ?Sized> {
    device: &'a D,
    hasher: SipHasher13,
    segment_bytes: u64,
    recovery: Recovery,
    version: u64,
    floor: u64,
}

impl Elastic {
    /// Opens the store on `device`, making it if there is none.
    ///
    /// # Errors
    /// When the device fails, or holds something this version cannot read.
    pub fn open(
        config: Config,
        device: &(impl Device + ?Sized),
        now: Duration,
    ) -> Result<Self, Error> {
        let files = device.list().map_err(read_failed(FileName::Superblock))?;
        let superblock = read_superblock(&config, device, &files)?;
        let [first, second] = superblock.hash_key;
        let mut opening = Opening {
            device,
            hasher: SipHasher13::new_with_keys(first, second),
            segment_bytes: superblock.segment_bytes,
            recovery: Recovery::default(),
            version: 0,
            floor: 0,
        };
        let found = opening.find_segments(&files)?;
        let mut log = Log::new(superblock.segment_bytes, opening.floor);
        let mut table = Table::new();
        opening.fill(&mut log, &mut table, found, &config)?;
        for _ in 0..SPARES {
            let number = log.take_number();
            if device.create(FileName::Segment(number), superblock.segment_bytes).is_err() {
                // Asked for again when the store runs.
                break;
            }
            log.add_spare(number);
        }
        opening.recovery.entries = table.len();
        let damage = opening.recovery.damage.clone().into();
        let memory = MemoryConfig {
            bytes_max: config.memory_bytes,
            key_bytes_max: usize::MAX,
            value_bytes_max: usize::MAX,
            replacement: config.replacement,
            ..MemoryConfig::default()
        };
        let mut elastic = Self {
            hasher: opening.hasher,
            table,
            table_epoch: 0,
            leaving_epoch: 0,
            memory: Memory::new(memory, first ^ second),
            log,
            version: opening.version,
            fresh: HashTable::new(),
            gone: Vec::new(),
            staged: Default::default(),
            staged_bytes: 0,
            tickets: Default::default(),
            loaded: Default::default(),
            next_ticket: 0,
            pages_awaited: Default::default(),
            pages_leaving: 0,
            outbox: Default::default(),
            purposes: Default::default(),
            next_command: 0,
            compaction: None,
            compaction_rest: 0,
            sweep: None,
            walk: None,
            uses: Sketch::default(),
            uses_counted: 0,
            reuse: Reuse::new(),
            retired: Retired::default(),
            recovery: opening.recovery,
            damage,
            stats: Stats::default(),
            config,
        };
        elastic.step(now);
        Ok(elastic)
    }
}

fn read_failed(file: FileName) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::ReadFailed { file, offset: 0, reason: error.to_string() }
}

fn write_failed(file: FileName) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::WriteFailed { file, reason: error.to_string() }
}

fn read_superblock(
    config: &Config,
    device: &(impl Device + ?Sized),
    files: &[(FileName, u64)],
) -> Result<Superblock, Error> {
    let file = FileName::Superblock;
    // A store that is being made when the crash comes has no segment yet.
    let is_begun = files.iter().any(|(name, _)| matches!(name, FileName::Segment(_)));
    if files.iter().any(|(name, _)| *name == file) {
        let bytes = device.read(file, 0, BLOCK_BYTES).map_err(read_failed(file));
        match bytes.and_then(|bytes| Superblock::read(&bytes)) {
            Err(_) if !is_begun => {}
            read => return read,
        }
    } else if is_begun {
        return Err(Error::Foreign {
            file,
            found: "segments, but no superblock".to_owned(),
            expected: "a store, or an empty directory".to_owned(),
        });
    }
    let superblock = Superblock { segment_bytes: config.segment_bytes, hash_key: config.hash_key };
    let mut bytes = Vec::new();
    superblock.write(&mut bytes);
    device.create(file, BLOCK_BYTES as u64).map_err(write_failed(file))?;
    device.write(file, 0, &bytes).map_err(write_failed(file))?;
    device.sync(file).map_err(write_failed(file))?;
    Ok(superblock)
}

impl<D: Device + ?Sized> Opening<'_, D> {
    /// Reads what all segments say of themselves, and mends the last.
    fn find_segments(&mut self, files: &[(FileName, u64)]) -> Result<Vec<Found>, Error> {
        let mut numbers: Vec<u64> = files
            .iter()
            .filter_map(|(name, _)| match name {
                FileName::Segment(number) => Some(*number),
                _ => None,
            })
            .collect();
        numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        let mut found: Vec<Found> = Vec::new();
        for number in numbers {
            if number < self.floor {
                self.remove(number)?;
                continue;
            }
            let is_last = found.is_empty();
            match self.find_segment(number, is_last)? {
                Some(segment) => found.push(segment),
                None => self.remove(number)?,
            }
        }
        self.recovery.segments = found.len();
        Ok(found)
    }

    fn remove(&self, number: u64) -> Result<(), Error> {
        let file = FileName::Segment(number);
        self.device.remove(file).map_err(write_failed(file))
    }

    fn read(&self, number: u64, offset: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        let file = FileName::Segment(number);
        self.device.read(file, offset, bytes).map_err(|error| Error::ReadFailed {
            file,
            offset,
            reason: error.to_string(),
        })
    }

    /// What is in a segment; nothing if it was never used.
    fn find_segment(&mut self, number: u64, is_last: bool) -> Result<Option<Found>, Error> {
        let last_block = self.segment_bytes - BLOCK_BYTES as u64;
        // One that cannot be read whole was being made, or is damaged past its end.
        let ends = self.read(number, last_block, BLOCK_BYTES).ok();
        let is_ours = |end: &Trailer| end.number == number && end.fits(self.segment_bytes);
        let trailer = ends.as_deref().and_then(Trailer::read).filter(is_ours);
        let mut segment = Segment::new(number);
        if let Some(trailer) = trailer {
            self.floor = self.floor.max(trailer.floor);
            segment.trailer = Some(trailer);
            // The last may have been sealed and not synced: what its footer lists may be torn.
            if !is_last && self.read_lines(&trailer).is_some() {
                self.version = self.version.max(trailer.version_max);
                return Ok(Some(Found { segment, lines: Lines::InFooter }));
            }
            if !is_last {
                let file = FileName::Segment(number);
                let found = "a footer with a wrong checksum".to_owned();
                self.damaged(Error::Damaged { file, offset: trailer.footer_offset(), found });
            }
        }
        self.find_unsealed(segment, is_last)
    }

    fn read_lines(&self, trailer: &Trailer) -> Option<Vec<Line>> {
        let bytes =
            self.read(trailer.number, trailer.footer_offset(), trailer.footer_bytes()).ok()?;
        read_footer(&bytes, trailer)
    }

    fn damaged(&mut self, error: Error) {
        self.recovery.damage.push(error);
    }

    fn find_unsealed(
        &mut self,
        mut segment: Segment,
        is_last: bool,
    ) -> Result<Option<Found>, Error> {
        let number = segment.number;
        let Ok(bytes) = self.read(number, 0, self.segment_bytes as usize) else {
            if !is_last {
                let found = "the segment cannot be read whole".to_owned();
                self.damaged(Error::Damaged { file: FileName::Segment(number), offset: 0, found });
            }
            return Ok(None);
        };
        match Header::read(&bytes).filter(|header| header.number == number) {
            Some(header) => self.floor = self.floor.max(header.floor),
            None if behind_damage(number, &bytes, 0, !is_last).is_none() => {
                // Never used, or torn at its very beginning: what follows was promised to nobody.
                return Ok(None);
            }
            None => {
                let found = "a header with a wrong checksum".to_owned();
                self.damaged(Error::Damaged { file: FileName::Segment(number), offset: 0, found });
            }
        }
        let scanned = self.scan(number, &bytes, segment.trailer, is_last);
        segment.trailer = segment.trailer.filter(|trailer| trailer.data_end == scanned.end);
        self.version = self.version.max(scanned.version_max);
        if segment.trailer.is_none() {
            segment.trailer = Some(self.seal(number, &scanned, is_last)?);
        }
        Ok(Some(Found { segment, lines: Lines::Scanned(scanned.lines) }))
    }

    /// Reads records one by one, to where they end.
    fn scan(
        &mut self,
        number: u64,
        bytes: &[u8],
        trailer: Option<Trailer>,
        is_last: bool,
    ) -> Scanned {
        let file = FileName::Segment(number);
        let limit = trailer.map_or(bytes.len(), |trailer| trailer.data_end as usize);
        let mut scanned = Scanned { lines: Vec::new(), end: BLOCK_BYTES as u64, version_max: 0 };
        let mut at = BLOCK_BYTES;
        while at < limit {
            match Record::read(Address::new(number, at as u64), &bytes[at..]) {
                Ok(record) => {
                    self.take_record(&mut scanned, at as u64, &record);
                    at += record.bytes();
                }
                Err(broken) => {
                    let Some(next) = behind_damage(number, &bytes[..limit], at, !is_last) else {
                        if is_last && !bytes[at..limit].iter().all(|byte| *byte == 0) {
                            self.recovery.cut = Some((file, at as u64));
                        }
                        break;
                    };
                    let (offset, found) = (at as u64, broken.to_string());
                    self.damaged(Error::Damaged { file, offset, found });
                    at = next;
                }
            }
            scanned.end = at as u64;
        }
        scanned
    }

    fn take_record(&mut self, scanned: &mut Scanned, offset: u64, record: &Record<'_>) {
        self.recovery.records_scanned += 1;
        scanned.version_max = scanned.version_max.max(record.body.version);
        match record.kind {
            Kind::Put => scanned.lines.push(Line {
                hash: self.hasher.hash(record.key) >> (64 - HASH_BITS),
                offset,
                class: Some(Class::of(record.bytes())),
                kills: record.kills,
                expires_s: Line::expires_s(record.body.expires_at),
            }),
            Kind::Kills => {
                scanned.lines.extend(kills_of(record.body.value).map(|(hash, kills)| Line {
                    hash,
                    offset,
                    class: None,
                    kills,
                    expires_s: u32::MAX,
                }))
            }
        }
    }

    /// Gives the segment that was open the footer and trailer it lacks.
    fn seal(&self, number: u64, scanned: &Scanned, is_last: bool) -> Result<Trailer, Error> {
        let mut footer = Vec::new();
        let footer_checksum = write_footer(&scanned.lines, &mut footer);
        let trailer = Trailer {
            number,
            floor: self.floor,
            data_end: scanned.end,
            lines: scanned.lines.len() as u64,
            footer_checksum,
            version_max: scanned.version_max,
        };
        // A damaged segment stays as it is, for whoever wants to look at it.
        let fits = trailer.footer_offset() + footer.len() as u64 + BLOCK_BYTES as u64;
        if is_last && fits <= self.segment_bytes {
            let mut last = Vec::new();
            trailer.write(&mut last);
            let file = FileName::Segment(number);
            let last_block = self.segment_bytes - BLOCK_BYTES as u64;
            let write = |offset, bytes: &[u8]| {
                self.device.write(file, offset, bytes).map_err(write_failed(file))
            };
            write(trailer.footer_offset(), &footer)?;
            self.device.sync(file).map_err(write_failed(file))?;
            write(last_block, &last)?;
            self.device.sync(file).map_err(write_failed(file))?;
        }
        Ok(trailer)
    }

    /// Fills the table with what nobody kills, one range of hashes after another, so that what is
    /// needed at once fits the budget.
    fn fill(
        &mut self,
        log: &mut Log,
        table: &mut Table,
        found: Vec<Found>,
        config: &Config,
    ) -> Result<(), Error> {
        let count = |found: &Found| match &found.lines {
            Lines::InFooter => found.segment.trailer.map_or(0, |trailer| trailer.lines),
            Lines::Scanned(lines) => lines.len() as u64,
        };
        let total: u64 = found.iter().map(count).sum();
        let at_once = (config.memory_bytes / BUDGET_BYTES_PER_LINE).max(1 << 14) as u64;
        let parts = total.div_ceil(at_once).max(1);
        let mut segments = Vec::new();
        for Found { mut segment, lines } in found {
            segment.damaged =
                matches!(lines, Lines::Scanned(_)) && !self.recovery.damage.is_empty();
            let trailer = segment.trailer;
            segments.push((log.adopt(segment), trailer, lines));
        }
        let pages_max = (config.memory_bytes / 4 / PAGE_BYTES).max(16);
        self.create_spill()?;
        for part in 0..parts {
            let bound = |part: u64| ((u128::from(part) << HASH_BITS) / u128::from(parts)) as u64;
            let range = bound(part)..bound(part + 1);
            self.fill_range(log, table, &segments, &range)?;
            self.spill(table, pages_max)?;
        }
        Ok(())
    }

    fn fill_range(
        &mut self,
        log: &mut Log,
        table: &mut Table,
        segments: &[(usize, Option<Trailer>, Lines)],
        range: &std::ops::Range<u64>,
    ) -> Result<(), Error> {
        let mut killed: HashSet<Address> = HashSet::new();
        for only_kills in [true, false] {
            for (slot, trailer, lines) in segments {
                let read;
                let lines = match (lines, trailer) {
                    (Lines::Scanned(lines), _) => lines,
                    (Lines::InFooter, Some(trailer)) => {
                        let file = FileName::Segment(trailer.number);
                        read = self.read_lines(trailer).ok_or_else(|| Error::ReadFailed {
                            file,
                            offset: trailer.footer_offset(),
                            reason: "its footer could be read a moment ago".to_owned(),
                        })?;
                        &read
                    }
                    (Lines::InFooter, None) => continue,
                };
                for line in lines.iter().filter(|line| range.contains(&line.hash)) {
                    if only_kills {
                        if log.has_segment(line.kills.segment()) {
                            killed.insert(line.kills);
                        }
                    } else if let Some(class) = line.class {
                        let location = log.location(*slot, line.offset);
                        if !killed.contains(&log.address(location)) {
                            self.revive(log, table, line, Slot { location, class })?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn revive(
        &self,
        log: &mut Log,
        table: &mut Table,
        line: &Line,
        slot: Slot,
    ) -> Result<(), Error> {
        let page = table.page_of(line.hash);
        if !table.is_resident(page) {
            let offset = u64::from(page) * PAGE_BYTES as u64;
            let file = FileName::Spill;
            let bytes = self.device.read(file, offset, PAGE_BYTES).map_err(read_failed(file))?;
            if !table.returned(page, &bytes) {
                let found = "a page of the storage table with a wrong checksum".to_owned();
                return Err(Error::Damaged { file, offset, found });
            }
        }
        if !table.insert(line.hash, slot) {
            return Err(Error::TableFull { entries: table.len() });
        }
        log.revive(slot.location, slot.class);
        log.note_expiry(log.slot(slot.location), line.expires_s);
        Ok(())
    }

    fn create_spill(&self) -> Result<(), Error> {
        let file = FileName::Spill;
        self.device.create(file, 0).map_err(write_failed(file))
    }

    fn spill(&self, table: &mut Table, pages_max: usize) -> Result<(), Error> {
        let file = FileName::Spill;
        while table.pages_resident() > pages_max {
            let Some(page) = table.victim(2 * table.pages_used()) else { break };
            if let Some(bytes) = table.leave(page) {
                let offset = u64::from(page) * PAGE_BYTES as u64;
                let written = self.device.write(file, offset, &bytes);
                table.left(page, written.is_ok());
                written.map_err(write_failed(file))?;
            }
        }
        Ok(())
    }
}

/// Where records go on behind bytes that are none; nothing if the log simply ends there. `promised`
/// says that it does not.
fn behind_damage(number: u64, bytes: &[u8], damage: usize, promised: bool) -> Option<usize> {
    let mut first = None;
    let mut at = damage + UNIT_BYTES;
    while at < bytes.len() {
        match Record::read(Address::new(number, at as u64), &bytes[at..]) {
            Ok(record) => {
                let next = *first.get_or_insert(at);
                if promised || record.durable as usize * UNIT_BYTES > damage {
                    return Some(next);
                }
                at += record.bytes();
            }
            Err(_) => at += UNIT_BYTES,
        }
    }
    None
}
