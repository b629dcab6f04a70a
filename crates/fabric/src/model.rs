//! Where the paper's text and the authors' code differ: one named switch for each.

/// Whose rules a run follows. Each field is one deviation of the authors' published code from the
/// paper's text, `true` as in the code; section numbers are the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
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
    /// ToRs ignore spillover tags (§3.2.2: subsequent switches on the route try to insert).
    pub tors_ignore_spillover: bool,
    /// One tag carries both spilled and promoted entries; a switch that finds one learns it instead of
    /// the packet's destination, and cores take only the packet's own destination (§3.2.2 keeps
    /// promotion, spillover and destination learning apart).
    pub one_tag: bool,
    /// Gateway ToRs send a learning packet for any packet they see, with a mapping they may already
    /// have (§3.2.2: when they learn a new mapping).
    pub learning_packet_for_any: bool,
    /// The timestamp vector is one bit per switch, set for good (§3.3: a time, compared with the
    /// base RTT).
    pub one_shot_vector: bool,
    /// Gateway ToRs neither tag nor invalidate misdelivered packets (§3.3: every ToR).
    pub gateway_tors_never_invalidate: bool,
    /// ECMP hashes the outer addresses without a seed, so ToR and spine take the same turn.
    pub unseeded_ecmp: bool,
    /// OnDemand's 40 µs are paid once per server (§5: each miss).
    pub on_demand_pays_once: bool,
    /// OnDemand hosts learn only from packets they receive (§5: after the first miss).
    pub on_demand_learns_on_receive: bool,
    /// UDP datagrams carry 64 bytes whatever the trace says.
    pub fixed_datagrams: bool,
    /// Tunnels are UDP (8 bytes more); the paper says IP-in-IP.
    pub udp_tunnel: bool,
    /// TCP timestamps tick in milliseconds, so HyStart ends slow start in its second round.
    pub millisecond_timestamps: bool,
    /// Packets that reached the old server of a moved machine go straight to the new one unless a
    /// switch resolved them, in SwitchV2P too (§5.2: to the gateway).
    pub follow_me_in_switchv2p: bool,
    /// TCP takes 2,048 duplicate acknowledgments for a loss (§4: 300).
    pub patient_tcp: bool,
    /// Bluebird's lost packets are not counted as drops.
    pub uncounted_bluebird_drops: bool,
}

impl Model {
    /// The authors' published code (`--model published`).
    #[must_use]
    pub const fn published() -> Self {
        Self::all(true)
    }

    /// The paper's text (`--model paper`).
    #[must_use]
    pub const fn paper() -> Self {
        Self::all(false)
    }

    const fn all(quirk: bool) -> Self {
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
            unseeded_ecmp: quirk,
            on_demand_pays_once: quirk,
            on_demand_learns_on_receive: quirk,
            fixed_datagrams: quirk,
            udp_tunnel: quirk,
            millisecond_timestamps: quirk,
            follow_me_in_switchv2p: quirk,
            patient_tcp: quirk,
            uncounted_bluebird_drops: quirk,
        }
    }

    /// The quirk of this name, to set or clear; `None` if there is none.
    pub fn quirk_mut(&mut self, name: &str) -> Option<&mut bool> {
        self.quirks_mut().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The names of all quirks, in the order they are documented.
    #[must_use]
    pub fn quirk_names() -> Vec<&'static str> {
        Self::paper().quirks_mut().into_iter().map(|(name, _)| name).collect()
    }

    fn quirks_mut(&mut self) -> Vec<(&'static str, &mut bool)> {
        vec![
            ("spines-only-promote", &mut self.spines_only_promote),
            ("promote-without-access-bit", &mut self.promote_without_access_bit),
            ("cores-fill-empty-lines", &mut self.cores_fill_empty_lines),
            ("tors-fill-empty-lines", &mut self.tors_fill_empty_lines),
            ("tors-learn-sources-from-fabric-only", &mut self.tors_learn_sources_from_fabric_only),
            ("tors-ignore-spillover", &mut self.tors_ignore_spillover),
            ("one-tag", &mut self.one_tag),
            ("learning-packet-for-any", &mut self.learning_packet_for_any),
            ("one-shot-vector", &mut self.one_shot_vector),
            ("gateway-tors-never-invalidate", &mut self.gateway_tors_never_invalidate),
            ("unseeded-ecmp", &mut self.unseeded_ecmp),
            ("on-demand-pays-once", &mut self.on_demand_pays_once),
            ("on-demand-learns-on-receive", &mut self.on_demand_learns_on_receive),
            ("fixed-datagrams", &mut self.fixed_datagrams),
            ("udp-tunnel", &mut self.udp_tunnel),
            ("millisecond-timestamps", &mut self.millisecond_timestamps),
            ("follow-me-in-switchv2p", &mut self.follow_me_in_switchv2p),
            ("patient-tcp", &mut self.patient_tcp),
            ("uncounted-bluebird-drops", &mut self.uncounted_bluebird_drops),
        ]
    }
}
