//! Appends records to the open segment; opens and seals segments.

use std::sync::Arc;
use std::time::Duration;

use super::spares::{self, Spare, Who};
use super::{Job, Log, Mark, Open, Segment};
use crate::blocks::Blocks;
use crate::elastic::Error;
use crate::elastic::lines::add_lines;
use crate::elastic::parity::Parity;
use crate::elastic::record::{Address, Body, Class, Expiry, Kind, Record, UNIT_BYTES, kills_of};
use crate::elastic::segment::{
    BLOCK_BYTES, Footer, Header, LINE_BYTES, Line, Trailer, write_footer,
};
use crate::elastic::since::Since;
use crate::elastic::table::Location;
use crate::item;
use crate::mapping::prefetch;

/// Lines of the processor's cache fetched before records are written to them.
const LINES_AHEAD: usize = 4;
/// Maximum number of zeroes between two pieces that are written together.
const GAP_BYTES: usize = 64 << 10;

impl Log {
    /// Appends a record of a key of `hash`; for a `Kills` record `hash` is ignored.
    ///
    /// # Errors
    /// When another segment is needed and there is none.
    pub(in crate::elastic) fn append(
        &mut self,
        who: Who,
        hash: u64,
        record: Record<'_>,
        now: Duration,
    ) -> Result<(Location, Class), Error> {
        if let Some(error) = &self.refusal {
            return Err(error.clone());
        }
        let lines = match record.kind {
            Kind::Put => 1,
            Kind::Kills => record.body.value.len() / 16,
        };
        let need = spares::need(record.bytes(), lines * LINE_BYTES);
        if !self.fits(record.bytes(), lines) {
            debug_assert!(!self.step.is_open, "a step writes more than was reserved for it");
            self.rotate(who, need)?;
        }
        self.spares.note_need(need);
        let open = self.open.as_mut().expect("rotating opened a segment");
        let offset = open.end();
        let durable = (open.durable / UNIT_BYTES as u64) as u32;
        let record = Record { more: self.step.is_open, durable, ..record };
        self.step.last = self.step.is_open.then_some(offset);
        record.write(Address::new(open.number, offset), &mut open.buffer);
        // Where the next records will be written. Their writes and reads would be delayed by
        // waiting for this memory.
        let ahead = open.buffer.ahead();
        ahead.iter().step_by(item::LINE_BYTES).take(LINES_AHEAD).for_each(prefetch);
        let slot = open.slot;
        open.kills += match record.kind {
            Kind::Put => u64::from(record.kills != Address::NONE),
            Kind::Kills => lines as u64,
        };
        open.count += lines;
        if open.footer == Footer::Lines || record.body.expires_at != Expiry::NEVER {
            add_lines(&mut open.lines, &record, offset, |_| hash);
        }
        open.version_max = open.version_max.max(record.body.version);
        self.appended += record.bytes() as u64;
        self.unwritten.get_or_insert(Since::new(now));
        self.segments.note_expiry(slot, Line::expires_s(record.body.expires_at));
        Ok((self.segments.location(slot, offset), Class::of(record.bytes())))
    }

    /// Appends a list of dead records, each with the hash of its key.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub(in crate::elastic) fn append_kills(
        &mut self,
        who: Who,
        kills: &[(u64, Address)],
        now: Duration,
    ) -> Result<(), Error> {
        let mut value = Vec::with_capacity(kills.len() * 16);
        for (hash, address) in kills {
            value.extend_from_slice(&hash.to_le_bytes());
            value.extend_from_slice(&address.0.to_le_bytes());
        }
        debug_assert_eq!(kills_of(&value).count(), kills.len());
        let body = Body { version: self.version, expires_at: Expiry::NEVER, value: &value };
        let none = Address::NONE;
        let record =
            Record { kind: Kind::Kills, more: false, durable: 0, kills: none, key: &[], body };
        self.append(who, 0, record, now).map(|_| ())
    }

    pub(super) fn fits(&self, bytes: usize, lines: usize) -> bool {
        let Some(open) = &self.open else { return false };
        let whole = |bytes: usize| bytes.next_multiple_of(BLOCK_BYTES) as u64;
        let footer = whole(open.footer.bytes(open.count + lines));
        whole(open.end() as usize + bytes) + footer + BLOCK_BYTES as u64 <= open.bytes
    }

    /// The longest record that fits a segment, in bytes.
    pub(in crate::elastic) fn record_bytes_max(&self) -> usize {
        self.segments.bytes_max() as usize - 4 * BLOCK_BYTES
    }

    /// Seals the open segment and opens the next spare one, for a record that needs `need` bytes of
    /// it.
    pub(super) fn rotate(&mut self, who: Who, need: u64) -> Result<(), Error> {
        let Some(spare) = self.spares.take(who) else { return Err(self.no_spare()) };
        self.seal();
        let Spare { number, bytes } = spare;
        // A file that is too short grows while it is written.
        let bytes = bytes.max(need);
        let slot = self.segments.adopt(Segment::new(number, bytes));
        let mut buffer = std::mem::take(&mut self.unused.0);
        buffer.reserve(self.write_bytes + BLOCK_BYTES);
        Header { number, floor: self.floor }.write(&mut buffer);
        self.open = Some(Open {
            slot,
            number,
            bytes,
            base: 0,
            buffer,
            written: 0,
            durable: 0,
            footer: self.footer,
            parity: Parity::new(),
            count: 0,
            lines: std::mem::take(&mut self.unused.1),
            kills: 0,
            version_max: 0,
            before: Mark::header(),
            header: None,
        });
        Ok(())
    }

    /// Drops all segments and opens a new one.
    pub(in crate::elastic) fn clear(&mut self, now: Duration) -> Result<(), Error> {
        if self.has_step_cleared() {
            self.forget_step();
        } else {
            let number = self.spares.first().ok_or_else(|| self.no_spare())?.number;
            self.forget_step();
            // A sync that ends before the clearing does not cover it.
            self.seal();
            self.floor = number;
            // Clearing frees everything, so it may use the last spare. The rest of its step must
            // fit, too.
            self.rotate(Who::Mover, self.step.need)?;
            self.hold_header();
        }
        self.appended += 1;
        self.unwritten.get_or_insert(Since::new(now));
        let kept = self.open.as_ref().expect("clearing opened a segment").slot;
        self.segments.clear(kept, self.appended);
        self.flush_wanted = self.appended;
        Ok(())
    }

    pub(super) fn seal(&mut self) {
        self.end_records();
        let Some(mut open) = self.open.take() else { return };
        let mut trailer = Trailer {
            number: open.number,
            floor: self.floor,
            data_end: open.end(),
            footer: open.footer,
            lines: open.count as u64,
            footer_checksum: 0,
            version_max: open.version_max,
        };
        open.buffer.fill_up(open.buffer.len().next_multiple_of(BLOCK_BYTES));
        open.note_blocks(open.buffer.len());
        trailer.footer_checksum =
            write_footer(open.footer, &open.lines, &open.parity, &mut open.buffer);
        self.footer = Footer::of(trailer.data_end - BLOCK_BYTES as u64, open.count);
        let last_block = (open.bytes - BLOCK_BYTES as u64 - open.base) as usize;
        let is_near = last_block <= open.buffer.len() + GAP_BYTES;
        if is_near {
            open.buffer.fill_up(last_block);
            trailer.write(&mut open.buffer);
        }
        self.push_job(open.number, open.base, open.buffer, is_near);
        if !is_near {
            let mut last = Blocks::default();
            trailer.write(&mut last);
            self.push_job(open.number, open.bytes - BLOCK_BYTES as u64, last, true);
        }
        self.segments.seal(open.slot, trailer);
        self.segments.note_kills(open.slot, open.kills);
        open.lines.clear();
        self.unused.1 = open.lines;
    }

    pub(super) fn push_job(&mut self, number: u64, base: u64, bytes: Blocks, syncs: bool) {
        let position = self.appended;
        self.jobs.push_back(Job { number, base, bytes: Arc::new(bytes), position, syncs });
        self.unwritten = None;
    }

    /// Turns the buffered bytes into a job, keeping the last incomplete block.
    pub(super) fn cut_job(&mut self) {
        let Some(open) = &mut self.open else { return };
        let end = open.end();
        let kept = (end / BLOCK_BYTES as u64 * BLOCK_BYTES as u64 - open.base) as usize;
        open.note_blocks(kept);
        let mut next = std::mem::take(&mut self.unused.0);
        next.reserve(self.write_bytes + BLOCK_BYTES);
        next.extend_from_slice(&open.buffer[kept..]);
        let mut bytes = std::mem::replace(&mut open.buffer, next);
        bytes.fill_up(bytes.len().next_multiple_of(BLOCK_BYTES));
        let (number, base) = (open.number, open.base);
        open.base += kept as u64;
        open.written = end;
        self.push_job(number, base, bytes, false);
    }
}
