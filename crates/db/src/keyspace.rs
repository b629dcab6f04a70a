//! The keys a command may touch: the shards held for it, seen as one keyspace.
//!
//! Tier 2 provides the shards ([`Shards`]); a command gets the shards of its keys, already loaded,
//! and works on them as if nothing else existed. Every change passes the shard's tracking, so every
//! client that tracks a key is notified.

use std::{ops::DerefMut, time::Duration};

use smallvec::SmallVec;
use store::elastic::Ticket;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    failure::Failure,
    outcome::Outcome,
    shard::{Loaded, Shard},
    stored::{Entry, StoredKey},
};

mod loads;

pub use crate::stored::DATABASES;
pub(crate) use loads::Loads;

/// Longest value, in bytes: `proto-max-bulk-len`.
pub const VALUE_BYTES_MAX: usize = 4 << 20;

/// All shards, behind a lock or another form of exclusion.
pub trait Shards {
    /// One shard, held.
    type Guard<'a>: DerefMut<Target = Shard>
    where
        Self: 'a;

    /// Number of shards; constant.
    fn count(&self) -> usize;

    /// Waits for shard `index` and holds it. Several shards must be locked in ascending order.
    fn lock(&self, index: usize) -> Self::Guard<'_>;
}

/// Returns the index of the shard, of `count`, that has the keys called `key` of `database`.
pub fn shard_of(database: u8, key: &[u8], count: usize) -> usize {
    let hash = xxh3_64(key).wrapping_add(u64::from(database).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    // The high bits: what indexes a shard uses others.
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// The shards held for one command.
pub(crate) enum Held<'k> {
    One(usize, &'k mut Shard),
    /// By index; `None` where not held.
    Many(SmallVec<[Option<&'k mut Shard>; 16]>),
}

/// The shard of `held` that `key` lies in.
#[inline]
fn shard_in<'h>(held: &'h mut Held<'_>, count: usize, database: u8, key: &[u8]) -> &'h mut Shard {
    match held {
        Held::One(_, shard) => shard,
        Held::Many(shards) => {
            let index = shard_of(database, key, count);
            shards[index].as_deref_mut().expect("a command holds the shards of its keys")
        }
    }
}

/// The keys of one database as far as one command may touch them.
pub struct Keyspace<'k> {
    pub(crate) held: Held<'k>,
    pub(crate) count: usize,
    /// The database of the command.
    pub(crate) database: u8,
    /// The acting client.
    pub(crate) client: u64,
    /// Since the Unix epoch.
    pub(crate) now: Duration,
    /// Disk reads that the command needs.
    pub(crate) loads: Loads,
}

impl Keyspace<'_> {
    fn shard(&mut self, database: u8, key: &[u8]) -> &mut Shard {
        shard_in(&mut self.held, self.count, database, key)
    }

    /// The shards held, in ascending order.
    pub(crate) fn held(&mut self) -> impl Iterator<Item = &mut Shard> {
        let (one, many) = match &mut self.held {
            Held::One(_, shard) => (Some(&mut **shard), None),
            Held::Many(shards) => (None, Some(shards)),
        };
        one.into_iter().chain(many.into_iter().flatten().filter_map(Option::as_deref_mut))
    }

    /// The shards held, each with its index.
    pub(crate) fn held_with_index(&mut self) -> impl Iterator<Item = (usize, &mut Shard)> {
        let (one, many) = match &mut self.held {
            Held::One(index, shard) => (Some((*index, &mut **shard)), None),
            Held::Many(shards) => (None, Some(shards)),
        };
        let many = many.into_iter().flat_map(|shards| shards.iter_mut().enumerate());
        one.into_iter()
            .chain(many.filter_map(|(index, shard)| Some((index, shard.as_deref_mut()?))))
    }

    /// The shard at `index`, if it is held.
    pub(crate) fn at(&mut self, index: usize) -> Option<&mut Shard> {
        match &mut self.held {
            Held::One(own, shard) => (*own == index).then_some(&mut **shard),
            Held::Many(shards) => shards.get_mut(index)?.as_deref_mut(),
        }
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now.as_millis() as u64
    }

    /// Returns the entry of `key`.
    pub(crate) fn get(&mut self, key: &[u8]) -> Option<Entry<'_>> {
        self.get_of(self.database, key)
    }

    pub(crate) fn get_of(&mut self, database: u8, key: &[u8]) -> Option<Entry<'_>> {
        let now = self.now;
        self.shard(database, key).read(&StoredKey::new(database, key), now)
    }

    /// Length of the value of `key`, which must be loaded.
    pub(crate) fn value_bytes(&mut self, database: u8, key: &[u8]) -> usize {
        let now = self.now;
        self.shard(database, key).value_bytes(&StoredKey::new(database, key), now)
    }

    pub(crate) fn exists(&mut self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// Stores `value` under `key`, replacing any older value.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at: Option<u64>,
    ) -> Result<(), Failure> {
        self.put_of(self.database, key, value, expires_at)
    }

    pub(crate) fn put_of(
        &mut self,
        database: u8,
        key: &[u8],
        value: &[u8],
        expires_at: Option<u64>,
    ) -> Result<(), Failure> {
        let (client, now) = (self.client, self.now);
        let stored = StoredKey::new(database, key);
        self.shard(database, key).write(&stored, value, expires_at, client, now)
    }

    /// Drops `key`; says whether it was there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool, Failure> {
        self.delete_of(self.database, key)
    }

    pub(crate) fn delete_of(&mut self, database: u8, key: &[u8]) -> Result<bool, Failure> {
        let (client, now) = (self.client, self.now);
        self.shard(database, key).remove(&StoredKey::new(database, key), client, now)
    }

    /// Makes `key` readable, or requests it from the disk; then [`Self::pending`] is set.
    #[inline]
    pub(crate) fn load(&mut self, database: u8, key: &[u8], to_write: bool) -> Result<(), Failure> {
        let (client, now) = (self.client, self.now);
        let stored = StoredKey::new(database, key);
        let shard = shard_in(&mut self.held, self.count, database, key);
        if !self.loads.may_ask(|| shard.is_at_hand(&stored, to_write)) {
            return Ok(());
        }
        match shard.load(&stored, to_write, client, now) {
            Loaded::Ready => Ok(()),
            Loaded::Failed(failure) => Err(failure),
            Loaded::Pending(ticket) => {
                let bytes = shard.store.bytes_on_disk(&stored.0);
                self.loads.add(shard_of(database, key, self.count), ticket, bytes)
            }
        }
    }

    /// Returns how the command must end now if it needs data that is not in memory.
    #[inline]
    pub(crate) fn pending(&self) -> Option<Outcome> {
        self.loads.pending()
    }

    /// Returns whether the disk may be read for data whose location is unknown; if not, how the
    /// command must end.
    pub(crate) fn may_ask(&mut self) -> Result<(), Outcome> {
        if self.loads.may_ask(|| false) { Ok(()) } else { Err(Outcome::Queue) }
    }

    /// Cancels all waits for missing data; returns whether there were any.
    pub(crate) fn release_missing(&mut self) -> bool {
        let (missing, _) = self.loads.take();
        for &(index, ticket) in &missing {
            if let Some(shard) = self.at(index) {
                shard.release(ticket);
            }
        }
        !missing.is_empty()
    }

    /// Makes it known how many keys each database has in the shards held, or asks the disk.
    pub(crate) fn load_counts(&mut self) -> Result<(), Failure> {
        let (client, now) = (self.client, self.now);
        let at_hand = self.held().all(Shard::are_counts_at_hand);
        if !self.loads.may_ask(|| at_hand) {
            return Ok(());
        }
        let loaded: SmallVec<[_; 16]> = self
            .held_with_index()
            .map(|(index, shard)| (index, shard.load_counts(client, now)))
            .collect();
        for (index, loaded) in loaded {
            match loaded {
                Loaded::Ready => {}
                Loaded::Failed(failure) => return Err(failure),
                Loaded::Pending(ticket) => self.loads.add_unknown(index, ticket),
            }
        }
        Ok(())
    }

    /// Returns `found` of shard `index`; if data has to be read from disk, returns how the command
    /// must end.
    pub(crate) fn unless_missing<T>(
        &mut self,
        index: usize,
        found: Result<T, Vec<Ticket>>,
    ) -> Result<T, Outcome> {
        found.map_err(|tickets| {
            tickets.into_iter().for_each(|ticket| self.loads.add_unknown(index, ticket));
            Outcome::Wait
        })
    }

    /// Whether all locked shards can be written now, or removed from if the command only `frees`.
    /// Returns `false` while the disk of one of them is behind.
    #[inline]
    pub(crate) fn accept(&mut self, frees: bool) -> Result<bool, Failure> {
        let mut accepted = true;
        for shard in self.held() {
            accepted &= shard.accepts(frees)?;
        }
        Ok(accepted)
    }

    /// Notes that `client` has read `key` and keeps it.
    pub(crate) fn remember(&mut self, database: u8, key: &[u8], client: u64, no_loop: bool) {
        self.shard(database, key).tracking.remember(key, client, no_loop);
    }

    /// Keys of a database, in the shards held.
    pub(crate) fn len(&mut self, database: u8) -> u64 {
        let now = self.now;
        self.held().map(|shard| shard.keys(database, now)).sum()
    }
}
