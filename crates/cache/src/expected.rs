//! The queue of expected replies of a session, and the handling of each.

use std::{ops::Range, time::Duration};

use smallvec::SmallVec;
use tracing::trace;
use wire::resp::elements::Elements;

use crate::{
    filter::{Ends, Hush, Read},
    key::{Key, Namespace, Shown},
    lease::{Lease, Outcome},
    principal::Principal,
    stats::NotFilled,
    storage::{Given, Storage, Write, observe::Hit},
};

/// Expected replies of the origin, oldest first.
#[derive(Debug)]
pub(crate) struct Expected<T> {
    pub(crate) tag: T,
    pub(crate) action: Action,
    /// Writes that this reply settles.
    pub(crate) writes: SmallVec<[Write; 1]>,
    /// The command that writes.
    pub(crate) name: &'static str,
    /// Effect on the writes that the origin has queued.
    pub(crate) ends: Ends,
    /// The request was not sent completely, so no origin can have executed it.
    pub(crate) partial: bool,
    /// When a read by key was forwarded.
    pub(crate) asked_at: Option<Duration>,
}

/// Handling of a reply.
#[derive(Debug)]
pub(crate) enum Action {
    /// Passed on.
    Forward,
    /// Passed on: a read that is only observed, and would have been a hit.
    Foreseen(Hit),
    /// Passed on, then shown to the filter.
    Observe,
    /// Changed by the filter, then passed on.
    Rewrite,
    /// Passed on, then stored.
    Fill(Box<Fill>),
    /// The reply to a probe sent by the cache, for the oldest fill that waits for one; not
    /// forwarded.
    Probe {
        /// Time at which it was asked.
        asked_at: Duration,
    },
    /// The reply to the set-up commands of a new connection; shown to the filter, not forwarded.
    Restore,
    /// The reply to our identity check of the connection; not forwarded.
    Check {
        /// Time at which it was asked.
        asked_at: Duration,
    },
    /// Kept aside: the connection is not logged in, so a refusal is expected. If the reply is not a
    /// refusal, the request may have changed anything.
    Refused {
        /// Replies cannot be matched to requests after it.
        streams: bool,
    },
    /// Completes an answer of which other parts were stored.
    Merge(Box<Merge>),
    /// Passed on; then what the write states is stored: a value for each of its scopes.
    State {
        values: Box<[Stated]>,
        /// A probe follows, whose reply decides.
        probed: bool,
    },
    /// The reply to a probe sent by the cache after a write; not forwarded. The write and its
    /// values move here if it was accepted.
    ProbeStated(Option<Box<[Stated]>>),
    /// Not forwarded if accepted; the client gets different replies from then on.
    Hush(Hush),
    /// The reply to a request that the cache sent after one that is not answered, or whose reply
    /// has no end of its own; not forwarded.
    Fence {
        /// The protocol has this request, so an origin that ends the connection may have executed
        /// it.
        known: bool,
    },
    /// The reply to a request that the cache sent after a write to find out whether the write was
    /// refused; not forwarded. The write moves here if its own reply is an error that a script may
    /// have chosen.
    Proof,
    /// Number of confirming messages still to come, or one reply, which is passed on.
    Confirmed(usize),
    /// After this the origin sends messages at any time.
    Stream,
    /// No reply: an answer of the cache that waits for earlier replies.
    Local(Vec<u8>),
}

/// A reply that may be stored under its lease.
#[derive(Debug)]
pub(crate) struct Fill {
    /// The lease; `None` once the reply was found unfit to be stored.
    pub(crate) lease: Option<Lease>,
    pub(crate) key: OwnedKey,
    pub(crate) variant: SmallVec<[u8; 16]>,
    /// The reply as it will be stored, while a probe is awaited.
    pub(crate) packed: Vec<u8>,
    /// A probe follows, whose reply decides.
    pub(crate) probed: bool,
    pub(crate) asked_at: Duration,
    /// Longest time for which it is served, from then on.
    pub(crate) ttl: Duration,
    /// Hash of what is stored: the reply is compared with it, and not stored.
    pub(crate) verifies: Option<u64>,
}

/// A reply that is inserted while it arrives.
#[derive(Debug)]
pub(crate) enum Splice {
    Elements {
        cut: Elements,
        /// Parts that were sent, or have begun to be.
        sent: usize,
    },
    /// The reply is no array of parts but an error, which answers the whole request.
    Whole,
}

/// An answer of several parts, in the requested order.
#[derive(Debug)]
pub(crate) struct Merge {
    pub(crate) parts: Vec<Part>,
    /// The stored parts, concatenated, ready to be sent.
    pub(crate) stored: Vec<u8>,
    /// The reply is long, and is sent as it arrives.
    pub(crate) splice: Option<Splice>,
}

impl Merge {
    /// Creates it with room for this number of parts, none of which is known yet.
    pub(crate) fn new(parts: usize) -> Self {
        Self { parts: Vec::with_capacity(parts), stored: Vec::new(), splice: None }
    }

    /// Whether some parts are stored. If none is, the reply is the answer and passes unchanged.
    pub(crate) fn is_partial(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Stored(_)))
    }
}

/// One part of a [`Merge`].
#[derive(Debug)]
pub(crate) enum Part {
    /// Its place in `stored`.
    Stored(Range<usize>),
    /// A part that arrives with the reply.
    Missing(Box<Fill>),
}

/// The value a write states.
#[derive(Debug)]
pub(crate) struct Stated {
    pub(crate) key: OwnedKey,
    pub(crate) variants: SmallVec<[SmallVec<[u8; 16]>; 1]>,
    pub(crate) answer: Vec<u8>,
    pub(crate) expires_at: Duration,
    /// The writer, if it may read the value though not everything.
    pub(crate) reader: Option<Principal>,
}

impl Stated {
    /// Whether `principal` may read the value: a right to write does not include the right to read.
    pub(crate) fn is_readable_by(&self, principal: &Principal) -> bool {
        principal.reads_everything() || self.reader.as_ref() == Some(principal)
    }

    /// Returns the value in the form of answers of the origin to `principal`, which may read it.
    pub(crate) fn given_to<'a>(
        &'a self,
        principal: &'a Principal,
        now: Duration,
    ) -> SmallVec<[Given<'a>; 1]> {
        let given = |variant: &'a SmallVec<[u8; 16]>| Given {
            key: self.key.borrow(),
            variant,
            principal,
            answer: &self.answer,
            asked_at: now,
            expires_at: Some(self.expires_at),
        };
        self.variants.iter().map(given).collect()
    }

    fn held_bytes(&self) -> usize {
        self.key.held_bytes() + self.answer.len()
    }
}

/// A key that outlives its request.
#[derive(Debug)]
pub(crate) struct OwnedKey {
    namespace: Namespace,
    bytes: SmallVec<[u8; 32]>,
    hash: u64,
}

impl OwnedKey {
    /// Bytes of memory besides its record.
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
    pub(crate) fn new(
        read: &Read<'_>,
        lease: Option<Lease>,
        probed: bool,
        asked_at: Duration,
        ttl: Duration,
    ) -> Self {
        let (key, variant) = (read.key.into(), SmallVec::from_slice(read.variant));
        Self { lease, key, variant, packed: Vec::new(), probed, asked_at, ttl, verifies: None }
    }

    /// Stores the packed reply for `receiver`, or returns the lease.
    pub(crate) fn store<S: Storage>(
        self,
        receiver: Option<&Principal>,
        expires_at: Option<Duration>,
        storage: &mut S,
        now: Duration,
    ) {
        let Some(lease) = self.lease else { return };
        let Some(principal) = receiver else {
            storage.stats().not_filled(NotFilled::Unproven);
            storage.release(lease);
            return;
        };
        let aged_at = self.asked_at.saturating_add(self.ttl);
        let given = Given {
            key: self.key.borrow(),
            variant: &self.variant,
            principal,
            answer: &self.packed,
            asked_at: self.asked_at,
            expires_at: Some(expires_at.map_or(aged_at, |at| at.min(aged_at))),
        };
        let filled = storage.fill(lease, given, now);
        trace!(key = %Shown(self.key.borrow().bytes), ?filled, "storage: reply offered");
        match filled {
            Ok(()) => storage.stats().fills.add(1),
            Err(reason) => storage.stats().not_filled(reason),
        }
    }
}

impl Action {
    /// Bytes kept until the reply has arrived.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Fill(fill) => fill.key.held_bytes(),
            Self::State { values, .. } | Self::ProbeStated(Some(values)) => {
                values.iter().map(Stated::held_bytes).sum()
            }
            Self::Merge(merge) => {
                let missing = merge.parts.iter().map(|part| match part {
                    Part::Stored(_) => 0,
                    Part::Missing(fill) => fill.key.held_bytes(),
                });
                missing.sum::<usize>() + merge.stored.len()
            }
            Self::Local(answer) => answer.len(),
            Self::Forward
            | Self::Foreseen(_)
            | Self::Observe
            | Self::Rewrite
            | Self::Probe { .. }
            | Self::Restore
            | Self::Check { .. }
            | Self::Refused { .. }
            | Self::ProbeStated(None)
            | Self::Hush(_)
            | Self::Fence { .. }
            | Self::Proof
            | Self::Confirmed(_)
            | Self::Stream => 0,
        }
    }
}

impl<T> Expected<T> {
    pub(crate) fn new(tag: T, action: Action) -> Self {
        Self {
            tag,
            action,
            writes: SmallVec::new(),
            name: "",
            ends: Ends::Nothing,
            partial: false,
            asked_at: None,
        }
    }

    /// The reply is lost: returns its leases to storage and its writes to the caller.
    pub(crate) fn abandon<S: Storage>(self, storage: &mut S) -> SmallVec<[Write; 1]> {
        match self.action {
            Action::Fill(fill) => fill.lease.into_iter().for_each(|lease| storage.release(lease)),
            Action::Merge(merge) => {
                for part in merge.parts {
                    if let Part::Missing(fill) = part {
                        fill.lease.into_iter().for_each(|lease| storage.release(lease));
                    }
                }
            }
            Action::ProbeStated(_) => {
                // Their own reply has arrived.
                let writes = self.writes.into_iter();
                writes.for_each(|write| storage.write_settled(write, Outcome::Applied));
                return SmallVec::new();
            }
            Action::Forward
            | Action::Foreseen(_)
            | Action::Observe
            | Action::Rewrite
            | Action::Probe { .. }
            | Action::Restore
            | Action::Check { .. }
            | Action::Refused { .. }
            | Action::State { .. }
            | Action::Hush(_)
            | Action::Fence { .. }
            | Action::Proof
            | Action::Confirmed(_)
            | Action::Stream
            | Action::Local(_) => {}
        }
        self.writes
    }
}
