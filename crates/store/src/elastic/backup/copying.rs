//! Copies the files of a backup, there and back.

use super::{Contents, Failure, File, Pinned, Point, Stored};
use crate::blocks::Blocks;
use crate::device::{Device, FileName, Link};
use crate::elastic::Error;
use crate::elastic::manifest;
use crate::elastic::segment::BLOCK_BYTES;

/// Bytes read at once.
const PORTION_BYTES: u64 = 256 << 10;

/// The same shard in an earlier backup.
pub struct Earlier<'a, D> {
    /// Its files, according to that backup's list.
    pub files: &'a [File],
    /// The directory with them.
    pub device: &'a D,
}

impl<'a, D> Earlier<'a, D> {
    /// The shard `index` of a backup with these `contents`, if it is of the same store.
    pub fn of(contents: &'a Contents, index: usize, identity: u32, device: &'a D) -> Option<Self> {
        let stored = contents.shards.get(index).filter(|stored| stored.identity == identity)?;
        Some(Self { files: &stored.files, device })
    }
}

/// What [`copy`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The shard, to be listed.
    pub stored: Stored,
    /// Bytes of segments that were linked, and of those that were copied.
    pub linked_bytes: u64,
    /// The latter.
    pub copied_bytes: u64,
}

/// Copies the store of `point` from its device `from` to the empty device `to`. A segment that
/// cannot be linked from there is linked from an `earlier` backup that has the same bytes, or
/// copied. Calls `go_on` before each portion with the number of segments that are left; its error
/// ends the backup.
///
/// # Errors
/// A file cannot be read or written; the error of `go_on`.
pub fn copy<D: Link>(
    point: &Point,
    from: &D,
    to: &D,
    earlier: &[Earlier<'_, D>],
    mut go_on: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<Copied, Failure> {
    let mut superblock = Blocks::default();
    point.superblock.write(&mut superblock);
    let mut manifest = point.manifest.blocks();
    manifest.fill_up(manifest.len().max(manifest::FILE_BYTES as usize));
    let files = vec![
        write_whole(to, FileName::Superblock, &superblock)?,
        write_whole(to, point.manifest.file(), &manifest)?,
    ];
    let stored = Stored { identity: point.superblock.identity(), files };
    let mut copied = Copied { stored, linked_bytes: 0, copied_bytes: 0 };
    for (done, segment) in point.segments.iter().enumerate() {
        let mut go_on = || go_on(point.segments.len() - done);
        let checksum = match share(segment, from, to, earlier, &mut go_on)? {
            Some(checksum) => {
                copied.linked_bytes += segment.bytes;
                checksum
            }
            None => {
                copied.copied_bytes += segment.end;
                let name = FileName::Segment(segment.number);
                copy_file(name, (segment.end, segment.bytes), from, to, &mut go_on)?
            }
        };
        let name = FileName::Segment(segment.number);
        copied.stored.files.push(File { name, bytes: segment.bytes, checksum });
    }
    go_on(0)?;
    Ok(copied)
}

/// Links a segment that is never written again, from the store or from an earlier backup; returns
/// its checksum, or nothing if it must be copied.
fn share<D: Link>(
    segment: &Pinned,
    from: &D,
    to: &D,
    earlier: &[Earlier<'_, D>],
    go_on: &mut impl FnMut() -> Result<(), Failure>,
) -> Result<Option<u32>, Failure> {
    let name = FileName::Segment(segment.number);
    if !segment.is_final {
        return Ok(None);
    }
    if to.link(name, from).is_ok() {
        return checksum_of(name, segment.bytes, to, go_on).map(Some);
    }
    for Earlier { files, device } in earlier {
        let is_it = |file: &&File| file.name == name && file.bytes == segment.bytes;
        let Some(file) = files.iter().find(is_it) else { continue };
        // A store that was restored has the same numbers for other segments, and a file may have
        // been damaged since: the bytes decide.
        let (mut checksum, mut is_same) = (0, true);
        for (offset, bytes) in portions(segment.bytes) {
            go_on()?;
            let ours = read(name, offset, bytes, from)?;
            is_same = device.read(name, offset, bytes).is_ok_and(|theirs| theirs == ours);
            if !is_same {
                break;
            }
            checksum = crc32c::crc32c_append(checksum, &ours);
        }
        if is_same && checksum == file.checksum && to.link(name, *device).is_ok() {
            return Ok(Some(checksum));
        }
    }
    Ok(None)
}

/// Copies the first `end` bytes of a file, and zeroes up to its length; returns the checksum of
/// all.
fn copy_file<D: Device + ?Sized>(
    name: FileName,
    (end, length): (u64, u64),
    from: &D,
    to: &D,
    go_on: &mut impl FnMut() -> Result<(), Failure>,
) -> Result<u32, Failure> {
    let unwritable = |reason| Failure::Unwritable { file: name, reason };
    to.create(name, length).map_err(unwritable)?;
    let mut checksum = 0;
    for (offset, bytes) in portions(end) {
        go_on()?;
        let mut copied = Blocks::from(&read(name, offset, bytes, from)?[..]);
        copied.fill_up(bytes.next_multiple_of(BLOCK_BYTES));
        to.write(name, offset, &copied).map_err(unwritable)?;
        checksum = crc32c::crc32c_append(checksum, &copied);
    }
    to.sync(name).map_err(unwritable)?;
    let written = end.next_multiple_of(BLOCK_BYTES as u64).min(length);
    let zeroes = vec![0; PORTION_BYTES as usize];
    let rest = portions(length - written);
    Ok(rest.fold(checksum, |sum, (_, bytes)| crc32c::crc32c_append(sum, &zeroes[..bytes])))
}

/// Compares the files of a shard with the list; returns what differs.
pub fn verify(stored: &Stored, device: &(impl Device + ?Sized)) -> Vec<Error> {
    let damaged = |file, offset, found| Error::Damaged { file, offset, found };
    let mut wrong = Vec::new();
    for &File { name, bytes, checksum } in &stored.files {
        match checksum_of(name, bytes, device, &mut || Ok(())) {
            Ok(found) if found == checksum => {}
            Ok(found) => {
                let found = format!("checksum {found:08x} of the file, expected {checksum:08x}");
                wrong.push(damaged(name, 0, found));
            }
            Err(Failure::Unreadable { file, offset, reason }) => {
                let found = format!("{reason}, expected a file of {bytes} bytes");
                wrong.push(damaged(file, offset, found));
            }
            Err(other) => wrong.push(damaged(name, 0, other.to_string())),
        }
    }
    wrong
}

/// Copies the files of a shard from a backup to the empty device `to`, and compares them with the
/// list.
///
/// # Errors
/// A file cannot be read or written, or differs from the list.
pub fn restore<D: Device + ?Sized>(stored: &Stored, from: &D, to: &D) -> Result<(), Failure> {
    for &File { name, bytes, checksum } in &stored.files {
        let found = copy_file(name, (bytes, bytes), from, to, &mut || Ok(()))?;
        if found != checksum {
            let found = format!("checksum {found:08x} of the file, expected {checksum:08x}");
            return Err(Failure::Damaged(Error::Damaged { file: name, offset: 0, found }));
        }
    }
    Ok(())
}

/// Creates a file with these bytes, durably.
fn write_whole(device: &impl Device, name: FileName, bytes: &[u8]) -> Result<File, Failure> {
    let written = device
        .create(name, bytes.len() as u64)
        .and_then(|()| device.write(name, 0, bytes))
        .and_then(|()| device.sync(name));
    written.map_err(|reason| Failure::Unwritable { file: name, reason })?;
    Ok(File { name, bytes: bytes.len() as u64, checksum: crc32c::crc32c(bytes) })
}

fn checksum_of<D: Device + ?Sized>(
    name: FileName,
    length: u64,
    device: &D,
    go_on: &mut impl FnMut() -> Result<(), Failure>,
) -> Result<u32, Failure> {
    portions(length).try_fold(0, |checksum, (offset, bytes)| {
        go_on()?;
        Ok(crc32c::crc32c_append(checksum, &read(name, offset, bytes, device)?))
    })
}

fn read<D: Device + ?Sized>(
    file: FileName,
    offset: u64,
    bytes: usize,
    device: &D,
) -> Result<Vec<u8>, Failure> {
    let unreadable = |reason| Failure::Unreadable { file, offset, reason };
    device.read(file, offset, bytes).map_err(unreadable)
}

/// Offset and length of each portion of a file.
fn portions(length: u64) -> impl Iterator<Item = (u64, usize)> {
    let count = length.div_ceil(PORTION_BYTES);
    (0..count).map(move |index| {
        let offset = index * PORTION_BYTES;
        (offset, PORTION_BYTES.min(length - offset) as usize)
    })
}
