//! Filling the storage table from the lines of all segments.

use std::ops::Range;

use hashbrown::HashSet;

use super::{Found, Lines, Opening};
use crate::device::{Device, FileName};
use crate::elastic::log::Log;
use crate::elastic::paging::PATIENCE;
use crate::elastic::record::Address;
use crate::elastic::segment::{Line, Trailer};
use crate::elastic::table::{HASH_BITS, Slot, Table};
use crate::elastic::{Config, Error};
use crate::mapping::PAGE_BYTES;

impl<D: Device + ?Sized> Opening<'_, D> {
    /// Fills the table with the records that no record kills, one range of hashes after another, so
    /// that the memory needed at once fits the budget.
    pub(super) fn fill(
        &mut self,
        log: &mut Log,
        table: &mut Table,
        found: Vec<Found>,
        config: &Config,
    ) -> Result<(), Error> {
        let count = |found: &Found| match &found.lines {
            Lines::OnDisk => found.segment.trailer.map_or(0, |trailer| trailer.lines),
            Lines::Kept(lines) => lines.len() as u64,
        };
        let total: u64 = found.iter().map(count).sum();
        let parts = total.div_ceil(self.lines_max).max(1);
        let mut segments = Vec::new();
        for Found { segment, lines } in found {
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
        range: &Range<u64>,
    ) -> Result<(), Error> {
        let mut killed: HashSet<Address> = HashSet::new();
        for only_kills in [true, false] {
            for (slot, trailer, lines) in segments {
                let read;
                let lines = match (lines, trailer) {
                    (Lines::Kept(lines), _) => lines,
                    (Lines::OnDisk, Some(trailer)) => {
                        // They could be read a moment ago.
                        read = self.read_lines(trailer)?;
                        &read
                    }
                    (Lines::OnDisk, None) => continue,
                };
                let mut kills = 0;
                for line in lines.iter().filter(|line| range.contains(&line.hash)) {
                    if only_kills {
                        if log.segments.has(line.kills.segment()) {
                            killed.insert(line.kills);
                            kills += 1;
                        }
                    } else if let Some(class) = line.class {
                        let location = log.segments.location(*slot, line.offset);
                        if !killed.contains(&log.segments.address(location)) {
                            self.revive(log, table, line, Slot { location, class })?;
                        }
                    }
                }
                log.segments.note_kills(*slot, kills);
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
            let bytes =
                self.device.read(file, offset, PAGE_BYTES).map_err(Error::read_failed(file))?;
            if !table.returned(page, &bytes, false) {
                let found = "a page of the storage table with a wrong checksum".to_owned();
                return Err(Error::Damaged { file, offset, found });
            }
        }
        if !table.insert(line.hash, slot) {
            return Err(Error::TableFull { entries: table.len() });
        }
        log.note_record(slot.class.bytes());
        log.segments.revive(slot.location, slot.class);
        log.segments.note_expiry(log.segments.slot(slot.location), line.expires_s);
        Ok(())
    }

    fn create_spill(&self) -> Result<(), Error> {
        let file = FileName::Spill;
        self.device.create(file, 0).map_err(Error::write_failed(file))
    }

    fn spill(&self, table: &mut Table, pages_max: usize) -> Result<(), Error> {
        let file = FileName::Spill;
        while table.pages_resident() > pages_max {
            let Some((page, bytes)) = table.send_away(PATIENCE, false) else { break };
            if let Some(bytes) = bytes {
                let offset = u64::from(page) * PAGE_BYTES as u64;
                self.device.write(file, offset, &bytes).map_err(Error::write_failed(file))?;
            }
        }
        Ok(())
    }
}
