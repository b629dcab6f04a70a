//! LocalLearning: every switch for itself, each with its own index function (§3.1).

use policy::v2p::{Cache, reseed};

use super::{
    greedy::learn_or_resolve,
    resolver::{Passing, Resolver, Step},
};
use crate::{network::Shape, random::Streams};

#[derive(Debug)]
pub(crate) struct LocalLearning {
    switches: Vec<(Cache, u32)>,
}

impl LocalLearning {
    pub(crate) fn new(shape: &Shape, entries: &[u32], seed: u64) -> Self {
        let streams = Streams::new(shape, seed);
        let switch =
            |(id, entries): (u32, &u32)| (Cache::new(*entries), reseed(streams.index_seed(id)));
        Self { switches: (0..).zip(entries).map(switch).collect() }
    }
}

impl Resolver for LocalLearning {
    fn reads_tunnel(&self, _switch: u32) -> bool {
        true
    }

    fn pass(&mut self, passing: Passing<'_>) -> Step {
        let (cache, reseed) = &mut self.switches[passing.switch as usize];
        Step { hit: learn_or_resolve(cache, passing.header, *reseed), ..Step::default() }
    }
}
