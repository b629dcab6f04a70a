//! Contents of storage under one key, for display. Inspecting changes nothing: it does not count as
//! a use of the entry, takes no lease and counts no read.

use std::time::Duration;

use super::{Generation, MemoryStorage, Question, Refusal, shards::Shards};
use crate::{key::Key, principal::Identity, variants};

/// What storage would do with a read of a key, and what it holds under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Why nothing is served or stored now.
    pub refusal: Option<Refusal>,
    /// A read is under way whose reply may be stored.
    pub filling: bool,
    /// The answers held, newest first.
    pub stored: Vec<Stored>,
    /// When they are dropped for their age or the expiry of the key, if any are held.
    pub leaves_at: Option<Duration>,
}

/// An answer held. It does not contain the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The principals that it may be served to.
    pub identity: Identity,
    /// Selects one of the key's answers, as in [`super::Question`].
    pub variant: Vec<u8>,
    /// When it is no longer served because its receiver's right is not proven any more.
    pub proven_until: Option<Duration>,
}

impl MemoryStorage {
    /// The answer that a read would be given now, without counting as a use.
    pub(super) fn peek(&self, question: Question<'_>, now: Duration) -> Option<&[u8]> {
        let Question { key, variant, principal } = question;
        let generation = Generation::new(self.leases.serves(key)?);
        let held = self.memory.peek(key.hash, generation.before(key), now)?;
        variants::answer_to(principal?, held.value, variant, now)
    }

    /// What is held under `key` now.
    #[must_use]
    pub fn inspect(&self, key: Key<'_>, now: Duration) -> Inspection {
        let cold = self.hot.as_ref().filter(|hot| !hot.would_be(key.hash));
        let cold = cold.map(|_| Refusal::NotHot);
        let closed = self.leases.closed(key).map(Refusal::Closed);
        let mut inspection = Inspection {
            refusal: (self.observer.as_ref().map(|_| Refusal::Observed))
                .or(self.closed.then_some(Refusal::Upgrading))
                .or(closed)
                .or(cold),
            filling: self.leases.is_filling(key),
            stored: Vec::new(),
            leaves_at: None,
        };
        let Some(generation) = self.leases.generation(key.namespace) else { return inspection };
        let generation = Generation::new(generation);
        if let Some(held) = self.memory.peek(key.hash, generation.before(key), now) {
            inspection.stored = variants::listed(held.value)
                .map(|(variant, answer)| {
                    let (identity, variant) = Identity::of(variant, key.namespace.origin);
                    let by_name = matches!(identity, Identity::Name(_));
                    let proven_until = by_name.then(|| variants::proves_until(answer)).flatten();
                    Stored { identity, variant: variant.to_vec(), proven_until }
                })
                .collect();
            inspection.leaves_at = held.expires_at;
        }
        inspection
    }
}

impl Shards {
    /// What is held under `key` now.
    pub fn inspect(&self, key: Key<'_>, now: Duration) -> Inspection {
        self.of(key.namespace.origin, key.hash).lock().inspect(key, now)
    }
}
