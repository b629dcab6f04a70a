//! Upper bound of the writes of a transaction to each shard, known before its first command runs.
//!
//! It is a bound, not a forecast: commands that fail write less, and a value that is shortened
//! counts with its former length.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::selection::Selection;
use crate::{
    command,
    connection::{Queue, Queued},
    failure::Failure,
    keyspace::{Keyspace, VALUE_BYTES_MAX, shard_of},
    row::{Flags, Touch, Written},
    shard::COUNTS_BYTES,
};

/// Upper bound of the writes to one shard.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Entries written and removed.
    entries: usize,
    /// Bytes of their keys and values.
    bytes: usize,
}

impl Part {
    /// Adds `count` keys of a database that are written or removed.
    fn add(&mut self, count: usize, bytes: usize, database: u8) {
        // A stored key begins with its database; every change outside database 0 changes the
        // counts.
        let counts = if database == 0 { 0 } else { count };
        self.entries += count + counts;
        self.bytes += bytes + count + counts * COUNTS_ENTRY_BYTES;
    }
}

/// Key and value of the counts.
const COUNTS_ENTRY_BYTES: usize = 1 + COUNTS_BYTES;

/// Upper bound of the writes of a transaction.
pub(super) struct Footprint<'q> {
    /// Upper bound for each shard.
    parts: Vec<Part>,
    /// Maximum length of each key's value after the commands examined so far.
    values: HashMap<(u8, &'q [u8]), usize>,
    /// Some commands may write to a database other than 0.
    others: bool,
    /// Some command removes all keys.
    clears: bool,
    /// All commands only remove.
    frees: bool,
}

impl<'q> Footprint<'q> {
    /// Computes the footprint of a transaction whose commands run in these databases; its keys are
    /// loaded in `keys`.
    pub(super) fn new(
        queue: &'q Queue,
        mut selection: Selection<'_>,
        keys: &mut Keyspace<'_>,
    ) -> Self {
        let parts = vec![Part::default(); keys.count];
        let values = HashMap::new();
        let mut footprint = Self { parts, values, others: false, clears: false, frees: true };
        for queued in &queue.commands {
            let databases = selection.pass(queued);
            if queued.row.is(Flags::WRITE) {
                footprint.frees &= queued.row.frees;
                databases.iter().for_each(|&database| footprint.add(queued, database, keys));
            }
        }
        footprint
    }

    /// Reserves room in the shards it writes to; `false` while the disk of one is behind.
    pub(super) fn reserve(&self, keys: &mut Keyspace<'_>) -> Result<bool, Failure> {
        for (index, shard) in keys.held_with_index() {
            let Part { mut entries, mut bytes } = self.parts[index];
            if entries > 0 {
                // The counts are written once more before the first key outside database 0.
                entries += 1;
                bytes += COUNTS_ENTRY_BYTES;
            }
            let writes = entries > 0 || self.clears;
            if writes && !shard.reserve(entries, bytes, self.clears, self.frees)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn add(&mut self, queued: &'q Queued, database: u8, keys: &mut Keyspace<'_>) {
        match queued.row.name() {
            "flushdb" => return self.add_flush(database, keys),
            "flushall" => self.clears = true,
            _ => {}
        }
        let touched: SmallVec<[(usize, Touch); 8]> =
            queued.with_args(|args| queued.row.touched(args).collect());
        let other = command::other_database(queued.row, &queued.args);
        let names = touched.iter().map(|&(at, _)| (database, &*queued.args[at]));
        let held = match queued.row.written {
            Written::Arguments(_) => 0,
            _ => names.map(|name| self.value_bytes(name, keys)).max().unwrap_or(0),
        };
        for (place, &(at, touch)) in touched.iter().enumerate() {
            if !touch.writes() {
                continue;
            }
            let key = &*queued.args[at];
            if let Some(other) = other {
                // MOVE removes it here.
                self.part(database, key).add(1, 0, database);
                self.others |= other != 0;
            }
            let database = other.unwrap_or(database);
            self.others |= database != 0;
            let end = touched.get(place + 1).map_or(queued.args.len(), |&(next, _)| next);
            let value = if touch.stores() { written(queued, at + 1..end, held) } else { 0 };
            self.part(database, key).add(1, key.len() + value, database);
            let known = self.value_bytes((database, key), keys);
            self.values.insert((database, key), known.max(value));
        }
    }

    /// Adds a FLUSHDB, which removes key by key if other databases are in use, or may be when it
    /// runs.
    fn add_flush(&mut self, database: u8, keys: &mut Keyspace<'_>) {
        let now = keys.now;
        if database == 0 && !self.others && keys.held().all(|shard| shard.only_database_0(now)) {
            self.clears = true;
            return;
        }
        // It drops everything if a FLUSHALL before it has left only database 0.
        self.clears |= database == 0;
        for (index, shard) in keys.held_with_index() {
            let count = shard.store.len() as usize + self.parts[index].entries;
            self.parts[index].add(count, 0, database);
        }
    }

    fn part(&mut self, database: u8, key: &[u8]) -> &mut Part {
        let count = self.parts.len();
        &mut self.parts[shard_of(database, key, count)]
    }

    fn value_bytes(&mut self, name: (u8, &'q [u8]), keys: &mut Keyspace<'_>) -> usize {
        *self.values.entry(name).or_insert_with(|| keys.value_bytes(name.0, name.1))
    }
}

/// Maximum length of a value written under a key; `rest` are its arguments up to the next key,
/// `held` is the longest value of the command's keys.
fn written(queued: &Queued, rest: std::ops::Range<usize>, held: usize) -> usize {
    let rest: usize = queued.args[rest].iter().map(|argument| argument.len()).sum();
    let bytes = match queued.row.written {
        Written::Arguments(more) => rest + more,
        Written::Held => held + rest,
        Written::Lengthened(end) => held.max(queued.with_args(end)),
    };
    // Longer ones are refused.
    bytes.min(VALUE_BYTES_MAX)
}
