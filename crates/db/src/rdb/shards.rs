//! Snapshots of a database that no process serves.

use std::io::{self, Read, Write};
use std::time::Duration;

use store::device::{Device, carry_out};
use store::elastic::{self, Elastic, Load, Scan, Ticket};

use super::{Element, Entry, Error, Limits, Reader, Writer};
use crate::keyspace::{VALUE_BYTES_MAX, shard_of};
use crate::shard::{COUNTS, counts_value};
use crate::stored::{DATABASES, StoredKey};

/// Longest strings that a database takes: its keys are stored with a byte for their database.
const LIMITS: Limits =
    Limits { key_bytes_max: u16::MAX as usize - 1, value_bytes_max: VALUE_BYTES_MAX };
/// Bytes read and written at once.
const PORTION_BYTES: usize = 256 << 10;
/// Keys of one step of a scan.
const SCAN_KEYS: usize = 64;

/// A value, and when it expires.
type Found = (Vec<u8>, Option<Duration>);

/// Why a snapshot is incomplete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The file, or what is in it, cannot be read.
    #[error(transparent)]
    Snapshot(#[from] Error),
    /// The file cannot be read or written.
    #[error("cannot read or write the RDB file")]
    File(#[from] io::Error),
    /// A shard cannot be read or written.
    #[error("shard {shard}: {error}")]
    Store {
        /// Its number.
        shard: usize,
        /// The error.
        error: elastic::Error,
    },
    /// Keys of a shard cannot be read.
    #[error("shard {shard}: the keys of {keys} places are damaged; run `enroute db check`")]
    Damaged {
        /// Its number.
        shard: usize,
        /// Number of records or pages.
        keys: u64,
    },
}

/// One shard that this thread alone uses, and the device with its files.
pub struct Offline<'d, D: ?Sized> {
    /// The shard.
    pub store: Elastic,
    /// Its files.
    pub device: &'d D,
}

impl<D: Device + ?Sized> Offline<'_, D> {
    /// Carries out one command of the store; false if it has none.
    fn turn(&mut self, now: Duration) -> bool {
        let Some(command) = self.store.poll_device(now) else { return false };
        self.store.complete(carry_out(self.device, &command), now);
        true
    }

    /// Carries out all commands of the store; false if it had none.
    fn turn_until_idle(&mut self, now: Duration) -> bool {
        let mut has_turned = false;
        while self.turn(now) || self.store.step(now) {
            has_turned = true;
        }
        while self.store.poll_loaded().is_some() {}
        has_turned
    }

    /// The value of a key, and when it expires.
    fn fetch(&mut self, key: &[u8], now: Duration) -> Result<Option<Found>, elastic::Error> {
        let mut waits = Vec::new();
        let found = loop {
            match self.store.load(key, now) {
                Load::Pending(ticket) => {
                    waits.push(ticket);
                    self.turn_until_idle(now);
                }
                Load::Failed(error) => break Err(error),
                Load::Absent => break Ok(None),
                Load::Present => {
                    let read = self.store.read(key, now);
                    break Ok(read.map(|read| (read.value.to_vec(), read.expires_at)));
                }
            }
        };
        self.release(waits);
        found
    }

    fn release(&mut self, tickets: impl IntoIterator<Item = Ticket>) {
        tickets.into_iter().for_each(|ticket| self.store.release(ticket));
    }

    fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<Duration>,
        now: Duration,
    ) -> Result<(), elastic::Error> {
        let mut waits = Vec::new();
        let written = loop {
            if let Load::Pending(ticket) = self.store.load(key, now) {
                waits.push(ticket);
                self.turn_until_idle(now);
                continue;
            }
            let accepted = self.store.accepts_writes();
            let written =
                accepted.and_then(|()| self.store.write(key, value, expires_at, now).map(drop));
            match written {
                Err(elastic::Error::Busy { .. }) if self.turn_until_idle(now) => {}
                written => break written,
            }
        };
        self.release(waits);
        written
    }

    /// Ends an import of entries, of which `others` counts those in databases 1 and up.
    fn end(
        &mut self,
        others: [u64; DATABASES as usize],
        now: Duration,
    ) -> Result<(), elastic::Error> {
        // Without counts, all keys of a shard are taken for those of database 0.
        if others != [0; DATABASES as usize] {
            self.put(COUNTS, &counts_value(others), None, now)?;
        }
        self.close(now)
    }

    /// Makes everything durable, so that the next start finds a clean end.
    fn close(&mut self, now: Duration) -> Result<(), elastic::Error> {
        self.store.close();
        while !self.store.is_closed() {
            if !self.turn(now) {
                return self.store.accepts_writes();
            }
        }
        Ok(())
    }
}

/// Fails if a store has found anything damaged: it may have been an entry.
fn expect_no_damage<D: Device + ?Sized>(shards: &mut [Offline<'_, D>]) -> Result<(), Failure> {
    for (shard, offline) in shards.iter_mut().enumerate() {
        if let Some(error) = offline.store.poll_damage() {
            return Err(Failure::Store { shard, error });
        }
    }
    Ok(())
}

/// Writes all entries of a database that have not expired, and closes the shards; returns their
/// number. No entry is changed.
///
/// # Errors
/// The first place that is damaged, or cannot be written: a snapshot has everything.
pub fn export<D: Device + ?Sized>(
    shards: &mut [Offline<'_, D>],
    file: &mut impl Write,
    now: Duration,
) -> Result<u64, Failure> {
    let (mut writer, mut count) = (Writer::new(), 0);
    // Found when a shard was opened.
    expect_no_damage(shards)?;
    for (shard, offline) in shards.iter_mut().enumerate() {
        let (mut cursor, mut waits) = (0, Vec::new());
        loop {
            match offline.store.scan(cursor, SCAN_KEYS, now) {
                Scan::Pending(tickets) => {
                    waits.extend(tickets);
                    offline.turn_until_idle(now);
                    continue;
                }
                Scan::Ready { passed_over: lost @ 1.., .. } => {
                    return Err(Failure::Damaged { shard, keys: lost });
                }
                Scan::Ready { cursor: next, keys, .. } => {
                    offline.release(waits.drain(..));
                    cursor = next;
                    // The counts are no client's entry.
                    for key in keys.iter().filter(|key| ***key != *COUNTS) {
                        let found = offline.fetch(key, now);
                        let found = found.map_err(|error| Failure::Store { shard, error })?;
                        let Some(((value, expires_at), (database, name))) =
                            found.zip(key.split_first())
                        else {
                            continue;
                        };
                        writer.entry(*database, name, &value, expires_at);
                        count += 1;
                        if writer.waiting() >= PORTION_BYTES {
                            file.write_all(&writer.take())?;
                        }
                    }
                }
            }
            if cursor == 0 {
                break;
            }
        }
    }
    // Found since then.
    expect_no_damage(shards)?;
    file.write_all(&writer.end())?;
    file.flush()?;
    // A shard that is not closed is opened like one after a crash: no entry depends on it.
    shards.iter_mut().for_each(|offline| drop(offline.close(now)));
    Ok(count)
}

/// Stores all entries of a snapshot that have not expired, and closes the shards, which were empty;
/// returns their number.
///
/// # Errors
/// The snapshot has something that a database does not have, or is damaged; a shard cannot be
/// written. Some entries are stored then.
pub fn import<D: Device + ?Sized>(
    shards: &mut [Offline<'_, D>],
    file: &mut impl Read,
    now: Duration,
) -> Result<u64, Failure> {
    let (mut reader, mut rest, mut count) = (Reader::new(LIMITS), Vec::new(), 0);
    // Keys of each shard in databases 1 and up.
    let mut others = vec![[0; DATABASES as usize]; shards.len()];
    loop {
        let mut used = 0;
        while let Some((element, bytes)) = reader.decode(&rest[used..])? {
            used += bytes;
            match element {
                Element::Skipped => {}
                Element::Entry(entry) if entry.expires_at.is_some_and(|at| at <= now) => {}
                Element::Entry(Entry { database, key, value, expires_at }) => {
                    let shard = shard_of(database, &key, shards.len());
                    let offline = &mut shards[shard];
                    let before = offline.store.len();
                    let stored = StoredKey::new(database, &key).0;
                    let written = offline.put(&stored, &value, expires_at, now);
                    written.map_err(|error| Failure::Store { shard, error })?;
                    let added = offline.store.len() - before;
                    if database != 0 {
                        others[shard][usize::from(database)] += added;
                    }
                    count += added;
                }
                Element::End => {
                    for (shard, offline) in shards.iter_mut().enumerate() {
                        let closed = offline.end(others[shard], now);
                        closed.map_err(|error| Failure::Store { shard, error })?;
                    }
                    return Ok(count);
                }
            }
        }
        rest.drain(..used);
        let read = file.take(PORTION_BYTES as u64).read_to_end(&mut rest)?;
        if read == 0 {
            return Err(reader.truncated(&rest).into());
        }
    }
}
