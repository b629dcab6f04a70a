//! Real files in one directory: the only code below the binary that touches a disk.
//!
//! The directory is held open and its files are opened relative to it, so that a directory that is
//! renamed stays in use. Files are for their owner alone (mode 0600, directories 0700).
//!
//! Files are read and written with `O_DIRECT`, past the page cache, so that the system keeps no
//! second copy beside the memory budget, and a read never waits for the write-back of other pages.
//! Where the file system cannot do that, the page cache is used. Calls may come from many threads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, Mode, OFlags, StatxFlags, fallocate, fsync, linkat, mkdirat,
    openat, statat, statx, unlinkat,
};
use rustix::io::Errno;

use crate::aligned::Aligned;
use crate::blocks::BLOCK_BYTES;
use crate::device::{Device, FileName, Link};

/// Maximum length of one write, and of the buffer that a thread keeps.
const PORTION_BYTES: usize = 320 << 10;

/// Files and directories are accessible to their owner only.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: Mode = Mode::RWXU;

/// The files of one store in one directory.
#[derive(Debug)]
pub struct FileDevice {
    directory: OwnedFd,
    handles: Mutex<HashMap<FileName, Arc<File>>>,
    /// The file system takes `O_DIRECT`.
    direct: bool,
    /// Alignment of offsets and lengths of reads.
    sector_bytes: usize,
}

/// Held for reads of more than [`PORTION_BYTES`]: each needs twice its length in memory, so there
/// is one at a time.
static LONG_READ: Mutex<()> = Mutex::new(());

thread_local! {
    /// Memory with the alignment of the disk for long transfers, one buffer per thread.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends `bytes` bytes of aligned memory.
fn with_aligned<R>(bytes: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
    if let Some(mut place) = Aligned::place(bytes) {
        return work(&mut place[..bytes]);
    }
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
    /// Maximum number of open files; a store with more files reopens some of them.
    pub const FILES_MAX: usize = 512;

    /// Opens `directory`; creates it if it is missing.
    ///
    /// # Errors
    /// An error of the system.
    pub fn open(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE.bits()).create(directory)?;
        Self::begin(openat(CWD, directory, DIRECTORY_FLAGS, Mode::empty())?)
    }

    /// Opens the directory `name` in `parent`; creates it durably if it is missing.
    ///
    /// # Errors
    /// An error of the system.
    pub fn open_in(parent: impl AsFd, name: &str) -> io::Result<Self> {
        match mkdirat(&parent, name, DIRECTORY_MODE) {
            Ok(()) => fsync(&parent)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Self::begin(openat(&parent, name, DIRECTORY_FLAGS, Mode::empty())?)
    }

    fn begin(directory: OwnedFd) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let (direct, sector_bytes) =
            match openat(&directory, PROBE, flags | OFlags::DIRECT, FILE_MODE) {
                Ok(file) => (true, sector_bytes(&file.into())),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => (false, BLOCK_BYTES),
                Err(error) => return Err(error.into()),
            };
        match unlinkat(&directory, PROBE, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { directory, handles: Mutex::default(), direct, sector_bytes })
    }

    /// True if files are read and written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    fn open_file(&self, file: FileName, more: OFlags) -> io::Result<File> {
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC | more;
        flags.set(OFlags::DIRECT, self.direct);
        Ok(openat(&self.directory, file.to_string(), flags, FILE_MODE)?.into())
    }

    fn handle(&self, file: FileName) -> io::Result<Arc<File>> {
        self.handle_by(file, || self.open_file(file, OFlags::empty()))
    }

    fn handle_by(
        &self,
        file: FileName,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Arc<File>> {
        if let Some(handle) = self.handles().get(&file) {
            return Ok(Arc::clone(handle));
        }
        // Not under the lock: it may take milliseconds, during which lookups need their files.
        let handle = Arc::new(open()?);
        self.keep(file, Arc::clone(&handle));
        Ok(handle)
    }

    fn keep(&self, file: FileName, handle: Arc<File>) {
        let mut handles = self.handles();
        let others = handles.keys().next().copied().filter(|_| handles.len() >= Self::FILES_MAX);
        let closed =
            [others.and_then(|other| handles.remove(&other)), handles.insert(file, handle)];
        // Closing may take as long as opening.
        drop(handles);
        drop(closed);
    }

    fn forget(&self, file: FileName) {
        let closed = self.handles().remove(&file);
        drop(closed);
    }

    fn handles(&self) -> MutexGuard<'_, HashMap<FileName, Arc<File>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(fsync(&self.directory)?)
    }

    /// Removes the name of a file, if there is one.
    fn unlink(&self, file: FileName) -> io::Result<()> {
        match unlinkat(&self.directory, file.to_string(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn make(&self, file: FileName, bytes: u64) -> io::Result<File> {
        // A backup may share the former file: its contents stay.
        self.unlink(file)?;
        let handle = self.open_file(file, OFlags::CREATE | OFlags::EXCL)?;
        if bytes > 0 {
            fallocate(&handle, FallocateFlags::empty(), 0, bytes)?;
        }
        handle.sync_all()?;
        self.sync_directory()?;
        Ok(handle)
    }
}

/// File created to find out whether the file system supports `O_DIRECT`.
const PROBE: &str = "probe";
const DIRECTORY_FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// Returns the alignment of offsets and lengths of reads of `file`: that of the disk, which is less
/// than a block for many disks.
fn sector_bytes(file: &File) -> usize {
    let told = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    told.filter(|told| told.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
        .map(|told| told.stx_dio_offset_align as usize)
        .filter(|bytes| bytes.is_power_of_two() && *bytes <= BLOCK_BYTES)
        .unwrap_or(BLOCK_BYTES)
}

/// A read or a write that another thread or the kernel carries out: where in the file, and in which
/// memory.
#[derive(Debug)]
pub struct AlignedTransfer {
    file: Arc<File>,
    offset: u64,
    memory: Aligned,
    /// The number of bytes of `memory` to fill or write.
    bytes: usize,
    /// The requested range within the memory; for a write an empty range at the end.
    wanted: Range<usize>,
}

impl AlignedTransfer {
    /// The file meant.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the offset of the first byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the memory to fill or to write.
    pub fn target(&mut self) -> &mut [u8] {
        &mut self.memory[..self.bytes]
    }

    /// The requested bytes, if `done` bytes from the start of the target are filled or written.
    ///
    /// # Errors
    /// That of `done`; `UnexpectedEof` if it is too little.
    pub fn finish(self, done: io::Result<usize>) -> io::Result<Vec<u8>> {
        if done? < self.wanted.end {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(self.memory[self.wanted].to_vec())
    }
}

impl FileDevice {
    /// Prepares a read of exactly `bytes` bytes.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn begin_read(
        &self,
        file: FileName,
        offset: u64,
        bytes: usize,
    ) -> io::Result<AlignedTransfer> {
        let file = self.handle(file)?;
        let (skipped, whole) = self.sectors(offset, bytes);
        let (offset, wanted) = (offset - skipped as u64, skipped..skipped + bytes);
        Ok(AlignedTransfer { file, offset, memory: Aligned::lend(whole), bytes: whole, wanted })
    }

    /// Prepares a write of `bytes`, which are copied. Place and length are multiples of 4 KiB.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn begin_write(
        &self,
        file: FileName,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<AlignedTransfer> {
        let file = self.handle(file)?;
        let mut memory = Aligned::lend(bytes.len());
        memory[..bytes.len()].copy_from_slice(bytes);
        let wanted = bytes.len()..bytes.len();
        Ok(AlignedTransfer { file, offset, memory, bytes: bytes.len(), wanted })
    }

    /// The sectors that contain `bytes` bytes from `offset` on: number of bytes before `offset` in
    /// them, and their length.
    fn sectors(&self, offset: u64, bytes: usize) -> (usize, usize) {
        let skipped = offset as usize % self.sector_bytes;
        (skipped, (skipped + bytes).next_multiple_of(self.sector_bytes))
    }
}

impl Device for FileDevice {
    fn list(&self) -> io::Result<Vec<(FileName, u64)>> {
        let mut files = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            if let Some(name) = entry.file_name().to_str().ok().and_then(FileName::parse) {
                let status = statat(&self.directory, entry.file_name(), AtFlags::empty())?;
                files.push((name, status.st_size as u64));
            }
        }
        Ok(files)
    }

    fn read(&self, file: FileName, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let handle = self.handle(file)?;
        let (skipped, whole) = self.sectors(offset, bytes);
        let _alone = (whole > PORTION_BYTES)
            .then(|| LONG_READ.lock().unwrap_or_else(PoisonError::into_inner));
        with_aligned(whole, |buffer| {
            handle.read_exact_at(buffer, offset - skipped as u64)?;
            Ok(buffer[skipped..skipped + bytes].to_vec())
        })
    }

    fn write(&self, file: FileName, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let handle = self.handle(file)?;
        // Bytes of the log: the device reads them from where they are.
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
        // A partial file would only take up the space that is missing.
        let handle = self.make(file, bytes).inspect_err(|_| drop(self.unlink(file)))?;
        // The file stays open, so that no lookup has to open it.
        self.keep(file, Arc::new(handle));
        Ok(())
    }

    fn remove(&self, file: FileName) -> io::Result<()> {
        self.forget(file);
        self.unlink(file)?;
        self.sync_directory()
    }
}

impl Link for FileDevice {
    fn link(&self, file: FileName, from: &Self) -> io::Result<()> {
        let name = file.to_string();
        linkat(&from.directory, &name, &self.directory, &name, AtFlags::empty())?;
        self.sync_directory().inspect_err(|_| drop(self.unlink(file)))
    }
}

#[cfg(test)]
mod tests;
