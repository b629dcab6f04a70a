//! The lines of a segment, whether its footer lists them or not.
//!
//! Lines of short records would take too much space: a segment of such records has none, and they
//! are derived from the records, one portion after another.

use super::Error;
use super::record::{Address, Broken, Class, Kind, Record, kills_of};
use super::segment::{BLOCK_BYTES, Footer, Line, Trailer, read_footer};
use crate::device::FileName;

/// Bytes of records read at once.
pub(super) const PORTION_BYTES: usize = 256 << 10;

/// Adds the lines of a footer for the record at `offset`.
pub(super) fn add_lines(
    lines: &mut Vec<Line>,
    record: &Record<'_>,
    offset: u64,
    hash: impl FnOnce(&[u8]) -> u64,
) {
    match record.kind {
        Kind::Put => lines.push(Line {
            hash: hash(record.key),
            offset,
            class: Some(Class::of(record.bytes())),
            kills: record.kills,
            expires_s: Line::expires_s(record.body.expires_at),
        }),
        Kind::Kills => lines.extend(kills_of(record.body.value).map(|(hash, kills)| Line {
            hash,
            offset,
            class: None,
            kills,
            expires_s: u32::MAX,
        })),
    }
}

/// A sealed segment whose lines are being read.
#[derive(Debug)]
pub(super) struct LineReader {
    trailer: Trailer,
    next: Option<(u64, usize)>,
}

impl LineReader {
    pub(super) fn new(trailer: Trailer) -> Self {
        let next = match trailer.footer {
            Footer::Lines => Some((trailer.footer_offset(), trailer.footer_bytes())),
            Footer::Parity => portion(&trailer, BLOCK_BYTES as u64, PORTION_BYTES),
        };
        Self { trailer, next }
    }

    pub(super) fn trailer(&self) -> &Trailer {
        &self.trailer
    }

    /// Returns offset and length of the next read; `None` if all was read.
    pub(super) fn next(&self) -> Option<(u64, usize)> {
        self.next
    }

    /// Returns the lines in the data that was read; there may be none even if more follow.
    ///
    /// # Errors
    /// [`Error::Damaged`], with the place.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        hash: impl Fn(&[u8]) -> u64,
    ) -> Result<Vec<Line>, Error> {
        let Some((offset, wanted)) = self.next.take() else { return Ok(Vec::new()) };
        match self.trailer.footer {
            Footer::Lines => read_footer(bytes, &self.trailer)
                .ok_or_else(|| self.damaged(offset, "a footer with a wrong checksum")),
            Footer::Parity => self.derive(offset, &bytes[..wanted.min(bytes.len())], hash),
        }
    }

    fn derive(
        &mut self,
        offset: u64,
        bytes: &[u8],
        hash: impl Fn(&[u8]) -> u64,
    ) -> Result<Vec<Line>, Error> {
        let (mut lines, mut at) = (Vec::new(), 0);
        let goes_on = offset + (bytes.len() as u64) < self.trailer.data_end;
        while at < bytes.len() {
            let place = offset + at as u64;
            match Record::read(Address::new(self.trailer.number, place), &bytes[at..]) {
                Ok(record) => {
                    add_lines(&mut lines, &record, place, &hash);
                    at += record.bytes();
                }
                Err(Broken::Short { .. }) if goes_on => break,
                Err(broken) => return Err(self.damaged(place, &broken.to_string())),
            }
        }
        // A record longer than a portion is read at once.
        let length = if at == 0 { 2 * bytes.len() } else { PORTION_BYTES };
        self.next = portion(&self.trailer, offset + at as u64, length);
        Ok(lines)
    }

    fn damaged(&self, offset: u64, found: &str) -> Error {
        let (file, found) = (FileName::Segment(self.trailer.number), found.to_owned());
        Error::Damaged { file, offset, found }
    }
}

fn portion(trailer: &Trailer, offset: u64, bytes: usize) -> Option<(u64, usize)> {
    let left = trailer.data_end.checked_sub(offset).filter(|left| *left > 0)?;
    Some((offset, (bytes as u64).min(left) as usize))
}
