//! The elastic scale-up store: more data than memory, and memory that grows and shrinks
//! (dReDBox key server, §6.1).
//!
//! The paper's two tables: everything is in the storage table, on disk, and a part of it in the
//! memory table. How much is one number, the memory budget, which may change at any moment
//! ([`Elastic::rescale`]).
//!
//! # How to run one
//!
//! [`Elastic`] is one shard with one owner. It does no I/O. Around every batch of commands its
//! owner
//!
//! 1. hands [`DeviceCommand`]s from [`Elastic::poll_device`] to the device until there are none;
//! 2. gives results back by [`Elastic::complete`];
//! 3. resumes what waited for the tickets of [`Elastic::poll_loaded`];
//! 4. acknowledges what waited for [`Elastic::durable_up_to`] (only with [`Sync::Always`]);
//! 5. calls [`Elastic::step`] for a bounded portion of upkeep, again while it says there is more;
//! 6. comes back by [`Elastic::poll_timeout`] at the latest.
//!
//! # How to run a command
//!
//! Call [`Elastic::load`] for every key the command touches. If one is [`Load::Pending`], park the
//! command until all its tickets are loaded, then load all keys again. When none is pending, run:
//! [`Elastic::read`], [`Elastic::write`], [`Elastic::remove`]. What was loaded, and what the
//! command writes, stays readable until the next call of `poll_device`, `complete` or `step`, so a
//! transaction runs between two of them. Then [`Elastic::release`] every ticket, also when the
//! client is gone. Before a command that writes, ask [`Elastic::accepts_writes`].
//!
//! `now` and `expires_at` are times since the Unix epoch, as expiries outlive the process; they
//! count in whole milliseconds.

mod error;

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::ops::Bound;
use std::time::Duration;

use crate::device::{Completion, Device, DeviceCommand};
pub use error::Error;

/// When written data is made to survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// At once: acknowledge a write when [`Elastic::durable_up_to`] has reached it. Writes that
    /// come while the device is busy share its next sync.
    Always,
    /// Every second: a crash of the machine loses at most the last second or two.
    #[default]
    EverySecond,
    /// When the system pleases, and at the end of every segment.
    Never,
}

/// How one store is laid out and what it may use.
#[derive(Debug, Clone)]
pub struct Config {
    /// Memory of everything together, in bytes.
    pub memory_bytes: usize,
    /// When writes reach the disk.
    pub sync: Sync,
    /// Longest key accepted, in bytes; at most 65,535.
    pub key_bytes_max: usize,
    /// Longest value accepted, in bytes; with its key it must fit a segment.
    pub value_bytes_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            sync: Sync::default(),
            key_bytes_max: u16::MAX as usize,
            value_bytes_max: 8 << 20,
        }
    }
}

/// Names one wait for an entry to be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A place in the order of all writes of one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position(pub u64);

/// Whether an entry can be read now.
#[derive(Debug)]
pub enum Load {
    /// It is there, and [`Elastic::read`] returns it.
    Present,
    /// There is no such entry, or its time is over.
    Absent,
    /// The disk has to be asked; load again when the ticket is loaded.
    Pending(Ticket),
    /// The disk did not give it; [`Elastic::read`] returns nothing, and nothing may be concluded.
    Failed(Error),
}

/// An entry as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its value.
    pub value: &'a [u8],
    /// When its time is over, since the Unix epoch; never if `None`.
    pub expires_at: Option<Duration>,
    /// Rises with every write of any entry; the same as long as this entry is not written.
    pub version: u64,
}

/// What a write did.
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
    /// Keys found, and where to go on; 0 when all was seen.
    Ready {
        /// The next cursor.
        cursor: u64,
        /// Keys, expired ones left out.
        keys: Vec<Box<[u8]>>,
    },
    /// Keys have to be read from disk; ask again with the same cursor when all are loaded.
    Pending(Vec<Ticket>),
    /// The disk did not give a key.
    Failed(Error),
}

/// What [`Elastic::random_key`] found.
#[derive(Debug)]
pub enum RandomKey {
    /// A key; none in an empty store.
    Ready(Option<Box<[u8]>>),
    /// It has to be read from disk; ask again with the same number.
    Pending(Ticket),
    /// The disk did not give it.
    Failed(Error),
}

/// Sizes and counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries, expired ones not yet noticed included.
    pub entries: u64,
}

struct Entry {
    value: Vec<u8>,
    expires_at: Option<Duration>,
    version: u64,
}

/// One shard of the elastic store.
pub struct Elastic {
    config: Config,
    entries: BTreeMap<(u64, Box<[u8]>), Entry>,
    version: u64,
}

impl Elastic {
    /// Opens the store on `device`, making it if there is none.
    ///
    /// # Errors
    /// When the device fails, or holds something this version cannot read.
    pub fn open(
        config: Config,
        device: &(impl Device + ?Sized),
        _now: Duration,
    ) -> Result<Self, Error> {
        let _ = device.list();
        Ok(Self { config, entries: BTreeMap::new(), version: 0 })
    }

    /// Makes the entry readable for the running command.
    pub fn load(&mut self, key: &[u8], now: Duration) -> Load {
        if self.read(key, now).is_some() { Load::Present } else { Load::Absent }
    }

    /// Lets go of a ticket, loaded or not.
    pub fn release(&mut self, _ticket: Ticket) {}

    /// A ticket whose entry is loaded (or whose read failed) since it was given out.
    pub fn poll_loaded(&mut self) -> Option<Ticket> {
        None
    }

    /// The entry, if [`Elastic::load`] said it is present.
    pub fn read(&mut self, key: &[u8], now: Duration) -> Option<Record<'_>> {
        let entry = self.entries.get(&place(key))?;
        if entry.expires_at.is_some_and(|at| at <= now) {
            return None;
        }
        let Entry { ref value, expires_at, version } = *entry;
        Some(Record { value, expires_at, version })
    }

    /// Whether writes are accepted now.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Busy`] (try again after the next completion), or why not.
    pub fn accepts_writes(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Stores `value` under a key loaded before, in place of any older value.
    ///
    /// # Errors
    /// As [`Elastic::accepts_writes`], and when key or value are too long. Then nothing changed.
    pub fn write(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<Duration>,
        _now: Duration,
    ) -> Result<Written, Error> {
        let limit = self.config.value_bytes_max;
        if value.len() > limit {
            return Err(Error::ValueTooLong { got: value.len(), limit });
        }
        let limit = self.config.key_bytes_max;
        if key.len() > limit {
            return Err(Error::KeyTooLong { got: key.len(), limit });
        }
        self.version += 1;
        let version = self.version;
        self.entries.insert(place(key), Entry { value: value.to_vec(), expires_at, version });
        Ok(Written { position: Position(version), version })
    }

    /// Removes the entry of a key loaded before; `None` if there was none.
    ///
    /// # Errors
    /// As [`Elastic::accepts_writes`].
    pub fn remove(&mut self, key: &[u8], now: Duration) -> Result<Option<Position>, Error> {
        let there = self.read(key, now).is_some();
        self.entries.remove(&place(key));
        self.version += 1;
        Ok(there.then_some(Position(self.version)))
    }

    /// Removes everything.
    ///
    /// # Errors
    /// As [`Elastic::accepts_writes`].
    pub fn clear(&mut self, _now: Duration) -> Result<Position, Error> {
        self.entries.clear();
        self.version += 1;
        Ok(Position(self.version))
    }

    /// Entries, expired ones not yet noticed included.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About `count` keys from `cursor` on, in the order of their hashes; begin with 0. Every key
    /// there from the first call to the last is returned, and none twice unless it was removed and
    /// stored again.
    pub fn scan(&mut self, cursor: u64, count: usize, now: Duration) -> Scan {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let from = Bound::Included((cursor, Box::default()));
        let mut last = cursor;
        for ((hash, key), entry) in self.entries.range((from, Bound::Unbounded)) {
            if keys.len() >= count.max(1) && *hash != last {
                return Scan::Ready { cursor: *hash, keys };
            }
            last = *hash;
            if entry.expires_at.is_none_or(|at| at > now) {
                keys.push(key.clone());
            }
        }
        Scan::Ready { cursor: 0, keys }
    }

    /// A key drawn by `random`, evenly, expired ones possible.
    pub fn random_key(&mut self, random: u64, _now: Duration) -> RandomKey {
        if self.entries.is_empty() {
            return RandomKey::Ready(None);
        }
        let at = (u128::from(random) * self.entries.len() as u128) >> 64;
        RandomKey::Ready(self.entries.keys().nth(at as usize).map(|(_, key)| key.clone()))
    }

    /// The next thing the device shall do.
    pub fn poll_device(&mut self, _now: Duration) -> Option<DeviceCommand> {
        None
    }

    /// Takes the result of a command.
    pub fn complete(&mut self, _completion: Completion, _now: Duration) {}

    /// When to call [`Elastic::poll_device`] and [`Elastic::step`] at the latest.
    pub fn poll_timeout(&self) -> Option<Duration> {
        None
    }

    /// Every write up to here survives a crash.
    pub fn durable_up_to(&self) -> Position {
        Position(self.version)
    }

    /// Makes the device sync now whatever [`Sync`] says, as before the end of the process. Done
    /// when [`Elastic::durable_up_to`] has reached the position returned.
    pub fn flush(&mut self) -> Position {
        Position(self.version)
    }

    /// Changes when writes reach the disk.
    pub fn set_sync(&mut self, sync: Sync) {
        self.config.sync = sync;
    }

    /// Sets the memory budget, in bytes. More counts at once; less is reached by
    /// [`Elastic::step`] in bounded portions.
    pub fn rescale(&mut self, memory_bytes: usize) {
        self.config.memory_bytes = memory_bytes;
    }

    /// Does a bounded portion of upkeep (well under a millisecond); true while there is more.
    pub fn step(&mut self, _now: Duration) -> bool {
        false
    }

    /// Sizes and counters.
    pub fn stats(&self) -> Stats {
        Stats { entries: self.len() }
    }
}

fn place(key: &[u8]) -> (u64, Box<[u8]>) {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    // A cursor of 0 begins a scan and 40 bits are what the index keeps.
    (hasher.finish() >> 24, key.into())
}
