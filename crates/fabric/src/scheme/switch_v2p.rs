//! SwitchV2P: every switch caches, by `policy::v2p`.

use std::sync::Arc;

use policy::v2p::{Emit, Role, Rules, Switch};

use super::{
    Variant,
    resolver::{Passing, Resolver, Step},
};
use crate::{
    Model,
    network::Shape,
    random::{Stream, Streams},
};

/// The base round trip of both of the paper's topologies (§5).
const BASE_RTT_NS: u64 = 12_000;

#[derive(Debug)]
pub(crate) struct SwitchV2P {
    switches: Vec<Switch>,
    /// Random numbers of each switch.
    draws: Vec<Stream>,
}

impl SwitchV2P {
    pub(crate) fn new(shape: &Shape, entries: &[u32], rules: Rules, seed: u64) -> Self {
        let rules = Arc::new(rules);
        let switch = |(id, entries): (u32, &u32)| {
            let rules = Arc::clone(&rules);
            Switch::new(id as u16, shape.role(id), *entries, shape.pod_hosts(id), rules)
        };
        let streams = Streams::new(shape, seed);
        let draws = (0..shape.switches).map(|id| streams.draws(id)).collect();
        Self { switches: (0..).zip(entries).map(switch).collect(), draws }
    }
}

/// The rules of a model and variant.
pub(crate) fn rules(model: &Model, variant: Variant, learn_probability: f64) -> Rules {
    Rules {
        learn_probability: if variant.no_learning_packets { 0.0 } else { learn_probability },
        spillover: !variant.no_spillover,
        promotion: !variant.no_promotion && !variant.tor_only,
        invalidation: !variant.no_invalidations,
        timestamp_vector: !variant.no_timestamp_vector,
        base_rtt_ns: BASE_RTT_NS,
        quirks: model.switch,
    }
}

/// Whether a switch of this role has memory.
pub(crate) fn caches(variant: Variant, role: Role) -> bool {
    !variant.tor_only || matches!(role, Role::Tor | Role::GatewayTor)
}

impl Resolver for SwitchV2P {
    fn reads_tunnel(&self, _switch: u32) -> bool {
        true
    }

    fn pass(&mut self, passing: Passing<'_>) -> Step {
        let draws = &mut self.draws[passing.switch as usize];
        let switch = &mut self.switches[passing.switch as usize];
        let outcome = switch.process(passing.header, || draws.unit(), passing.now_ns);
        Step { hit: outcome.hit, emit: outcome.emit, ..Step::default() }
    }

    fn control(&mut self, switch: u32, emit: Emit, arrived: bool) {
        let switch = &mut self.switches[switch as usize];
        match emit {
            Emit::Learning(mapping) if arrived => switch.learn_from_packet(mapping),
            Emit::Learning(_) => {}
            Emit::Invalidation(stale, _) => switch.invalidate(stale),
        }
    }
}
