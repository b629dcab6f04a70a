//! Keys whose writes the origin reports one by one (`CLIENT TRACKING ON OPTIN`).
//!
//! Redis reports a write of such a key to the connection that has read it, once, and forgets keys
//! whose connection closes. So the feed reads each key itself before a session may store it: a miss
//! of a key that is not tracked asks for it, and the first miss after the origin has answered the
//! feed is stored. Its read is sent after that answer, so every later write is reported.
//!
//! Marks are lost to others with the same place; that costs another read by the feed, nothing else:
//! what is stored already stays tracked by the origin.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    task::{Context, Poll, Waker},
};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Number of keys that are marked as tracked; 512 KiB.
const MARKS: usize = 1 << 16;
/// Keys, and their bytes, that wait for the feed to read them; others ask again with their next
/// miss.
const WANTED_MAX: usize = 1_024;
const WANTED_BYTES_MAX: usize = 1 << 20;
/// In a mark: the key has been read since it is tracked. Not a part of the hash.
const READ: u64 = 1;

/// The keys of one origin, shared by its sessions and its feed.
#[derive(Debug, Default)]
pub struct Tracked {
    /// The feed of now has to be asked for each key.
    by_key: AtomicBool,
    marks: OnceLock<Box<[AtomicU64]>>,
    wanted: Mutex<Wanted>,
}

#[derive(Debug, Default)]
struct Wanted {
    keys: HashMap<u64, Wish>,
    bytes: usize,
    waker: Option<Waker>,
}

/// A key that the feed is about to have tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

/// A key that the feed has to read.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) mark: Mark,
    pub(crate) database: u32,
    pub(crate) key: Box<[u8]>,
}

impl Tracked {
    /// Nothing is tracked. Call it before what is stored is open.
    pub(crate) fn begin(&self, by_key: bool) {
        for mark in self.marks.get().into_iter().flatten() {
            mark.store(0, SeqCst);
        }
        let mut wanted = self.wanted();
        (wanted.keys, wanted.bytes) = (HashMap::new(), 0);
        self.by_key.store(by_key, SeqCst);
    }

    /// Whether a reply to a read of `key` that is sent from now on may be stored. If not, the feed
    /// is asked to have the key tracked. Call it when the lease is taken: a report revokes that.
    pub(crate) fn covers(&self, database: u32, key: &[u8], secret: u64) -> bool {
        if !self.by_key.load(SeqCst) {
            return true;
        }
        let mark = Mark::of(database, key, secret);
        let place = self.place(mark);
        let found = place.load(SeqCst);
        if found | READ == mark.0 | READ {
            // If a report comes in between, its mark is gone and so is the lease.
            let _replaced = place.compare_exchange(found, found | READ, SeqCst, Relaxed);
            return true;
        }
        self.want(database, key, mark);
        false
    }

    fn want(&self, database: u32, key: &[u8], mark: Mark) {
        let mut wanted = self.wanted();
        let fits = wanted.keys.len() < WANTED_MAX && wanted.bytes + key.len() <= WANTED_BYTES_MAX;
        let wish = || Wish { mark, database, key: key.into() };
        if fits && wanted.keys.insert(mark.0, wish()).is_none() {
            wanted.bytes += key.len();
            if let Some(waker) = wanted.waker.take() {
                waker.wake();
            }
        }
    }

    /// Ready if the feed should [`Self::take_wanted`].
    pub(crate) fn poll_wanted(&self, context: &Context<'_>) -> Poll<()> {
        let mut wanted = self.wanted();
        if !wanted.keys.is_empty() {
            return Poll::Ready(());
        }
        wanted.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// The keys that the feed has to read. After it has the answer, it calls [`Self::mark`].
    pub(crate) fn take_wanted(&self) -> impl Iterator<Item = Wish> + use<> {
        let mut wanted = self.wanted();
        wanted.bytes = 0;
        std::mem::take(&mut wanted.keys).into_values()
    }

    /// The origin tracks a key.
    pub(crate) fn mark(&self, mark: Mark) {
        self.place(mark).store(mark.0, SeqCst);
    }

    /// The origin has reported a key, and does not track it any more. Reports do not name the
    /// database: call it for each. A key that was read since it was tracked is wanted again. Call
    /// it before the leases of the key are revoked.
    pub(crate) fn reported(&self, database: u32, key: &[u8], secret: u64) {
        if !self.by_key.load(SeqCst) {
            return;
        }
        let mark = Mark::of(database, key, secret);
        let place = self.place(mark);
        if place.load(SeqCst) | READ == mark.0 | READ && place.swap(0, SeqCst) == mark.0 | READ {
            self.want(database, key, mark);
        }
    }

    fn place(&self, mark: Mark) -> &AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(0);
        let marks = self.marks.get_or_init(|| (0..MARKS).map(|_| AtomicU64::new(0)).collect());
        // The lowest bit is no part of the hash.
        let place = usize::try_from(mark.0 >> 1).unwrap_or_default() % MARKS;
        marks.get(place).unwrap_or(&NONE)
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mark {
    /// Not every server reports writes of the key in another database than that in which it was
    /// read. 0 is no mark.
    fn of(database: u32, key: &[u8], secret: u64) -> Self {
        Self((xxh3_64_with_seed(key, secret ^ u64::from(database)) & !READ).max(2))
    }
}
