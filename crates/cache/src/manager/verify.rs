//! A sample of the hits, asked at the origin too.
//!
//! A sampled read is forwarded instead of being answered from storage: the client receives the
//! reply of the origin, in its turn. The read takes a lease as a miss does. If, when the reply
//! arrives, no write has revoked the lease and the same answer is stored still, then the key was
//! neither written nor expired in between, as far as the cache knows: the reply must be the same.

use std::time::Duration;

use tracing::warn;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::client::Fillable;
use crate::{
    expected::Fill,
    filter::{Filter, Read},
    key::{Key, Scope, Shown},
    session::Session,
    storage::{Question, Storage},
};

impl<F: Filter> Session<F> {
    /// Whether the next hit is asked at the origin too. None is while the connection to the origin
    /// is down: hits continue then.
    #[inline]
    pub(super) fn is_sampled(&self) -> bool {
        let Some(verify) = &self.config.verify else { return false };
        !self.standing.is_detached() && verify.picks()
    }

    /// Forwards a read whose stored answer has this hash, to compare the two.
    pub(super) fn verify<S: Storage>(
        &mut self,
        (read, stored): (&Read<'_>, u64),
        tag: &F::Tag,
        original: &[u8],
        storage: &mut S,
        now: Duration,
    ) {
        let (probe, probe_tag, verifies) = (Vec::new(), None, Some(stored));
        let lease = storage.lease(read.key);
        let fillable = lease.map(|lease| Fillable { lease, probe, probe_tag, verifies });
        self.fetch(read, fillable, tag, original, now);
    }

    /// Compares the reply to a sampled read with what is stored for it.
    pub(super) fn verified<S: Storage>(
        &mut self,
        tag: &F::Tag,
        mut fill: Fill,
        reply: Option<&[u8]>,
        storage: &mut S,
        now: Duration,
    ) {
        let Some(lease) = fill.lease.take() else { return };
        let (key, filter) = (fill.key.borrow(), &self.filter);
        // An error is no statement about the value; what is larger than an entry was not kept.
        let admitted =
            reply.and_then(|reply| filter.admit(tag, key.bytes, reply, &mut fill.packed).ok());
        let Some(((), principal)) = admitted.zip(self.standing.principal(now)) else {
            return storage.release(lease);
        };
        let hash = |packed: &[u8]| hash(filter, key, &fill.variant, packed);
        let question = Question { key, variant: &fill.variant, principal: Some(principal) };
        let mut kept = None;
        let writes = storage.compare(lease, question, now, |packed| kept = Some(hash(packed)));
        let (Some(stored), origin) = (kept.filter(|_| kept == fill.verifies), hash(&fill.packed))
        else {
            return;
        };
        storage.stats().verified.add(1);
        if stored == origin {
            return;
        }
        storage.stats().differed.add(1);
        storage.written_elsewhere(Scope::Key(key));
        if self.config.verify.as_ref().is_some_and(|verify| verify.may_tell(now)) {
            warn!(
                connection = self.ticket.0,
                key = %Shown(key.bytes),
                stored = format_args!("{stored:016x}"),
                origin = format_args!("{origin:016x}"),
                writes,
                "verify: the stored answer differed from the reply of the origin, and was dropped; \
                 no write to the key has passed in between; if none bypasses the cache, report a bug"
            );
        }
    }
}

/// A hash of an answer, another one in each process.
pub(super) fn hash<F: Filter>(filter: &F, key: Key<'_>, variant: &[u8], packed: &[u8]) -> u64 {
    xxh3_64_with_seed(&filter.comparable(variant, packed), key.hash)
}
