//! GwCache: only the ToRs of gateways cache, all the memory is theirs (§5, Sailfish).

use policy::v2p::Cache;

use super::{
    greedy::learn_or_resolve,
    resolver::{Passing, Resolver, Step},
};

#[derive(Debug)]
pub(crate) struct GwCache {
    /// Cache of each switch; switches without gateways have none.
    switches: Vec<Option<Cache>>,
}

impl GwCache {
    /// `gateway_tors` says which switches cache.
    pub(crate) fn new(entries: &[u32], gateway_tors: impl Iterator<Item = bool>) -> Self {
        let cache = |(entries, caches): (&u32, bool)| caches.then(|| Cache::new(*entries));
        Self { switches: entries.iter().zip(gateway_tors).map(cache).collect() }
    }
}

impl Resolver for GwCache {
    fn reads_tunnel(&self, switch: u32) -> bool {
        self.switches[switch as usize].is_some()
    }

    fn pass(&mut self, passing: Passing<'_>) -> Step {
        let Some(cache) = &mut self.switches[passing.switch as usize] else {
            return Step::default();
        };
        Step { hit: learn_or_resolve(cache, passing.header, 0), ..Step::default() }
    }
}
