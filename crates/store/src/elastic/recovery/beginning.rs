//! Metadata of a store that is read before its segments: superblock and manifest. Creates both if
//! there is no store.

use std::io::ErrorKind;

use super::super::manifest::{self, Manifest, Wrong};
use super::super::segment::{BLOCK_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Superblock};
use crate::device::{Device, FileName};
use crate::elastic::{Config, Error};

/// Superblock and manifest that were found or created.
pub(super) struct Begun {
    pub(super) superblock: Superblock,
    /// The store is of the format before this one, which had no manifest.
    pub(super) is_former: bool,
    pub(super) manifest: Option<Manifest>,
    /// Sequence number of the last valid copy of the manifest.
    pub(super) sequence: u64,
    pub(super) damage: Vec<Error>,
}

/// Both copies of the manifest.
#[derive(Default)]
struct Copies {
    newest: Option<Manifest>,
    damage: Vec<Error>,
    /// Which of the files exist.
    files: [bool; 2],
}

/// Reads superblock and manifest, or creates both.
pub(super) fn begin(
    config: &Config,
    device: &(impl Device + ?Sized),
    files: &[(FileName, u64)],
) -> Result<Begun, Error> {
    let mut copies = read_copies(device, files)?;
    let lists_any = copies.newest.as_ref().is_some_and(|newest| !newest.segments.is_empty());
    let has_segments = files.iter().any(|(name, _)| matches!(name, FileName::Segment(_)));
    // A store that was being created when the machine crashed has no segment yet.
    let is_begun = lists_any || has_segments;
    let sequence = copies.newest.as_ref().map_or(0, |newest| newest.sequence);
    let Some((superblock, is_former)) = read_superblock(device, files, is_begun)? else {
        if !config.create {
            return Err(Error::Missing { files: vec![FileName::Superblock] });
        }
        return make(config, device, &copies, sequence + 1);
    };
    let mut manifest = copies.newest.take();
    if is_former {
        // The copies found were left by an attempt to write the first manifest.
        manifest = None;
        copies.damage.clear();
    } else if manifest.is_none() {
        let file = FileName::Manifest(0);
        let wrong = copies.damage.pop().unwrap_or(Error::Missing { files: vec![file] });
        if !config.accept_data_loss {
            return Err(wrong);
        }
        copies.damage.push(wrong);
    }
    make_copies(device, &copies)?;
    Ok(Begun { superblock, is_former, manifest, sequence, damage: copies.damage })
}

fn read_copies(
    device: &(impl Device + ?Sized),
    files: &[(FileName, u64)],
) -> Result<Copies, Error> {
    let mut copies = Copies::default();
    for &(file, bytes) in files {
        let FileName::Manifest(copy) = file else { continue };
        copies.files[usize::from(copy % 2)] = true;
        let read = device.read(file, 0, bytes as usize).map_err(Error::read_failed(file))?;
        let found = match Manifest::read(&read) {
            Ok(manifest) => {
                let is_newer = |newest: &Manifest| newest.sequence < manifest.sequence;
                if copies.newest.as_ref().is_none_or(is_newer) {
                    copies.newest = Some(manifest);
                }
                continue;
            }
            Err(Wrong::Empty | Wrong::Torn) => continue,
            Err(Wrong::Version(version)) => {
                return Err(Error::Foreign {
                    file,
                    found: format!("version {:?}", char::from(version)),
                    expected: "version '1'; start the version of enroute that wrote it".to_owned(),
                });
            }
            Err(Wrong::Damaged) => "a list of segments with a wrong checksum".to_owned(),
        };
        copies.damage.push(Error::Damaged { file, offset: 0, found });
    }
    Ok(copies)
}

/// The superblock, and whether it is of the former format; nothing if there is no store yet.
fn read_superblock(
    device: &(impl Device + ?Sized),
    files: &[(FileName, u64)],
    is_begun: bool,
) -> Result<Option<(Superblock, bool)>, Error> {
    let file = FileName::Superblock;
    if files.iter().any(|(name, _)| *name == file) {
        let bytes = device.read(file, 0, BLOCK_BYTES);
        let is_short = bytes.as_ref().is_err_and(|error| error.kind() == ErrorKind::UnexpectedEof);
        return match bytes
            .map_err(Error::read_failed(file))
            .and_then(|bytes| Superblock::read(&bytes))
        {
            Err(Error::Damaged { .. }) if !is_begun => Ok(None),
            Err(_) if is_short && !is_begun => Ok(None),
            read => read.map(Some),
        };
    }
    if is_begun {
        return Err(Error::Foreign {
            file,
            found: "segments, but no superblock".to_owned(),
            expected: "a store, or an empty directory; put the file back".to_owned(),
        });
    }
    Ok(None)
}

fn make(
    config: &Config,
    device: &(impl Device + ?Sized),
    copies: &Copies,
    sequence: u64,
) -> Result<Begun, Error> {
    let segment_bytes = config.segment_bytes.next_power_of_two();
    let segment_bytes = segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    let superblock = Superblock { segment_bytes, hash_key: config.hash_key };
    // Before the superblock, whose presence means that the store exists.
    make_copies(device, copies)?;
    let manifest = Manifest { sequence, next: 1, ..Manifest::default() };
    manifest.store(device)?;
    let file = FileName::Superblock;
    device.create(file, BLOCK_BYTES as u64).map_err(Error::write_failed(file))?;
    superblock.store(device)?;
    let manifest = Some(manifest);
    Ok(Begun { superblock, is_former: false, manifest, sequence, damage: Vec::new() })
}

/// Creates the missing files.
fn make_copies(device: &(impl Device + ?Sized), copies: &Copies) -> Result<(), Error> {
    for copy in 0..2u8 {
        let file = FileName::Manifest(copy);
        if !copies.files[usize::from(copy)] {
            device.create(file, manifest::FILE_BYTES).map_err(Error::write_failed(file))?;
        }
    }
    Ok(())
}
