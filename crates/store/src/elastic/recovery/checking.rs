//! Reads everything in a store that is not open, and changes nothing.

use std::io;

use super::{KeyHasher, Opening, Recovery, beginning};
use crate::device::{Device, FileName};
use crate::elastic::log::Segment;
use crate::elastic::segment::Header;
use crate::elastic::{Config, Error};

/// Findings of [`check`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Identity of the store, if it can be read.
    pub identity: Option<u32>,
    /// Segments with records.
    pub segments: usize,
    /// Intact records.
    pub records: u64,
    /// Place at which a crash tore the log, which is no damage: file, offset in bytes.
    pub cut: Option<(FileName, u64)>,
    /// Damaged places.
    pub damage: Vec<Error>,
}

/// Reads every record of the store on `device`, by the rules of recovery. Bytes that mean nothing,
/// for example between the records and the footer of a segment, are not compared with anything.
pub fn check(device: &(impl Device + ?Sized)) -> Checked {
    let mut checked = Checked::default();
    if let Err(error) = look_through(&Unchanged(device), &mut checked) {
        checked.damage.push(error);
    }
    checked
}

fn look_through<D: Device + ?Sized>(
    device: &Unchanged<'_, D>,
    checked: &mut Checked,
) -> Result<(), Error> {
    let files = device.list().map_err(Error::read_failed(FileName::Superblock))?;
    let config = Config { create: false, accept_data_loss: true, ..Config::default() };
    let begun = beginning::begin(&config, device, &files)?;
    checked.identity = Some(begun.superblock.identity());
    let mut opening = Opening {
        device,
        hasher: KeyHasher::new(begun.superblock.hash_key),
        segment_bytes: begun.superblock.segment_bytes,
        was_closed: begun.manifest.as_ref().is_some_and(|manifest| manifest.closed),
        manifest: begun.manifest,
        removals: Vec::new(),
        // No lines are kept.
        lines_max: 0,
        lines_kept: 0,
        recovery: Recovery { damage: begun.damage, ..Recovery::default() },
        version: 0,
        floor: 0,
    };
    let found = opening.find_segments(&files, true)?;
    for (index, found) in found.iter().enumerate() {
        let was_read = found.segment.damaged || (index == 0 && !opening.was_closed);
        if !was_read {
            opening.read_records(&found.segment)?;
        }
    }
    checked.segments = found.len();
    let Recovery { records_scanned, cut, damage, .. } = opening.recovery;
    (checked.records, checked.cut, checked.damage) = (records_scanned, cut, damage);
    Ok(())
}

impl<D: Device + ?Sized> Opening<'_, D> {
    /// Reads the records of a sealed segment whose footer is intact.
    fn read_records(&mut self, segment: &Segment) -> Result<(), Error> {
        let number = segment.number;
        let mut bytes = self.read_whole(segment, false)?;
        if Header::read(&bytes).is_none_or(|header| header.number != number) {
            self.damaged(number, 0, "a header with a wrong checksum");
        }
        self.scan(number, &mut bytes, segment.trailer, false);
        Ok(())
    }
}

/// A device that drops all writes: recovery repairs the end of the log, and reads nothing that it
/// has written.
struct Unchanged<'a, D: ?Sized>(&'a D);

impl<D: Device + ?Sized> Device for Unchanged<'_, D> {
    fn list(&self) -> io::Result<Vec<(FileName, u64)>> {
        self.0.list()
    }

    fn read(&self, file: FileName, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.0.read(file, offset, bytes)
    }

    fn write(&self, _: FileName, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _: FileName) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, _: FileName, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: FileName) -> io::Result<()> {
        Ok(())
    }
}
