//! Storage of content: in memory, and optionally in a database that is larger than memory. A read
//! returns a copy, for which memory must be available.

use std::{hash::RandomState, sync::Arc, time::Duration};

use content::{Limits, Record, Storage};
use endpoint::{Told, seldom};
use hyper::body::Bytes;
use platform::memory::{self, transit::Room};
use tracing::debug;

use super::Database;

/// Stored content.
pub struct Content {
    memory: Storage,
    database: Option<Database>,
    told: Told,
}

/// An entry exists, but there is no memory for a copy of it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoom;

impl Content {
    /// Room for content, in memory and in `database`.
    #[must_use]
    pub fn new(limits: Limits, database: Option<Database>) -> Self {
        let memory = Storage::new(limits, RandomState::new(), super::now());
        Self { memory, database, told: Told::default() }
    }

    /// The memory storage.
    pub(super) fn memory(&self) -> &Storage {
        &self.memory
    }

    /// Looks up the entry stored under `key`.
    ///
    /// # Errors
    /// An entry exists, or may exist, and `room` has no memory for it.
    pub(super) async fn lookup(
        &self,
        key: &[u8],
        room: &Arc<Room>,
        now: Duration,
    ) -> Result<Option<Record>, NoRoom> {
        if let Some(bytes) = self.in_memory(key, room, now)? {
            return Ok(self.decode(&bytes));
        }
        let Some(database) = &self.database else { return Ok(None) };
        if room.is_tight() {
            return Err(NoRoom);
        }
        let changes = self.memory.changes(key);
        let Some((value, kept_for)) = database.lookup(key).await else { return Ok(None) };
        if self.memory.was_cleared(&value) {
            return Ok(None);
        }
        self.put(key, &value, kept_for, now);
        if self.memory.changes(key) != changes {
            // It was being read when it was dropped.
            self.memory.remove(key);
            return Ok(None);
        }
        let counted = room.whole(value.len()).ok_or(NoRoom)?;
        Ok(self.decode(&counted.keeps(value)))
    }

    fn decode(&self, bytes: &Bytes) -> Option<Record> {
        let record = Record::decode(bytes);
        if let Err(error) = &record {
            seldom!(self.told, Record => warn,
                "a stored response cannot be read and is not used: {error}");
        }
        record.ok()
    }

    /// Stores `record` for at most `kept_for`.
    pub(super) async fn store(
        &self,
        key: &[u8],
        record: &Record,
        kept_for: Duration,
        room: &Arc<Room>,
        now: Duration,
    ) {
        // A second copy of the response, until it is stored.
        let Some(counted) = room.whole(record.encoded_len()) else {
            debug!("a response is not stored: too much other data is in transit");
            return self.forget(key).await;
        };
        let bytes = record.encode();
        self.put(key, &bytes, kept_for, now);
        if let Some(database) = &self.database {
            database.store(key, counted.keeps(bytes), kept_for).await;
        }
    }

    /// Drops the entry of `key`.
    pub(super) async fn forget(&self, key: &[u8]) {
        self.memory.invalidate(key);
        if let Some(database) = &self.database {
            database.forget(key).await;
        }
    }

    fn in_memory(
        &self,
        key: &[u8],
        room: &Arc<Room>,
        now: Duration,
    ) -> Result<Option<Bytes>, NoRoom> {
        let copy = |value: &[u8]| {
            let counted = room.whole(value.len()).ok_or(NoRoom)?;
            Ok(counted.keeps(value.to_vec()))
        };
        self.memory.lookup(key, copy, now).transpose()
    }

    fn put(&self, key: &[u8], bytes: &[u8], kept_for: Duration, now: Duration) {
        if let Err(refused) = self.memory.insert(key, bytes, kept_for, now) {
            debug!("a response of {} bytes is not stored: {refused}", bytes.len());
        }
    }
}

impl memory::Stored for Content {
    fn wanted(&self) -> u64 {
        self.memory.bytes_max() as u64
    }

    fn held(&self) -> u64 {
        self.memory.sizes().bytes as u64
    }

    fn grant(&self, bytes: u64) {
        self.memory.grant(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}
