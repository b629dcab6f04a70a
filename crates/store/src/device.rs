//! Files of the elastic store, behind one small trait.
//!
//! A running [`Elastic`](crate::elastic::Elastic) never calls a device: it hands out
//! [`DeviceCommand`]s and takes [`Completion`]s, so no read from disk can block it. The code that
//! drives it carries commands out, on threads or one by one ([`carry_out`]), against real files
//! ([`FileDevice`](crate::FileDevice)) or simulated ones. Only opening a store, when nothing is
//! served yet, reads a device directly.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::blocks::Blocks;

/// One file of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileName {
    /// The constants: format version, sizes, the key of the hash.
    Superblock,
    /// One of the two copies of the manifest.
    Manifest(u8),
    /// One segment of the log. Numbers are never reused.
    Segment(u64),
    /// Index pages that do not fit into memory. Worthless after a restart.
    Spill,
    /// The list of a backup's files, in the backup's directory.
    Backup,
}

impl FileName {
    /// The file of that name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "superblock" => Some(Self::Superblock),
            "manifest.0" => Some(Self::Manifest(0)),
            "manifest.1" => Some(Self::Manifest(1)),
            "index.spill" => Some(Self::Spill),
            "backup" => Some(Self::Backup),
            _ => {
                let number = name.strip_prefix("segment-")?.strip_suffix(".log")?;
                number.parse().ok().map(Self::Segment)
            }
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superblock => f.write_str("superblock"),
            Self::Manifest(copy) => write!(f, "manifest.{copy}"),
            Self::Segment(number) => write!(f, "segment-{number:012}.log"),
            Self::Spill => f.write_str("index.spill"),
            Self::Backup => f.write_str("backup"),
        }
    }
}

/// Names a command until it is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// A command to a device. Commands may be carried out in any order and concurrently: the store
/// never has two commands in progress of which one depends on the other.
#[derive(Debug, Clone)]
pub struct DeviceCommand {
    /// Identifies the command in its completion.
    pub id: CommandId,
    /// The file meant.
    pub file: FileName,
    /// The operation.
    pub operation: Operation,
}

/// The operations of a device; offsets and lengths in bytes.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Read exactly this much.
    Read {
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: usize,
    },
    /// Write all of it. Log writes start and end at multiples of 4 KiB.
    Write {
        /// Offset of the first byte.
        offset: u64,
        /// The data to write.
        bytes: Arc<Blocks>,
    },
    /// Make everything written to the file survive a crash.
    Sync,
    /// Create a file of this length, filled with zeroes, with its disk space allocated and its name
    /// durable.
    Create {
        /// Its length.
        bytes: u64,
    },
    /// Remove the file if it exists, durably: it does not reappear after a crash.
    Remove,
}

/// The end of a command.
#[derive(Debug)]
pub struct Completion {
    /// Identifies the completed command.
    pub id: CommandId,
    /// The bytes read; empty for anything but a read.
    pub result: io::Result<Vec<u8>>,
}

/// Files by name. Calls may come from several threads at once.
pub trait Device {
    /// All existing files with their lengths in bytes, in any order.
    ///
    /// # Errors
    /// An error of the system.
    fn list(&self) -> io::Result<Vec<(FileName, u64)>>;

    /// Reads exactly `bytes` bytes.
    ///
    /// # Errors
    /// An error of the system; `UnexpectedEof` when the file is shorter.
    fn read(&self, file: FileName, offset: u64, bytes: usize) -> io::Result<Vec<u8>>;

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// An error of the system; the written range is then undefined.
    fn write(&self, file: FileName, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the data written to `file` durable.
    ///
    /// # Errors
    /// An error of the system; writes since the last success may be lost.
    fn sync(&self, file: FileName) -> io::Result<()>;

    /// Creates a file of `bytes` zeroes with its disk space allocated. An existing file is
    /// replaced.
    ///
    /// # Errors
    /// `StorageFull` when the disk is full, or another error of the system; then there is no file.
    fn create(&self, file: FileName, bytes: u64) -> io::Result<()>;

    /// Removes a file durably, so that it does not reappear after a crash; a missing file is no
    /// error.
    ///
    /// # Errors
    /// An error of the system.
    fn remove(&self, file: FileName) -> io::Result<()>;
}

/// A device that can share a file with another one instead of copying it.
pub trait Link: Device {
    /// Gives `file` of `from`, which is never written again, the same name here, durably. Both are
    /// then one file, which exists until both names are removed.
    ///
    /// # Errors
    /// The file system cannot do that, or another error of the system; then there is no such file
    /// here.
    fn link(&self, file: FileName, from: &Self) -> io::Result<()>;
}

/// Carries out one command and waits until it has completed.
pub fn carry_out(device: &(impl Device + ?Sized), command: &DeviceCommand) -> Completion {
    let DeviceCommand { id, file, ref operation } = *command;
    let nothing = |()| Vec::new();
    let result = match *operation {
        Operation::Read { offset, bytes } => device.read(file, offset, bytes),
        Operation::Write { offset, ref bytes } => device.write(file, offset, bytes).map(nothing),
        Operation::Sync => device.sync(file).map(nothing),
        Operation::Create { bytes } => device.create(file, bytes).map(nothing),
        Operation::Remove => device.remove(file).map(nothing),
    };
    Completion { id, result }
}
