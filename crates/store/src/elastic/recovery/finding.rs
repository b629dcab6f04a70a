//! Finding out what is in every segment, and mending the last.

use super::{Found, Lines, Opening, write_failed};
use crate::device::{Device, FileName};
use crate::elastic::Error;
use crate::elastic::log::{Segment, kills_of};
use crate::elastic::record::{Address, Class, Kind, Record, UNIT_BYTES};
use crate::elastic::segment::{BLOCK_BYTES, Header, Line, Trailer, read_footer, write_footer};
use crate::elastic::table::HASH_BITS;

/// What a scan of records found.
struct Scanned {
    lines: Vec<Line>,
    end: u64,
    version_max: u64,
}

impl<D: Device + ?Sized> Opening<'_, D> {
    /// Reads what all segments say of themselves, and mends the last.
    pub(super) fn find_segments(&mut self, files: &[(FileName, u64)]) -> Result<Vec<Found>, Error> {
        let mut segments: Vec<Segment> = files
            .iter()
            .filter_map(|&(name, bytes)| match name {
                FileName::Segment(number) => Some(Segment::new(number, self.whole_blocks(bytes))),
                _ => None,
            })
            .collect();
        segments.sort_unstable_by_key(|segment| std::cmp::Reverse(segment.number));
        let mut found: Vec<Found> = Vec::new();
        for segment in segments {
            let (number, is_last) = (segment.number, found.is_empty());
            if number < self.floor {
                self.remove(number)?;
                continue;
            }
            match self.find_segment(segment, is_last)? {
                Some(segment) => found.push(segment),
                None if is_last => self.remove(number)?,
                // It was safe before anything behind it was written.
                None => self.damaged(number, 0, "nothing that was written is left"),
            }
        }
        self.recovery.segments = found.len();
        Ok(found)
    }

    /// What of a file of that length can be a segment.
    fn whole_blocks(&self, bytes: u64) -> u64 {
        bytes.min(self.segment_bytes) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
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
        // The last may have been sealed and not synced: what its footer lists may be torn.
        if !is_last {
            let Some(trailer) = trailer else {
                self.damaged(number, bytes, "no trailer");
                return self.find_unsealed(segment, is_last);
            };
            if self.read_lines(&trailer).is_some() {
                self.version = self.version.max(trailer.version_max);
                return Ok(Some(Found { segment, lines: Lines::InFooter }));
            }
            self.damaged(number, trailer.footer_offset(), "a footer with a wrong checksum");
        }
        self.find_unsealed(segment, is_last)
    }

    pub(super) fn read_lines(&self, trailer: &Trailer) -> Option<Vec<Line>> {
        let bytes =
            self.read(trailer.number, trailer.footer_offset(), trailer.footer_bytes()).ok()?;
        read_footer(&bytes, trailer)
    }

    fn damaged(&mut self, number: u64, offset: u64, found: &str) {
        let (file, found) = (FileName::Segment(number), found.to_owned());
        self.recovery.damage.push(Error::Damaged { file, offset, found });
    }

    fn find_unsealed(
        &mut self,
        mut segment: Segment,
        is_last: bool,
    ) -> Result<Option<Found>, Error> {
        let number = segment.number;
        let bytes = self.read_whole(&segment, is_last)?;
        match Header::read(&bytes).filter(|header| header.number == number) {
            Some(header) => self.floor = self.floor.max(header.floor),
            None if behind_damage(number, &bytes, 0, !is_last).is_none() => {
                // Never used, or torn at its very beginning: what follows was promised to nobody.
                return Ok(None);
            }
            None => self.damaged(number, 0, "a header with a wrong checksum"),
        }
        let scanned = self.scan(number, &bytes, segment.trailer, is_last);
        segment.trailer = segment.trailer.filter(|trailer| trailer.data_end == scanned.end);
        self.version = self.version.max(scanned.version_max);
        if segment.trailer.is_none() {
            segment.trailer = Some(self.seal(&mut segment, &scanned, is_last)?);
        }
        Ok(Some(Found { segment, lines: Lines::Scanned(scanned.lines) }))
    }

    /// All bytes of a segment, zeroes where it cannot be read.
    fn read_whole(&mut self, segment: &Segment, is_last: bool) -> Result<Vec<u8>, Error> {
        let number = segment.number;
        let mut whole = match self.read(number, 0, segment.bytes as usize) {
            Ok(bytes) => return Ok(bytes),
            // What was promised might lie where the log seems to end.
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
        // Lines and place at the beginning of the step that is not over.
        let mut step = None;
        while at < limit {
            match Record::read(Address::new(number, at as u64), &bytes[at..]) {
                Ok(record) => {
                    let begun = step.unwrap_or((scanned.lines.len(), at as u64));
                    step = record.more.then_some(begun);
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
                    self.damaged(number, at as u64, &broken.to_string());
                    step = None;
                    at = next;
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
                }));
            }
        }
    }

    /// Gives the segment that was open the footer and trailer it lacks.
    fn seal(
        &self,
        segment: &mut Segment,
        scanned: &Scanned,
        is_last: bool,
    ) -> Result<Trailer, Error> {
        let number = segment.number;
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
        // The file may have been growing.
        let end = trailer.footer_offset() + footer.len() as u64 + BLOCK_BYTES as u64;
        let bytes = segment.bytes.max(end);
        // A damaged segment stays as it is, for whoever wants to look at it.
        if is_last && bytes <= self.segment_bytes {
            let mut last = Vec::new();
            trailer.write(&mut last);
            let file = FileName::Segment(number);
            let write = |offset, bytes: &[u8]| {
                self.device.write(file, offset, bytes).map_err(write_failed(file))
            };
            write(trailer.footer_offset(), &footer)?;
            self.device.sync(file).map_err(write_failed(file))?;
            write(bytes - BLOCK_BYTES as u64, &last)?;
            self.device.sync(file).map_err(write_failed(file))?;
            segment.bytes = bytes;
        }
        Ok(trailer)
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
