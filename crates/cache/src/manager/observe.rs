//! Reads that are only observed: forwarded, whatever storage would answer.

use std::time::Duration;

use tracing::debug;

use crate::{
    expected::Action,
    filter::{Filter, Read},
    key::Shown,
    session::Session,
    stats::WhyNot,
    storage::{
        Grant, Question, Storage,
        observe::{Foreseen, Hit, Observed, Seen},
    },
};

/// Notes the time that the origin took for a read that would have been a hit.
pub(super) fn took<S: Storage>(storage: &S, hit: Hit, asked_at: Option<Duration>, now: Duration) {
    if let Some((observer, asked_at)) = storage.observer().zip(asked_at) {
        observer.took(hit, now.saturating_sub(asked_at));
    }
}

impl<F: Filter> Session<F> {
    /// Forwards a read of one key, and counts what caching would have answered.
    #[cold]
    pub(super) fn observe<S: Storage>(
        &mut self,
        read: &Read<'_>,
        tag: &F::Tag,
        original: &[u8],
        may_wait: bool,
        storage: &mut S,
        now: Duration,
    ) {
        storage.stats().why_not(WhyNot::Observed);
        let from = (original, &mut None);
        let Foreseen { grant, hit } = self.foresee(read, from, may_wait, storage, now);
        let (connection, command) = (self.ticket.0, self.command);
        let would_be_hit = hit.is_some();
        debug!(connection, command, key = %Shown(read.key.bytes), would_be_hit, "observed");
        let Some(hit) = hit.filter(|_| grant.is_none()) else {
            let fillable = self.prepare(read, grant, storage);
            return self.fetch(read, fillable, tag, original, now);
        };
        self.forward(original);
        let end = self.filter.delimit(tag, self.to_server.buffer());
        self.expect_read(tag.clone(), Action::Foreseen(hit), now);
        self.expect_end(end);
    }

    /// The grant of storage, or the one that is foreseen if reads are only observed.
    pub(super) fn granted<S: Storage>(
        &mut self,
        read: &Read<'_>,
        grant: Option<Grant>,
        from: (&[u8], &mut Option<&'static str>),
        storage: &mut S,
        now: Duration,
    ) -> Option<Grant> {
        match storage.observer() {
            Some(_) => self.foresee(read, from, false, storage, now).grant,
            None => grant,
        }
    }

    /// The command of a request that was read before.
    fn command_of(&mut self, original: &[u8]) -> &'static str {
        let message = self.filter.message(original).ok().flatten();
        message.map_or("", |(message, _)| self.filter.command(&message))
    }

    /// Counts a read by what caching would have answered. With a grant, its reply is to be offered
    /// to storage. The command is found in the request unless it is known.
    fn foresee<S: Storage>(
        &mut self,
        read: &Read<'_>,
        (original, command): (&[u8], &mut Option<&'static str>),
        may_wait: bool,
        storage: &mut S,
        now: Duration,
    ) -> Foreseen {
        let Some(observer) = storage.observer() else { return Foreseen::default() };
        let seen = observer.sees(read.key.hash);
        if seen == Seen::Not {
            return Foreseen::default();
        }
        let command = *command.get_or_insert_with(|| self.command_of(original));
        let principal = self.standing.principal(now);
        let observed = Observed {
            question: Question { key: read.key, variant: read.variant, principal },
            command,
            place: read.place,
            ttl: self.ttl_of(read),
            may_wait,
            may_fill: principal.is_some() || self.standing.is_asked(),
            seen,
        };
        storage.observe(&observed, now)
    }
}
