//! Real files in one directory: the only code below the binary that touches a disk.
//!
//! Files are read and written past the page cache (`O_DIRECT`): the memory budget is the whole
//! truth only if the system does not keep a second copy of everything, and a read never waits for
//! the writing back of somebody else's pages. Where the file system cannot do that, it goes
//! through the page cache. Calls may come from many threads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::blocks::BLOCK_BYTES;
use crate::device::{Device, FileName};

/// Files kept open; a store with more opens some again and again.
const HANDLES_MAX: usize = 512;
/// Written at once at most, through a buffer of this size; no thread keeps a longer one.
const PORTION_BYTES: usize = 320 << 10;

/// The files of one store in one directory.
#[derive(Debug)]
pub struct FileDevice {
    directory: PathBuf,
    handles: Mutex<HashMap<FileName, Arc<File>>>,
    /// The file system takes `O_DIRECT`.
    direct: bool,
}

/// Held for reads of more than [`PORTION_BYTES`]: each takes as much memory twice, so there is one at
/// a time.
static LONG_READ: Mutex<()> = Mutex::new(());

thread_local! {
    /// Memory aligned as the disk wants it, one for each thread.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends `bytes` bytes of aligned memory.
fn with_aligned<R>(bytes: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < bytes + BLOCK_BYTES {
            buffer.resize(bytes + BLOCK_BYTES, 0);
        }
        let start = buffer.as_ptr().align_offset(BLOCK_BYTES);
        let result = work(&mut buffer[start..start + bytes]);
        if buffer.len() > PORTION_BYTES + BLOCK_BYTES {
            buffer.truncate(PORTION_BYTES + BLOCK_BYTES);
            buffer.shrink_to_fit();
        }
        result
    })
}

impl FileDevice {
    /// Opens `directory`, making it if it is missing.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let probe = directory.join("probe");
        let direct = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(&probe)
            .is_ok();
        fs::remove_file(&probe)?;
        Ok(Self { directory: directory.to_owned(), handles: Mutex::default(), direct })
    }

    /// True if files are read and written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    fn path(&self, file: FileName) -> PathBuf {
        self.directory.join(file.to_string())
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if self.direct {
            options.custom_flags(OFlags::DIRECT.bits() as i32);
        }
        options
    }

    fn handle(&self, file: FileName) -> io::Result<Arc<File>> {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = handles.get(&file) {
            return Ok(Arc::clone(handle));
        }
        if handles.len() >= HANDLES_MAX
            && let Some(other) = handles.keys().next().copied()
        {
            handles.remove(&other);
        }
        let handle = Arc::new(self.options().open(self.path(file))?);
        handles.insert(file, Arc::clone(&handle));
        Ok(handle)
    }

    fn forget(&self, file: FileName) {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).remove(&file);
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// A read or a write that somebody else carries out: where in the file, and in which memory.
#[derive(Debug)]
pub struct AlignedTransfer {
    file: Arc<File>,
    offset: u64,
    buffer: Vec<u8>,
    /// Where in `buffer` the file's bytes are or are to go, and which of them were asked for: none
    /// of what is written, so an empty range behind it.
    target: Range<usize>,
    wanted: Range<usize>,
}

impl AlignedTransfer {
    /// The file meant.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where to begin, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What to fill, or to write.
    pub fn target(&mut self) -> &mut [u8] {
        &mut self.buffer[self.target.clone()]
    }

    /// The bytes asked for, if `done` bytes from the start of the target are filled or written; and
    /// the memory, for another transfer.
    pub fn finish(self, done: io::Result<usize>) -> (io::Result<Vec<u8>>, Vec<u8>) {
        let result = done.and_then(|done| {
            if done < self.wanted.end - self.target.start {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            Ok(self.buffer[self.wanted].to_vec())
        });
        (result, self.buffer)
    }
}

impl FileDevice {
    /// Prepares a read of exactly `bytes` bytes, into `buffer`.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn begin_read(
        &self,
        file: FileName,
        offset: u64,
        bytes: usize,
        buffer: Vec<u8>,
    ) -> io::Result<AlignedTransfer> {
        let file = self.handle(file)?;
        let skipped = offset as usize % BLOCK_BYTES;
        let whole = (skipped + bytes).next_multiple_of(BLOCK_BYTES);
        let (buffer, target) = aligned(buffer, whole);
        let wanted = target.start + skipped..target.start + skipped + bytes;
        Ok(AlignedTransfer { file, offset: offset - skipped as u64, buffer, target, wanted })
    }

    /// Prepares a write of `bytes`, which are copied into `buffer`. Place and length are multiples
    /// of 4 KiB.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn begin_write(
        &self,
        file: FileName,
        offset: u64,
        bytes: &[u8],
        buffer: Vec<u8>,
    ) -> io::Result<AlignedTransfer> {
        let file = self.handle(file)?;
        let (mut buffer, target) = aligned(buffer, bytes.len());
        buffer[target.clone()].copy_from_slice(bytes);
        let wanted = target.end..target.end;
        Ok(AlignedTransfer { file, offset, buffer, target, wanted })
    }
}

/// `buffer` with room for `bytes` aligned bytes, and where they begin and end.
fn aligned(mut buffer: Vec<u8>, bytes: usize) -> (Vec<u8>, Range<usize>) {
    if buffer.len() < bytes + BLOCK_BYTES {
        buffer.resize(bytes + BLOCK_BYTES, 0);
    }
    let start = buffer.as_ptr().align_offset(BLOCK_BYTES);
    (buffer, start..start + bytes)
}

fn name(text: &str) -> Option<FileName> {
    match text {
        "superblock" => Some(FileName::Superblock),
        "index.spill" => Some(FileName::Spill),
        _ => {
            let number = text.strip_prefix("segment-")?.strip_suffix(".log")?;
            number.parse().ok().map(FileName::Segment)
        }
    }
}

impl Device for FileDevice {
    fn list(&self) -> io::Result<Vec<(FileName, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if let Some(name) = entry.file_name().to_str().and_then(name) {
                files.push((name, entry.metadata()?.len()));
            }
        }
        Ok(files)
    }

    fn read(&self, file: FileName, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let handle = self.handle(file)?;
        let skipped = offset as usize % BLOCK_BYTES;
        let whole = (skipped + bytes).next_multiple_of(BLOCK_BYTES);
        let _alone = (whole > PORTION_BYTES)
            .then(|| LONG_READ.lock().unwrap_or_else(PoisonError::into_inner));
        with_aligned(whole, |buffer| {
            handle.read_exact_at(buffer, offset - skipped as u64)?;
            Ok(buffer[skipped..skipped + bytes].to_vec())
        })
    }

    fn write(&self, file: FileName, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let handle = self.handle(file)?;
        // Of the log: the device takes it from where it lies.
        if bytes.as_ptr().align_offset(BLOCK_BYTES) == 0 {
            return handle.write_all_at(bytes, offset);
        }
        let mut offset = offset;
        for portion in bytes.chunks(PORTION_BYTES) {
            with_aligned(portion.len(), |buffer| {
                buffer.copy_from_slice(portion);
                handle.write_all_at(buffer, offset)
            })?;
            offset += portion.len() as u64;
        }
        Ok(())
    }

    fn sync(&self, file: FileName) -> io::Result<()> {
        self.handle(file)?.sync_data()
    }

    fn create(&self, file: FileName, bytes: u64) -> io::Result<()> {
        self.forget(file);
        let made = File::create(self.path(file)).and_then(|handle| {
            if bytes > 0 {
                fallocate(&handle, FallocateFlags::empty(), 0, bytes)?;
            }
            handle.sync_all()
        });
        if let Err(error) = made {
            // What was begun would only take the room that is missing.
            let _ = fs::remove_file(self.path(file));
            return Err(error);
        }
        self.sync_directory()
    }

    fn remove(&self, file: FileName) -> io::Result<()> {
        self.forget(file);
        match fs::remove_file(self.path(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => self.sync_directory(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Blocks;

    #[test]
    fn what_begins_at_a_whole_block_of_memory_and_what_does_not_are_written() {
        let directory = std::env::temp_dir().join(format!("file-device-{}", std::process::id()));
        let device = FileDevice::open(&directory).expect("opens");
        let file = FileName::Segment(1);
        let blocks = 3 * PORTION_BYTES / BLOCK_BYTES;
        device.create(file, (2 * blocks * BLOCK_BYTES) as u64).expect("made");
        let bytes: Vec<u8> = (0..blocks * BLOCK_BYTES + 1).map(|at| (at / 5) as u8).collect();
        // One of them begins elsewhere, wherever the vector does.
        for start in [0, 1] {
            let piece = &bytes[start..start + blocks * BLOCK_BYTES];
            device.write(file, BLOCK_BYTES as u64, piece).expect("written");
            assert_eq!(device.read(file, BLOCK_BYTES as u64, piece.len()).expect("read"), piece);
        }
        device.write(file, 0, &Blocks::from(&bytes[1..])).expect("written");
        assert_eq!(device.read(file, 0, bytes.len() - 1).expect("read"), bytes[1..]);
        fs::remove_dir_all(&directory).expect("removed");
    }
}
