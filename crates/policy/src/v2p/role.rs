//! Learning rules by role: Table 1, and the rules of one run.

use super::Quirks;

/// The category of a switch (§3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A ToR with gateways in its rack.
    GatewayTor,
    /// A spine in a pod with gateways.
    GatewaySpine,
    /// An ordinary ToR.
    Tor,
    /// An ordinary spine.
    Spine,
    /// A core.
    Core,
}

/// Which new entries displace old ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Every one.
    All,
    /// Only where the old entry's access bit is clear.
    BitClear,
}

/// The packets from which a switch learns mappings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learning {
    /// The destination of resolved packets.
    Destination,
    /// The source of packets, and learning packets.
    SourceAndLearningPackets,
    /// Promotions by spines.
    Promotions,
}

/// Additional functions of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Nothing.
    None,
    /// Sends learning packets to senders' ToRs.
    LearningPackets,
    /// Sends invalidation packets to switches with stale entries.
    InvalidationPackets,
    /// Hands mappings in use to the core.
    Promotions,
}

/// One row of Table 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Which switches.
    pub role: Role,
    /// "Admission policy".
    pub admission: Admission,
    /// "Learning from".
    pub learning: Learning,
    /// "Special functions".
    pub special: Special,
}

/// Table 1: the features of each switch type.
#[rustfmt::skip]
pub const TABLE_1: [Features; 5] = [
    Features { role: Role::GatewayTor,   admission: Admission::All,      learning: Learning::Destination,              special: Special::LearningPackets },
    Features { role: Role::GatewaySpine, admission: Admission::BitClear, learning: Learning::Destination,              special: Special::None },
    Features { role: Role::Tor,          admission: Admission::All,      learning: Learning::SourceAndLearningPackets, special: Special::InvalidationPackets },
    Features { role: Role::Spine,        admission: Admission::BitClear, learning: Learning::Destination,              special: Special::Promotions },
    Features { role: Role::Core,         admission: Admission::BitClear, learning: Learning::Promotions,               special: Special::None },
];

impl Role {
    /// This role's row of [`TABLE_1`].
    #[must_use]
    pub const fn features(self) -> Features {
        TABLE_1[self as usize]
    }
}

/// Enabled features, and the rules in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The probability of a learning packet (§3.2.2, `P_learn`); 0 sends none.
    pub learn_probability: f64,
    /// Evicted entries travel on with the packet (§3.2.2, cache spillover).
    pub spillover: bool,
    /// Spines promote to cores.
    pub promotion: bool,
    /// ToRs send invalidation packets (§3.3).
    pub invalidation: bool,
    /// The timestamp vector holds back repeated invalidation packets.
    pub timestamp_vector: bool,
    /// The base round-trip time that the vector compares with, in nanoseconds.
    pub base_rtt_ns: u64,
    /// The points where the authors' code is followed instead of the text.
    pub quirks: Quirks,
}

impl Rules {
    /// The scheme with all its features.
    #[must_use]
    pub const fn full(learn_probability: f64, base_rtt_ns: u64, quirks: Quirks) -> Self {
        Self {
            learn_probability,
            spillover: true,
            promotion: true,
            invalidation: true,
            timestamp_vector: true,
            base_rtt_ns,
            quirks,
        }
    }

    /// Whether a switch of this role answers a misdelivered packet's hit tag with an invalidation
    /// packet (§3.3).
    #[must_use]
    pub fn takes_hit_tag(&self, role: Role) -> bool {
        role == Role::Tor
            || (role == Role::GatewayTor && !self.quirks.gateway_tors_never_invalidate)
    }
}
