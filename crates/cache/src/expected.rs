//! The queue of replies a session waits for, and what is done with each.

use std::{ops::Range, time::Duration};

use smallvec::SmallVec;

use crate::{
    key::{Key, Namespace},
    lease::Lease,
    storage::{Storage, Write},
};

/// What the session waits for from the origin, oldest first.
#[derive(Debug)]
pub(crate) struct Expected<T> {
    pub(crate) tag: T,
    pub(crate) action: Action,
    /// Writes that this reply settles.
    pub(crate) writes: SmallVec<[Write; 1]>,
}

/// What is done with a reply.
#[derive(Debug)]
pub(crate) enum Action {
    /// Passed on.
    Forward,
    /// Passed on, then shown to the filter.
    Observe,
    /// Changed by the filter, then passed on.
    Rewrite,
    /// Passed on, then stored.
    Fill(Box<Fill>),
    /// The reply to a probe of ours, for the oldest fill that waits for one; kept from the client.
    Probe {
        /// When it was asked.
        asked_at: Duration,
    },
    /// The reply to what a new connection was told first; shown to the filter, kept from the client.
    Restore,
    /// Completes an answer of which other parts were stored.
    Merge(Box<Merge>),
    /// Passed on; then what the write states is stored.
    State(Box<Stated>),
    /// From here on the origin speaks when it likes.
    Stream,
    /// No reply: an answer of ours that waits for its turn.
    Local(Vec<u8>),
}

/// A reply that may be stored under its lease.
#[derive(Debug)]
pub(crate) struct Fill {
    /// None once the reply was found unfit.
    pub(crate) lease: Option<Lease>,
    pub(crate) key: OwnedKey,
    pub(crate) variant: SmallVec<[u8; 16]>,
    /// The reply as it will be stored, while a probe is awaited.
    pub(crate) packed: Vec<u8>,
    /// A probe follows that decides.
    pub(crate) probed: bool,
}

/// An answer of several parts, in the order asked for.
#[derive(Debug)]
pub(crate) struct Merge {
    pub(crate) parts: Vec<Part>,
    /// The stored parts, ready to be sent, one behind the other.
    pub(crate) stored: Vec<u8>,
}

impl Merge {
    /// Are some parts stored? If not, the reply is the answer and passes as it comes.
    pub(crate) fn is_partial(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Stored(_)))
    }
}

/// One part of a [`Merge`].
#[derive(Debug)]
pub(crate) enum Part {
    /// Its place in `stored`.
    Stored(Range<usize>),
    /// It comes with the reply.
    Missing(Fill),
}

/// The value a write states.
#[derive(Debug)]
pub(crate) struct Stated {
    pub(crate) key: OwnedKey,
    pub(crate) variant: SmallVec<[u8; 16]>,
    pub(crate) answer: Vec<u8>,
    pub(crate) expires_at: Option<Duration>,
}

/// A key that outlives its request.
#[derive(Debug)]
pub(crate) struct OwnedKey {
    namespace: Namespace,
    bytes: SmallVec<[u8; 32]>,
    hash: u64,
}

impl OwnedKey {
    /// Bytes it takes beside its record.
    fn held_bytes(&self) -> usize {
        if self.bytes.spilled() { self.bytes.len() } else { 0 }
    }

    pub(crate) fn borrow(&self) -> Key<'_> {
        Key { namespace: self.namespace, bytes: &self.bytes, hash: self.hash }
    }
}

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        Self { namespace: key.namespace, bytes: SmallVec::from_slice(key.bytes), hash: key.hash }
    }
}

impl Fill {
    pub(crate) fn new(key: Key<'_>, variant: &[u8], lease: Option<Lease>, probed: bool) -> Self {
        let variant = SmallVec::from_slice(variant);
        Self { lease, key: key.into(), variant, packed: Vec::new(), probed }
    }

    /// Stores what is packed, or gives the lease back.
    pub(crate) fn store<S: Storage>(
        self,
        expires_at: Option<Duration>,
        storage: &mut S,
        now: Duration,
    ) {
        let Some(lease) = self.lease else { return };
        let key = self.key.borrow();
        match storage.fill(lease, key, &self.variant, &self.packed, expires_at, now) {
            Ok(()) => storage.stats().fills.add(1),
            Err(reason) => storage.stats().not_filled(reason),
        }
    }
}

impl Action {
    /// Bytes it keeps until the reply has come.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Fill(fill) => fill.key.held_bytes(),
            Self::State(stated) => stated.key.held_bytes() + stated.answer.len(),
            Self::Merge(merge) => {
                let missing = merge.parts.iter().map(|part| match part {
                    Part::Stored(_) => 0,
                    Part::Missing(fill) => fill.key.held_bytes(),
                });
                missing.sum::<usize>() + merge.stored.len()
            }
            Self::Local(answer) => answer.len(),
            Self::Forward
            | Self::Observe
            | Self::Rewrite
            | Self::Probe { .. }
            | Self::Restore
            | Self::Stream => 0,
        }
    }
}

impl<T> Expected<T> {
    pub(crate) fn new(tag: T, action: Action) -> Self {
        Self { tag, action, writes: SmallVec::new() }
    }

    /// The reply will never come: gives back its leases, and hands its writes over.
    pub(crate) fn abandon<S: Storage>(self, storage: &mut S) -> SmallVec<[Write; 1]> {
        match self.action {
            Action::Fill(fill) => fill.lease.into_iter().for_each(|lease| storage.release(lease)),
            Action::Merge(merge) => {
                for part in merge.parts {
                    if let Part::Missing(Fill { lease: Some(lease), .. }) = part {
                        storage.release(lease);
                    }
                }
            }
            Action::Forward
            | Action::Observe
            | Action::Rewrite
            | Action::Probe { .. }
            | Action::Restore
            | Action::State(_)
            | Action::Stream
            | Action::Local(_) => {}
        }
        self.writes
    }
}
