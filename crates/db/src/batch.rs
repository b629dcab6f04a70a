//! Shards for the commands a client sent together: the cache lines of their first lookups are
//! prefetched together, and a single worker locks each shard once for all of them.

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut},
};

use smallvec::SmallVec;
use wire::resp::request::Request;

use crate::{
    keyspace::{Shards, shard_of},
    shard::Shard,
    stored::StoredKey,
};

/// Shards held from one command to the next.
///
/// They implement [`Shards`]: a command that needs other shards gets those, too. While it exists,
/// nothing may wait or lock a shard in another way.
pub struct Batch<'s, S: Shards> {
    shards: &'s S,
    /// Shards stay held between commands.
    keeps: bool,
    /// Held and not lent to a command.
    held: RefCell<SmallVec<[Option<S::Guard<'s>>; 8]>>,
}

impl<'s, S: Shards> Batch<'s, S> {
    /// Prefetches the memory that lookups of the keys of the first `requests` will read, so that
    /// the fetches overlap. With `keeps`, their shards stay locked until the batch is dropped; a
    /// second worker would have to wait for all of them.
    pub fn of<'r>(
        requests: impl IntoIterator<Item = &'r Request<'r>>,
        database: u8,
        shards: &'s S,
        keeps: bool,
    ) -> Self {
        let count = shards.count();
        // The first argument is nearly always a key, and commands with more arguments mostly write.
        // Otherwise a prefetch is wasted.
        let keys: SmallVec<[(usize, &[u8], bool); 16]> = requests
            .into_iter()
            .filter_map(|request| {
                let key = request.argument(1)?;
                Some((shard_of(database, key, count), key, request.len() > 2))
            })
            .collect();
        let mut held: SmallVec<[Option<S::Guard<'s>>; 8]> = (0..count)
            .map(|index| keys.iter().any(|key| key.0 == index).then(|| shards.lock(index)))
            .collect();
        let fetched: SmallVec<[(usize, u64); 16]> = keys
            .into_iter()
            .filter_map(|(index, key, writes)| {
                let shard = held[index].as_ref()?;
                Some((index, shard.prefetch(&StoredKey::new(database, key), writes)))
            })
            .collect();
        for (index, hash) in fetched {
            if let Some(shard) = &mut held[index] {
                shard.store.prefetch_item(hash);
            }
        }
        if !keeps {
            held.fill_with(|| None);
        }
        Self { shards, keeps, held: RefCell::new(held) }
    }
}

impl<'s, S: Shards> Shards for Batch<'s, S> {
    type Guard<'a>
        = Lent<'a, 's, S>
    where
        Self: 'a;

    fn count(&self) -> usize {
        self.shards.count()
    }

    fn lock(&self, index: usize) -> Lent<'_, 's, S> {
        let mut held = self.held.borrow_mut();
        let guard = held[index].take().unwrap_or_else(|| {
            // In ascending order, like all lockers.
            held[index + 1..].fill_with(|| None);
            self.shards.lock(index)
        });
        Lent { batch: self, index, guard: Some(guard) }
    }
}

/// A shard lent to a command; it goes back to its batch, if that keeps it.
pub struct Lent<'a, 's, S: Shards> {
    batch: &'a Batch<'s, S>,
    index: usize,
    /// `Some` until it is dropped.
    guard: Option<S::Guard<'s>>,
}

impl<S: Shards> Deref for Lent<'_, '_, S> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        self.guard.as_ref().expect("lent until it is dropped")
    }
}

impl<S: Shards> DerefMut for Lent<'_, '_, S> {
    fn deref_mut(&mut self) -> &mut Shard {
        self.guard.as_mut().expect("lent until it is dropped")
    }
}

impl<S: Shards> Drop for Lent<'_, '_, S> {
    fn drop(&mut self) {
        if self.batch.keeps {
            self.batch.held.borrow_mut()[self.index] = self.guard.take();
        }
    }
}
