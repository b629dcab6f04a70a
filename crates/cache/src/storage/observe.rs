//! Observing: what caching would answer, while every read is forwarded and nothing is stored.
//!
//! For a sample of the keys ([`sample`]) an [`Observer`] keeps what storage would hold of them:
//! lengths, hashes of the question and its principal, expiries; never a value. Miniature caches of
//! several sizes ([`ladder`]) hold that as storage would: filled under the same leases, dropped by
//! the same writes. Reads are counted by command and by prefix of the key ([`groups`]).
//!
//! The reply to a read of the sample is looked at only if the largest of these caches would ask for
//! it. Only then a probe is sent, so observing asks the origin for less than caching would.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use telemetry::Spread;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Config, Given, Grant, Question};
use crate::{principal::Principal, stats::NotFilled};

mod forecast;
mod groups;
mod ladder;
mod sample;

pub use forecast::{Forecast, Group, Size};
use groups::Groups;
pub use groups::Hit;
pub(crate) use ladder::Wants;
use ladder::{Answer, Ladder};
use sample::Sample;
pub(crate) use sample::Seen;

/// Shortest time between two sweeps for what has expired.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Foresees what storage with some limits would answer. Shared by all shards.
#[derive(Debug)]
pub struct Observer {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    sample: Sample,
    ladder: Ladder,
    groups: Groups,
    swept_at: Duration,
}

/// A read of the sample.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The read; without a principal it is no hit.
    pub question: Question<'a>,
    /// Its command, for the forecast.
    pub command: &'static str,
    /// Database and collection by name, if the protocol has them.
    pub place: (&'a str, &'a str),
    /// Longest time for which its reply would be served.
    pub ttl: Duration,
    /// Its client would wait for the fill of another.
    pub may_wait: bool,
    /// Its reply could be stored.
    pub may_fill: bool,
    /// How it counts.
    pub(crate) seen: Seen,
}

/// What caching would do with a read.
#[derive(Debug, Default)]
pub struct Foreseen {
    /// The reply is to be offered to storage under this lease.
    pub grant: Option<Grant>,
    /// The read would be a hit.
    pub hit: Option<Hit>,
}

/// What an observed read finds, and what has to follow.
pub(crate) struct Found {
    pub(crate) hit: Option<Hit>,
    pub(crate) wants: Wants,
}

impl Observer {
    /// The observer that `config` asks for.
    pub(crate) fn of(config: &Config) -> Option<Arc<Self>> {
        config.observe.then(|| {
            let state = State {
                sample: Sample::new(),
                ladder: Ladder::new(&config.memory),
                groups: Groups::default(),
                swept_at: Duration::ZERO,
            };
            Arc::new(Self { state: Mutex::new(state) })
        })
    }

    /// Counts a read of the key with this hash; says whether it belongs to the sample.
    pub(crate) fn sees(&self, hash: u64) -> Seen {
        let state = &mut *self.state.lock();
        let (seen, promoted) = state.sample.see(hash);
        if promoted {
            state.ladder.restate(hash, false);
        }
        for hash in state.sample.take_demoted() {
            match state.sample.followed(hash) {
                Some(key) => state.ladder.restate(hash, key.is_sampled),
                None => state.ladder.remove(hash),
            }
        }
        seen
    }

    /// Counts what each size of storage would answer. `generation` is that of the namespace, unless
    /// a write is under way; `fills`: a read whose reply answers this one too is under way.
    pub(crate) fn read(
        &self,
        observed: &Observed<'_>,
        generation: Option<u64>,
        fills: bool,
        now: Duration,
    ) -> Found {
        let state = &mut *self.state.lock();
        let Question { key, variant, principal } = observed.question;
        let variant = principal.map(|principal| hash_of(principal, variant));
        let question = generation.zip(variant);
        let counts = state.sample.counts(observed.seen);
        let (bytes, wants) = state.ladder.read(key.hash, question, fills, counts, now);
        let hit = counts.and_then(|counts| {
            state.groups.count((observed.command, observed.place, key.bytes), counts, bytes)
        });
        Found { hit, wants }
    }

    /// A reply that the largest cache of the sample holds is held by the smaller ones too, as if
    /// they had asked the origin for it.
    pub(crate) fn refill(&self, observed: &Observed<'_>, now: Duration) {
        let state = &mut *self.state.lock();
        let Question { key, variant, principal } = observed.question;
        let Some((key, principal)) = state.sample.followed(key.hash).zip(principal) else { return };
        let until = principal.lives().map_or(Duration::MAX, |lives| now.saturating_add(lives));
        state.ladder.refill(key, hash_of(principal, variant), until, observed.ttl, now);
    }

    /// Notes that storage would store what the origin gave.
    ///
    /// # Errors
    /// Always, because nothing is stored.
    pub(crate) fn fill(
        &self,
        generation: u64,
        given: Given<'_>,
        now: Duration,
    ) -> Result<(), NotFilled> {
        let state = &mut *self.state.lock();
        let Given { key, variant, principal, answer, asked_at, expires_at } = given;
        let expires_at = expires_at.unwrap_or(Duration::MAX);
        let record_bytes = principal.mark().len() + variant.len() + answer.len();
        if record_bytes > state.ladder.value_bytes_max() {
            return Err(NotFilled::TooLarge);
        }
        if expires_at <= now {
            return Err(NotFilled::Expiry);
        }
        if let Some(followed) = state.sample.followed(key.hash) {
            let answer = Answer {
                variant: hash_of(principal, variant),
                record_bytes,
                answer_bytes: answer.len(),
                until: principal.lives().map_or(Duration::MAX, |at| asked_at.saturating_add(at)),
            };
            let key_bytes = key.bytes.len();
            state.ladder.fill(followed, key_bytes, generation, answer, (asked_at, expires_at), now);
            while state.sample.is_too_large(state.ladder.sampled()) {
                state.sample.choose_fewer();
                state.ladder.follow(&state.sample);
            }
        }
        Err(NotFilled::Observed)
    }

    /// Drops a key that was written.
    pub(crate) fn remove(&self, hash: u64) {
        self.state.lock().ladder.remove(hash);
    }

    /// Drops every key; the counts stay.
    pub(crate) fn clear(&self) {
        self.state.lock().ladder.clear();
    }

    /// Drops what has expired.
    pub(crate) fn advance(&self, now: Duration) {
        let state = &mut *self.state.lock();
        if now.saturating_sub(state.swept_at) >= SWEEP_INTERVAL {
            state.swept_at = now;
            state.ladder.expire(now);
        }
    }

    /// Notes the time that the origin took for a read that would have been a hit.
    pub(crate) fn took(&self, hit: Hit, latency: Duration) {
        self.state.lock().groups.took(hit, latency);
    }

    /// What was foreseen until now; `reads`: number of reads by key and otherwise.
    #[must_use]
    pub fn forecast(&self, reads: u64) -> Forecast {
        let state = self.state.lock();
        let share = state.sample.of_others();
        let mut latency = Spread::default();
        state.groups.latency().add_to(&mut latency);
        Forecast {
            reads,
            reads_by_key: state.sample.reads(),
            keys_sampled: state.ladder.keys(),
            sizes: state.ladder.sizes(share, reads),
            groups: state.groups.all(share),
            bytes: state.groups.bytes(share),
            latency,
        }
    }
}

/// Names a question and the principal that asks it.
fn hash_of(principal: &Principal, variant: &[u8]) -> u64 {
    xxh3_64_with_seed(variant, xxh3_64_with_seed(principal.mark(), 0))
}
