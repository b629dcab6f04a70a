//! The protocol-specific part of the simulation: the client's side and the origin's.

use std::{fmt::Debug, sync::Arc, time::Duration};

use cache::{
    filter::Filter,
    rules::{LiveRules, Rules},
};

use crate::{
    origin::{KeyNumber, Origin, Value},
    random::Random,
};

/// The caching rules of every simulated listener.
pub(crate) fn rules() -> Arc<LiveRules> {
    let ttl = Duration::from_secs(20);
    Arc::new(Rules { ttl, ..Rules::default() }.into())
}

/// The part of a client's request that the oracle needs.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    /// A read of these keys, in a `form` of the protocol's own.
    Read { keys: Vec<KeyNumber>, form: usize },
    /// Any other request that has one reply.
    Other,
}

/// The inputs from which a client makes a request.
pub(crate) struct Asking<'w> {
    pub(crate) random: &'w mut Random,
    /// Requests without a reply are executed by the origin before this time, or never.
    pub(crate) until: Duration,
    /// One in this many writes to more than a key is made.
    pub(crate) calm: usize,
    /// One in this many of the other writes is made.
    pub(crate) idle: usize,
    pub(crate) values: &'w mut u32,
}

impl Asking<'_> {
    /// A value that was never written before.
    pub(crate) fn value(&mut self) -> u32 {
        *self.values += 1;
        *self.values
    }

    /// Chooses among `reads` reads, `narrow` writes to a key, and `wide` writes to more than a key.
    pub(crate) fn choose(&mut self, reads: usize, narrow: usize, wide: usize) -> usize {
        let choice = self.random.below(reads + narrow + wide);
        if choice >= reads + narrow && !self.random.one_in(self.calm)
            || choice >= reads && !self.random.one_in(self.idle)
        {
            return self.random.below(reads);
        }
        choice
    }
}

/// A protocol: the client's side and the origin's.
pub(crate) trait Protocol: Sized {
    type Filter: Filter;
    /// One client's side of a connection.
    type Client: Default + Debug;
    /// The origin's side.
    type Server: Default + Debug;

    fn filter(random: &mut Random) -> Self::Filter;
    /// Writes one or more requests to `out`; returns those that will be answered.
    fn ask(client: &mut Self::Client, asking: &mut Asking<'_>, out: &mut Vec<u8>) -> Vec<Ask>;
    /// Whether the client got a reply after which it stops.
    fn gives_up(_: &Self::Client) -> bool {
        false
    }
    /// Moves one whole reply from `bytes` to `reply`; false if there is none.
    fn reply(client: &mut Self::Client, bytes: &mut Vec<u8>, reply: &mut Vec<u8>) -> bool;
    /// Returns whether `reply` is the answer to a read of keys that hold one of `values` each; None
    /// if it is an error.
    fn is_answer(
        client: &Self::Client,
        form: usize,
        keys: &[KeyNumber],
        values: &[Vec<Value>],
        reply: &[u8],
    ) -> Option<bool>;
    /// Executes the next whole request in `bytes`; false if there is none. The reply, if any, is
    /// appended to `out`.
    fn serve(
        server: &mut Self::Server,
        bytes: &mut Vec<u8>,
        origin: &mut Origin,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> bool;
}
