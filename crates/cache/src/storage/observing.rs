//! What storage would do with a read that is only observed.

use std::time::Duration;

use super::{
    Grant, MemoryStorage,
    observe::{Foreseen, Observed, Wants},
};

impl MemoryStorage {
    /// As a read would be answered, with the leases and writes of now.
    pub(super) fn foresee(&mut self, observed: &Observed<'_>, now: Duration) -> Foreseen {
        let Some(observer) = &self.observer else { return Foreseen::default() };
        let key = observed.question.key;
        let generation = self.leases.serves(key);
        let fills = observed.may_wait && self.leases.is_worth_a_wait(key);
        let found = observer.read(observed, generation, fills, now);
        let mut foreseen = Foreseen { grant: None, hit: found.hit };
        let rises = match &mut self.hot {
            Some(hot) if found.hit.is_none() => hot.count(key.hash),
            _ => true,
        };
        if !rises || !observed.may_fill {
            return foreseen;
        }
        match found.wants {
            Wants::Nothing => {}
            Wants::Refill => observer.refill(observed, now),
            Wants::Fill => {
                let character = self.leases.character(key.namespace);
                let lease = self.leases.take(key, None);
                foreseen.grant = lease.ok().map(|lease| Grant { lease, character });
            }
        }
        foreseen
    }
}
