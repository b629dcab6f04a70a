//! Fills newly granted memory (dReDBox key server, §6.1.2).
//!
//! Without warming, new memory fills with requested entries, each of which costs a disk read.
//! Warming reads ahead while there is room and the disk is idle: the most used entries first,
//! according to a sketch of recent lookups; or, as in the paper, sequentially through the storage
//! table. It never evicts anything, and stops when memory is full.

use std::io;
use std::time::Duration;

use super::key_hash::KeyHasher;
use super::ledger::Ledger;
use super::log::Log;
use super::outbox::{Outbox, Purpose};
use super::paging::Paging;
use super::record::{NEVER, Record};
use super::since::Since;
use super::table::{HASH_BITS, Slot, Table};
use super::usage::Usage;
use crate::memory::Memory;

/// The entries that are read ahead when memory grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Warming {
    /// No entries: only requested entries are read.
    Off,
    /// The entries looked up most in the recent past.
    #[default]
    Useful,
    /// The paper's walk: in the order of the storage table.
    Sequential,
}

/// Maximum number of reads in progress, so that the disk is free for those of clients.
const READS_MAX: usize = 4;
/// Maximum number of reads started at once, and the pause until the next. Without pauses they would
/// leave neither disk nor CPU time for lookups.
const READS_AT_ONCE: usize = 2;
const PAUSE: Duration = Duration::from_millis(1);
/// Minimum number of recent lookups of an entry, in the rounds of the walk.
const ROUNDS: [u8; 4] = [8, 4, 2, 1];
/// Memory left free for requests of clients, as a fraction 1/N of the budget.
const ROOM_LEFT: usize = 32;

/// A walk in progress.
#[derive(Debug)]
struct Walk {
    /// Entries looked up less often are skipped.
    seen_min: u8,
    /// Start of the first page that was not examined.
    next: u64,
    /// Entries of the last examined page that are to be read, in reverse order.
    found: Vec<(u64, Slot)>,
    reads: usize,
    /// Number of reads that may still be started, and the time of that grant.
    granted: usize,
    granted_at: Since,
}

impl Walk {
    fn may_read(&self) -> bool {
        self.reads < READS_MAX && self.granted > 0
    }

    /// Time at which the walk may continue.
    fn timeout(&self) -> Duration {
        self.granted_at.end(PAUSE)
    }
}

/// Owns the walk over the storage table.
///
/// Invariants: at most four reads are in progress; nothing is evicted for what they read.
#[derive(Debug, Default)]
pub(super) struct Warmer {
    walk: Option<Walk>,
}

/// Other parts of the store that warming uses.
pub(super) struct Borrows<'a> {
    pub(super) log: &'a mut Log,
    pub(super) table: &'a mut Table,
    /// The memory to fill.
    pub(super) memory: &'a mut Memory,
    /// Reads back pages of the table that are not in memory.
    pub(super) paging: &'a mut Paging,
    pub(super) outbox: &'a mut Outbox,
    /// Estimates which entries were looked up most.
    pub(super) usage: &'a Usage,
    pub(super) ledger: &'a mut Ledger,
    pub(super) hasher: &'a KeyHasher,
}

impl Borrows<'_> {
    fn has_room(&self) -> bool {
        let budget = self.memory.config().bytes_max;
        self.memory.accounted_bytes() + budget / ROOM_LEFT < budget
    }

    fn is_there(&mut self, hash: u64, slot: Slot) -> bool {
        self.table.is_resident(self.table.page_of(hash))
            && self.table.find(hash, slot.location).is_some()
    }

    fn is_worth_reading(&self, seen_min: u8, hash: u64, slot: Slot) -> bool {
        (seen_min == 0 || self.usage.estimate(hash) >= seen_min)
            && self.log.buffered(slot.location).is_none()
            && self.memory.key_where(hash, |key| self.hasher.hash(key) == hash).is_none()
    }
}

impl Warmer {
    /// Abandons the walk.
    pub(super) fn stop(&mut self) {
        self.walk = None;
    }

    /// Time at which a walk in progress may continue.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.walk.as_ref().map(Walk::timeout)
    }

    /// Begins to fill free memory, from the beginning.
    pub(super) fn begin(&mut self, warming: Warming) {
        let seen_min = match warming {
            Warming::Off => return,
            Warming::Useful => ROUNDS[0],
            Warming::Sequential => 0,
        };
        let reads = self.walk.take().map_or(0, |walk| walk.reads);
        let (found, granted, granted_at) = (Vec::new(), 0, Since::default());
        self.walk = Some(Walk { seen_min, next: 0, found, reads, granted, granted_at });
    }

    /// True while memory that grew is being filled.
    pub(super) fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    /// Continues a walk; returns true if it can continue at once.
    pub(super) fn step(&mut self, borrows: &mut Borrows<'_>, now: Duration) -> bool {
        let Some(mut walk) = self.walk.take() else { return false };
        if !borrows.has_room() {
            return false;
        }
        if walk.granted_at.is_over(PAUSE, now) {
            (walk.granted, walk.granted_at) = (READS_AT_ONCE, Since::new(now));
        }
        // One page at a time, which limits the work under the lock of its shard.
        let mut looked = false;
        while walk.may_read() {
            if let Some((hash, slot)) = walk.found.pop() {
                // It may have been removed since, or requested by a command.
                if borrows.is_there(hash, slot)
                    && borrows.is_worth_reading(walk.seen_min, hash, slot)
                {
                    let purpose = Purpose::Warm { hash, slot };
                    borrows.outbox.read_record(&mut borrows.log.segments, slot, purpose);
                    walk.reads += 1;
                    walk.granted -= 1;
                }
                continue;
            }
            if std::mem::replace(&mut looked, true) {
                break;
            }
            if walk.next >= 1 << HASH_BITS {
                let round = ROUNDS.iter().find(|round| **round < walk.seen_min);
                let Some(&round) = round.filter(|_| walk.seen_min > 0) else { return false };
                (walk.seen_min, walk.next) = (round, 0);
            }
            let page = borrows.table.page_of(walk.next);
            if borrows.paging.missing(page).is_none() {
                if !borrows.table.is_resident(page) {
                    borrows.paging.ask_for_upkeep(page);
                    self.walk = Some(walk);
                    return false;
                }
                let entries = borrows.table.page_entries(page, walk.next).into_iter().rev();
                let is_worth_it =
                    |&(hash, slot): &_| borrows.is_worth_reading(walk.seen_min, hash, slot);
                walk.found = entries.filter(is_worth_it).collect();
            }
            walk.next = borrows.table.next_page_hash(walk.next).unwrap_or(1 << HASH_BITS);
        }
        let can_go_on = walk.may_read();
        self.walk = Some(walk);
        can_go_on
    }

    /// Takes a record read ahead.
    pub(super) fn read_ended(
        &mut self,
        (hash, slot): (u64, Slot),
        result: io::Result<Vec<u8>>,
        borrows: &mut Borrows<'_>,
    ) {
        let segment = borrows.log.segments.slot(slot.location);
        borrows.log.segments.end_read(segment);
        if let Some(walk) = &mut self.walk {
            walk.reads = walk.reads.saturating_sub(1);
        }
        // A read error is reported when the entry is requested.
        let Ok(bytes) = result else { return };
        if !borrows.is_there(hash, slot) || !borrows.has_room() {
            return;
        }
        let address = borrows.log.segments.address(slot.location);
        let Ok(record) = Record::read(address, &bytes) else { return };
        if borrows.memory.peek(hash, record.key, NEVER).is_none() {
            let body = &bytes[record.body_range()];
            borrows.ledger.stats.warmed += 1;
            let _ = borrows.memory.insert(hash, record.key, body, None, NEVER);
        }
    }
}
