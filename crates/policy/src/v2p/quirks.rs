//! Differences between the paper's text and the authors' code, in the behaviour of a switch.

/// One named switch for each departure, `true` as in the code; section numbers are the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// Ordinary spines never serve a hit, they only hand the mapping to the core (§3.1 says every
    /// switch looks up).
    pub spines_only_promote: bool,
    /// Promotion does not ask whether the access bit was already set (§3.2.2 does).
    pub promote_without_access_bit: bool,
    /// Cores learn from ordinary packets while a line is empty (Table 1: promotions only).
    pub cores_fill_empty_lines: bool,
    /// ToRs fill an empty line from resolved packets that come from their own hosts (Table 1:
    /// source learning and learning packets only).
    pub tors_fill_empty_lines: bool,
    /// ToRs source-learn only from packets that came out of the fabric (§3.2.3: also the sender's).
    pub tors_learn_sources_from_fabric_only: bool,
    /// ToRs neither take spilled entries nor spill (§3.2.2: subsequent switches on the route try to
    /// insert).
    pub tors_ignore_spillover: bool,
    /// One tag carries both spilled and promoted entries; a switch that finds one learns it instead
    /// of the packet's destination, and cores take only the packet's own destination (§3.2.2 keeps
    /// promotion, spillover and destination learning apart).
    pub one_tag: bool,
    /// Gateway ToRs send a learning packet for any packet they see, with a mapping they may already
    /// have (§3.2.2: when they learn a new mapping).
    pub learning_packet_for_any: bool,
    /// The timestamp vector is one bit per switch, set for good (§3.3: a time, compared with the
    /// base RTT).
    pub one_shot_vector: bool,
    /// Gateway ToRs never send invalidation packets (§3.3: every ToR).
    pub gateway_tors_never_invalidate: bool,
}

impl Quirks {
    /// All of them as in the code (`true`), or as in the text.
    #[must_use]
    pub const fn all(quirk: bool) -> Self {
        Self {
            spines_only_promote: quirk,
            promote_without_access_bit: quirk,
            cores_fill_empty_lines: quirk,
            tors_fill_empty_lines: quirk,
            tors_learn_sources_from_fabric_only: quirk,
            tors_ignore_spillover: quirk,
            one_tag: quirk,
            learning_packet_for_any: quirk,
            one_shot_vector: quirk,
            gateway_tors_never_invalidate: quirk,
        }
    }
}
