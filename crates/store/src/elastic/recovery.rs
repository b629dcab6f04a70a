//! Opening a store: finds the live entries.
//!
//! Every record names the record it kills, so the live records are those that no record kills, in
//! any order of reading segments. Sealed segments list this in their footers, 24 bytes a record, or
//! are read if their records are short. The segment that was open is read record by record, and cut
//! at the place where the crash tore it.
//!
//! Torn or damaged: every record states the position up to which its segment was durable when it
//! was appended. Invalid bytes below such a position were durable once: this is damage, which is
//! reported with file and offset, and reading continues after it. Otherwise none of these writes
//! was acknowledged as durable, and the log ends there.

mod beginning;
mod checking;
mod filling;
mod finding;
mod mending;
mod selecting;

use std::collections::VecDeque;
use std::time::Duration;

use super::key_hash::KeyHasher;
use super::ledger::Ledger;
use super::log::{Log, Segment};
use super::manifest::Manifest;
use super::outbox::Outbox;
use super::paging::Paging;
use super::recent::Recent;
use super::segment::{Line, Superblock};
use super::staging::Staging;
use super::table::Table;
use super::upkeep::Upkeep;
use super::usage::Usage;
use super::{Config, Elastic, Error, Origin};
use crate::config::Config as MemoryConfig;
use crate::device::{Device, FileName};
use crate::memory::Memory;
pub use checking::{Checked, check};

/// Findings of opening a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Number of entries.
    pub entries: u64,
    /// Segments read.
    pub segments: usize,
    /// Records read one by one, because their segment was not sealed or is damaged.
    pub records_scanned: u64,
    /// Place at which the log was cut, if the last crash tore it: file, offset in bytes.
    pub cut: Option<(FileName, u64)>,
    /// Damaged places.
    pub damage: Vec<Error>,
}

/// A segment as found.
struct Found {
    segment: Segment,
    lines: Lines,
}

/// Source of the lines of a segment.
enum Lines {
    /// Read again for every range of hashes.
    OnDisk,
    Kept(Vec<Line>),
}

/// Bytes of the budget per line that is processed at once: killed addresses and the pages made from
/// the lines take about 32 bytes each, and may use a quarter of the budget.
const BUDGET_BYTES_PER_LINE: usize = 128;

struct Opening<'a, D: Device + ?Sized> {
    device: &'a D,
    hasher: KeyHasher,
    segment_bytes: u64,
    /// Expected segments; `None` if they are known only from the files found.
    manifest: Option<Manifest>,
    /// The store was closed, so no end of a segment is torn.
    was_closed: bool,
    /// Segments without valid contents, to be removed once no manifest lists them.
    removals: Vec<u64>,
    /// Number of lines processed at once, and of derived lines that are kept.
    lines_max: u64,
    lines_kept: u64,
    recovery: Recovery,
    version: u64,
    floor: u64,
}

impl Elastic {
    /// Opens the store on `device`; creates it if there is none.
    ///
    /// # Errors
    /// When the device fails, or holds something this version cannot read.
    pub fn open(
        config: Config,
        device: &(impl Device + ?Sized),
        now: Duration,
    ) -> Result<Self, Error> {
        let files = device.list().map_err(Error::read_failed(FileName::Superblock))?;
        let begun = beginning::begin(&config, device, &files)?;
        let superblock = begun.superblock;
        let mut opening = Opening {
            device,
            hasher: KeyHasher::new(superblock.hash_key),
            segment_bytes: superblock.segment_bytes,
            was_closed: begun.manifest.as_ref().is_some_and(|manifest| manifest.closed),
            manifest: begun.manifest,
            removals: Vec::new(),
            lines_max: (config.memory_bytes / BUDGET_BYTES_PER_LINE).max(1 << 14) as u64,
            lines_kept: 0,
            recovery: Recovery { damage: begun.damage, ..Recovery::default() },
            version: 0,
            floor: 0,
        };
        let found = opening.find_segments(&files, config.accept_data_loss)?;
        let mut log = Log::new(superblock.segment_bytes, opening.floor);
        let mut table = Table::new();
        opening.fill(&mut log, &mut table, found, &config)?;
        opening.list(&mut log, begun.sequence)?;
        opening.prepare(&mut log)?;
        if begun.is_former {
            superblock.store(device)?;
        }
        opening.recovery.entries = table.len();
        log.note_version(opening.version);
        let origin = Origin {
            hasher: opening.hasher,
            superblock,
            versions_before: opening.version,
            recovery: opening.recovery,
        };
        let mut elastic = Self::new(config, &superblock, log, table, origin);
        elastic.step(now);
        Ok(elastic)
    }

    /// Creates a store that has not answered anything yet.
    fn new(
        config: Config,
        superblock: &Superblock,
        log: Log,
        table: Table,
        origin: Origin,
    ) -> Self {
        let [first, second] = superblock.hash_key;
        let damage: VecDeque<Error> = origin.recovery.damage.clone().into();
        let memory = MemoryConfig {
            bytes_max: config.memory_bytes,
            key_bytes_max: usize::MAX,
            value_bytes_max: usize::MAX,
            replacement: config.replacement,
            ..MemoryConfig::default()
        };
        Self {
            table,
            memory: Memory::new(memory, first ^ second),
            log,
            recent: Recent::default(),
            staging: Staging::default(),
            paging: Paging::default(),
            outbox: Outbox::default(),
            upkeep: Upkeep::default(),
            usage: Usage::new(),
            ledger: Ledger::new(damage),
            origin,
            config,
        }
    }
}

impl<D: Device + ?Sized> Opening<'_, D> {
    /// Writes a manifest of exactly the segments found, and removes all other files.
    fn list(&mut self, log: &mut Log, sequence: u64) -> Result<(), Error> {
        log.pass_manifest(sequence);
        if let Some(manifest) = &self.manifest {
            log.pass(manifest.next);
        }
        let removals = std::mem::take(&mut self.removals);
        let is_listed = |number| self.manifest.as_ref().is_none_or(|listed| listed.has(number));
        if removals.iter().any(|&number| is_listed(number)) {
            log.leave(removals.iter().copied());
            let manifest = log.manifest();
            manifest.store(self.device)?;
            log.pass_manifest(manifest.sequence);
            log.forget_left();
        }
        removals.into_iter().try_for_each(|number| self.remove(number))
    }

    /// Creates the segments that are written next, and lists them in the manifest.
    fn prepare(&self, log: &mut Log) -> Result<(), Error> {
        while let Some(spare) = log.plan_spare() {
            if self.device.create(FileName::Segment(spare.number), spare.bytes).is_err() {
                // Requested again when the store runs.
                break;
            }
            log.add_spare(spare);
        }
        let manifest = log.manifest();
        manifest.store(self.device)?;
        log.pass_manifest(manifest.sequence);
        Ok(())
    }
}
