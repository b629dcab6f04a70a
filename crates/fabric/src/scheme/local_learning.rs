//! LocalLearning: every switch for itself, each with its own index function (§3.1).

use policy::v2p::{Cache, reseed};

use super::{
    greedy::learn_or_resolve,
    resolver::{Passing, Resolver, Step},
};
use crate::random::Random;

#[derive(Debug)]
pub(crate) struct LocalLearning {
    switches: Vec<(Cache, u32)>,
}

impl LocalLearning {
    pub(crate) fn new(entries: &[u32], random: &mut Random) -> Self {
        let switch = |entries: &u32| (Cache::new(*entries), reseed(random.next() as u32));
        Self { switches: entries.iter().map(switch).collect() }
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
