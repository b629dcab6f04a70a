//! The elastic scale-up store: more data than memory, and memory that grows and shrinks
//! (dReDBox key server, §6.1).
//!
//! It has the paper's two tables: all entries are in the storage table, on disk, and some of them
//! also in the memory table. The memory budget, which may change at any moment
//! ([`Elastic::rescale`]), determines how many.
//!
//! # How to run one
//!
//! [`Elastic`] is one shard with one owner. It does no I/O. Around every batch of commands its
//! owner
//!
//! 1. passes [`DeviceCommand`]s from [`Elastic::poll_device`] to the device until there are no
//!    more;
//! 2. passes results to [`Elastic::complete`];
//! 3. resumes the commands that waited for the tickets of [`Elastic::poll_loaded`];
//! 4. acknowledges the writes that waited for [`Elastic::durable_up_to`] (only with
//!    [`Sync::Always`]);
//! 5. calls [`Elastic::step`] for a bounded portion of maintenance, again while it returns that
//!    there is more;
//! 6. does all this again at [`Elastic::poll_timeout`] at the latest.
//!
//! # How to run a command
//!
//! Call [`Elastic::load`] for every key the command touches. If one is [`Load::Pending`], park the
//! command until all its tickets are loaded, then load all keys again. (A key that is only read may
//! be loaded by [`Elastic::load_to_read`], which is cheaper, and a command that reads one key and
//! nothing else has [`Elastic::fetch`].) When none is pending, run:
//! [`Elastic::read`], [`Elastic::write`], [`Elastic::remove`]. What was loaded, and what the
//! command writes, stays readable until the next call of `poll_device`, `complete` or `step`, so a
//! transaction runs between two of them. Then [`Elastic::release`] every ticket, also when the
//! client is gone; an entry whose ticket is kept stays readable and writable for good. Before a
//! command that writes, ask [`Elastic::accepts_writes`].
//!
//! `now` and `expires_at` are times since the Unix epoch, as expiries outlive the process; they
//! count in whole milliseconds.

mod advice;
pub mod autoscale;
pub mod backup;
mod budget;
mod compaction;
mod device_work;
mod entries;
mod error;
mod key_hash;
#[allow(unsafe_code)] // The processor's instructions for it.
mod lanes;
mod ledger;
mod lines;
mod listing;
mod locating;
mod log;
mod manifest;
mod outbox;
mod page;
mod paging;
mod parity;
mod pointing;
mod recent;
mod record;
mod recovery;
mod reuse;
mod segment;
mod since;
mod staged_key;
mod staging;
mod sweep;
mod table;
mod upkeep;
mod usage;
mod walk;
mod warming;
mod writing;

use std::time::Duration;

use crate::config::Replacement;
use crate::memory::Memory;
pub use advice::{Advice, Point};
pub use error::Error;
use key_hash::KeyHasher;
use ledger::Ledger;
pub use listing::{Listing, shard_name};
use log::Log;
use outbox::Outbox;
use paging::Paging;
use recent::Recent;
pub use recovery::{Checked, Recovery, check};
pub use reuse::Reuse;
use segment::Superblock;
use staging::Staging;
use table::Table;
use upkeep::Upkeep;
use usage::Usage;
pub use warming::Warming;

/// When written data is synced to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// Immediately: acknowledge a write when [`Elastic::durable_up_to`] has reached it. Writes that
    /// arrive during a sync share the next one.
    Always,
    /// Every second: a crash of the machine loses at most the last second or two.
    #[default]
    EverySecond,
    /// When the operating system decides, and at the end of every segment.
    Never,
}

/// Layout and limits of one store.
#[derive(Debug, Clone)]
pub struct Config {
    /// Memory of the whole store, in bytes.
    pub memory_bytes: usize,
    /// When writes are synced to disk.
    pub sync: Sync,
    /// Longest key accepted, in bytes; at most 65,535.
    pub key_bytes_max: usize,
    /// Longest value accepted, in bytes; key and value must fit into a segment.
    pub value_bytes_max: usize,
    /// Longest file of the log: a power of two from 64 KiB to 256 MiB. Files of small stores are
    /// shorter, down to an eighth. Used when a store is created; an existing store keeps its value.
    pub segment_bytes: u64,
    /// Create a store, and fail if one exists. Otherwise a missing store is an error.
    pub create: bool,
    /// Open a store of which segments are missing, and report them as damage. Otherwise that is an
    /// error.
    pub accept_data_loss: bool,
    /// Random numbers that key the hash of a new store, so that clients cannot choose colliding
    /// keys.
    pub hash_key: [u64; 2],
    /// Replacement policy of the memory tier.
    pub replacement: Replacement,
    /// The entries that are read ahead when memory grows.
    pub warming: Warming,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            sync: Sync::default(),
            key_bytes_max: u16::MAX as usize,
            value_bytes_max: 4 << 20,
            segment_bytes: 8 << 20,
            create: true,
            accept_data_loss: false,
            hash_key: [0; 2],
            replacement: Replacement::Hull,
            warming: Warming::default(),
        }
    }
}

/// Identifies one wait for an entry to be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A place in the order of all writes of one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position(pub u64);

/// Whether an entry can be read now.
#[derive(Debug)]
pub enum Load {
    /// The entry can be read by [`Elastic::read`].
    Present,
    /// There is no such entry, or it has expired.
    Absent,
    /// The entry must be read from disk; load again when the ticket is loaded.
    Pending(Ticket),
    /// The disk could not read it; [`Elastic::read`] returns nothing, and the entry may exist.
    Failed(Error),
}

/// An entry as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its value.
    pub value: &'a [u8],
    /// Time of expiry, since the Unix epoch; `None` never expires.
    pub expires_at: Option<Duration>,
    /// Version of the entry. Versions increase with every write of any entry.
    pub version: u64,
}

/// Result of [`Elastic::fetch`].
#[derive(Debug)]
pub enum Fetch<'a> {
    /// The entry.
    Present(Record<'a>),
    /// There is no such entry, or it has expired.
    Absent,
    /// The entry must be read from disk; fetch again when the ticket is loaded.
    Pending(Ticket),
    /// The disk could not read it.
    Failed(Error),
}

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Durable when [`Elastic::durable_up_to`] is at least this.
    pub position: Position,
    /// The version the entry has now.
    pub version: u64,
}

/// One step of a scan.
#[derive(Debug)]
pub enum Scan {
    /// Keys found, and the next cursor; 0 when all keys were visited.
    Ready {
        /// The next cursor.
        cursor: u64,
        /// Keys, without expired ones.
        keys: Vec<Box<[u8]>>,
        /// Number of records, and of pages of the storage table, whose keys the disk could not
        /// read.
        passed_over: u64,
    },
    /// Keys must be read from disk; scan again with the same cursor when all tickets are loaded.
    Pending(Vec<Ticket>),
}

/// Result of [`Elastic::random_key`].
#[derive(Debug)]
pub enum RandomKey {
    /// A key; none if the store is empty, or if the disk could not read it (another number may
    /// succeed).
    Ready(Option<Box<[u8]>>),
    /// The key must be read from disk; call again with the same number when the ticket is loaded.
    Pending(Ticket),
}

/// Sizes and counters. Sizes are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries, expired ones not yet noticed included.
    pub entries: u64,
    /// Entries whose value is in memory.
    pub entries_in_memory: u64,
    /// The memory budget.
    pub memory_bytes_max: usize,
    /// Accounted against the budget now.
    pub memory_bytes: usize,
    /// The part that is the storage table.
    pub table_bytes: usize,
    /// Pages of the storage table, and how many of them are in memory.
    pub table_pages: (usize, usize),
    /// Loads answered from memory.
    pub hits: u64,
    /// Loads that found nothing, without asking the disk.
    pub absent: u64,
    /// Records read from disk for loads and scans.
    pub record_reads: u64,
    /// Pages of the storage table read back.
    pub page_reads: u64,
    /// Records of live entries on disk.
    pub live_bytes: u64,
    /// All files, spare segments included.
    pub file_bytes: u64,
    /// Copied by compaction.
    pub compacted_bytes: u64,
    /// Written by clients: records with headers.
    pub written_bytes: u64,
    /// Entries removed because they had expired.
    pub expirations: u64,
    /// Records read ahead after memory grew.
    pub warmed: u64,
    /// Number of damaged places found.
    pub damages: u64,
}

/// One shard of the elastic store.
///
/// It owns the parts and coordinates them. Each part has its own fields, file and invariant, and
/// its methods take what they need of the other parts as arguments. `log`, `table` and `memory`
/// hold the entries; most parts borrow them.
pub struct Elastic {
    /// The records of all entries, on disk.
    log: Log,
    /// The location in the log of every entry.
    table: Table,
    /// The values of some entries.
    memory: Memory,
    /// Changes since the last command batch.
    recent: Recent,
    /// Waits of commands for the disk.
    staging: Staging,
    /// Pages of the table that are not in memory, or are being moved.
    paging: Paging,
    /// Commands for the device.
    outbox: Outbox,
    /// Compaction, sweep of expired entries, and warming.
    upkeep: Upkeep,
    /// Statistics of recent lookups.
    usage: Usage,
    /// Counters, and reports of damage.
    ledger: Ledger,
    origin: Origin,
    config: Config,
}

/// Findings of opening the store. They do not change.
struct Origin {
    hasher: KeyHasher,
    superblock: Superblock,
    /// The version of the last entry written before the store was opened.
    versions_before: u64,
    recovery: Recovery,
}

impl Elastic {
    /// Returns the next damage found since the last call, with file and offset; damaged data is
    /// never served. The oldest reports are dropped if this is not called.
    pub fn poll_damage(&mut self) -> Option<Error> {
        self.ledger.next_damage()
    }

    /// What recovery found when the store was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.origin.recovery
    }

    /// Position up to which all writes survive a crash.
    pub fn durable_up_to(&self) -> Position {
        self.log.durable()
    }

    /// When writes are synced to disk.
    pub fn sync(&self) -> Sync {
        self.config.sync
    }

    /// The highest version when the store was opened. A later version exceeds it by the
    /// [`Position`] of its write, so a reader of an entry knows when the entry will be durable.
    pub fn versions_before(&self) -> u64 {
        self.origin.versions_before
    }

    /// Syncs the device now regardless of [`Sync`], for example before the process ends. The sync
    /// is complete when [`Elastic::durable_up_to`] has reached the returned position.
    pub fn flush(&mut self) -> Position {
        self.log.want_durable()
    }

    /// Refuses further writes and makes everything durable, so that the next opening knows that
    /// nothing was torn. Complete when [`Elastic::is_closed`] returns true.
    pub fn close(&mut self) {
        self.upkeep.compactor.stop();
        self.upkeep.sweeper.stop();
        self.log.close();
    }

    /// True once everything is durable after [`Elastic::close`].
    pub fn is_closed(&self) -> bool {
        self.log.is_closed()
    }

    /// Identifies this store; derived from the key of its hash.
    pub fn identity(&self) -> u32 {
        self.origin.superblock.identity()
    }

    /// Estimated hit ratio of every memory size, from recent lookups.
    pub fn advice(&self) -> Advice {
        let curve = self.usage.advice(self.bytes_needed() + self.table.bytes());
        if self.config.replacement == Replacement::Hull { curve.hull() } else { curve }
    }

    /// Changes when writes reach the disk.
    pub fn set_sync(&mut self, sync: Sync) {
        self.config.sync = sync;
    }

    /// Entries, expired ones not yet noticed included.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    /// True if the store has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.origin.hasher.hash(key)
    }
}
