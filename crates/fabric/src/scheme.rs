//! The schemes that resolve virtual addresses: one file each.

pub(crate) mod bluebird;
pub(crate) mod controller;
pub(crate) mod direct;
mod greedy;
pub(crate) mod gw_cache;
pub(crate) mod local_learning;
pub(crate) mod no_cache;
pub(crate) mod on_demand;
pub(crate) mod resolver;
pub(crate) mod switch_v2p;

use std::{fmt, str::FromStr};

use crate::Error;

/// A way of resolving virtual addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// All packets go through the gateways.
    NoCache,
    /// Every switch learns destinations greedily (§3.1).
    LocalLearning,
    /// Only gateway ToRs cache (Sailfish).
    GwCache,
    /// ToRs cache, their control plane resolves misses.
    Bluebird,
    /// Hosts cache after a first trip through the gateway.
    OnDemand,
    /// Hosts know all mappings.
    Direct,
    /// Caches are filled from outside: [`crate::Simulation::place`] (Appendix A).
    Controller,
    /// SwitchV2P, with any of its parts left out.
    SwitchV2P(Variant),
}

/// Parts of SwitchV2P left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Variant {
    /// No invalidation packets.
    pub no_invalidations: bool,
    /// Invalidation packets without suppression of repeated ones.
    pub no_timestamp_vector: bool,
    /// Evicted entries are lost.
    pub no_spillover: bool,
    /// Spines promote nothing.
    pub no_promotion: bool,
    /// Gateway ToRs send no learning packets.
    pub no_learning_packets: bool,
    /// Only ToRs cache, with all the memory.
    pub tor_only: bool,
}

/// The contents of a switch's cache, as set by a controller ([`Scheme::Controller`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The switch: cores, then spines, then ToRs.
    pub switch: u32,
    /// The virtual machines whose present mapping it caches.
    pub vms: Vec<u32>,
}

const FULL: Variant = Variant {
    no_invalidations: false,
    no_timestamp_vector: false,
    no_spillover: false,
    no_promotion: false,
    no_learning_packets: false,
    tor_only: false,
};

const NAMES: &[(&str, Scheme)] = &[
    ("nocache", Scheme::NoCache),
    ("locallearning", Scheme::LocalLearning),
    ("gwcache", Scheme::GwCache),
    ("bluebird", Scheme::Bluebird),
    ("ondemand", Scheme::OnDemand),
    ("direct", Scheme::Direct),
    ("controller", Scheme::Controller),
    ("switchv2p", Scheme::SwitchV2P(FULL)),
    ("switchv2p-no-invalidations", Scheme::SwitchV2P(Variant { no_invalidations: true, ..FULL })),
    (
        "switchv2p-no-timestamp-vector",
        Scheme::SwitchV2P(Variant { no_timestamp_vector: true, ..FULL }),
    ),
    ("switchv2p-no-spillover", Scheme::SwitchV2P(Variant { no_spillover: true, ..FULL })),
    ("switchv2p-no-promotion", Scheme::SwitchV2P(Variant { no_promotion: true, ..FULL })),
    (
        "switchv2p-no-learning-packets",
        Scheme::SwitchV2P(Variant { no_learning_packets: true, ..FULL }),
    ),
    ("switchv2p-tor-only", Scheme::SwitchV2P(Variant { tor_only: true, ..FULL })),
];

impl Scheme {
    /// All schemes that have a name.
    pub fn all() -> impl Iterator<Item = Scheme> {
        NAMES.iter().map(|(_, scheme)| *scheme)
    }
}

impl FromStr for Scheme {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, scheme)| *scheme);
        found.ok_or_else(|| Error::Scheme {
            name: name.to_owned(),
            known: NAMES.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", "),
        })
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, scheme)| scheme == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or("switchv2p-custom"))
    }
}
