//! Differences between the paper's text and the authors' code: one named switch for each.

use policy::v2p::Quirks;

/// Rules of a run. Each field is one deviation of the authors' published code from the paper's
/// text, `true` as in the code; section numbers are the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// Quirks of the switches.
    pub switch: Quirks,
    /// ECMP hashes the outer addresses without a seed, so ToR and spine take the same turn.
    pub unseeded_ecmp: bool,
    /// OnDemand's 40 µs are paid once per server (§5: each miss).
    pub on_demand_pays_once: bool,
    /// OnDemand hosts learn only from packets they receive (§5: after the first miss).
    pub on_demand_learns_on_receive: bool,
    /// UDP datagrams carry 64 bytes, regardless of the trace.
    pub fixed_datagrams: bool,
    /// Tunnels are UDP (8 bytes more); the paper says IP-in-IP.
    pub udp_tunnel: bool,
    /// TCP timestamps tick in milliseconds, so HyStart ends slow start in its second round.
    pub millisecond_timestamps: bool,
    /// Packets that reached the old server of a moved machine go straight to the new one unless a
    /// switch resolved them, in SwitchV2P too (§5.2: to the gateway).
    pub follow_me_in_switchv2p: bool,
    /// TCP assumes a loss after 2,048 duplicate acknowledgments (§4: 300).
    pub patient_tcp: bool,
    /// Bluebird's lost packets are not counted as drops.
    pub uncounted_bluebird_drops: bool,
    /// Events of one nanosecond happen in the order in which they were set anywhere in the fabric,
    /// so that one thread has to simulate all of it.
    pub one_event_queue: bool,
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
            switch: Quirks::all(quirk),
            unseeded_ecmp: quirk,
            on_demand_pays_once: quirk,
            on_demand_learns_on_receive: quirk,
            fixed_datagrams: quirk,
            udp_tunnel: quirk,
            millisecond_timestamps: quirk,
            follow_me_in_switchv2p: quirk,
            patient_tcp: quirk,
            uncounted_bluebird_drops: quirk,
            one_event_queue: quirk,
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
            ("spines-only-promote", &mut self.switch.spines_only_promote),
            ("promote-without-access-bit", &mut self.switch.promote_without_access_bit),
            ("cores-fill-empty-lines", &mut self.switch.cores_fill_empty_lines),
            ("tors-fill-empty-lines", &mut self.switch.tors_fill_empty_lines),
            (
                "tors-learn-sources-from-fabric-only",
                &mut self.switch.tors_learn_sources_from_fabric_only,
            ),
            ("tors-ignore-spillover", &mut self.switch.tors_ignore_spillover),
            ("one-tag", &mut self.switch.one_tag),
            ("learning-packet-for-any", &mut self.switch.learning_packet_for_any),
            ("one-shot-vector", &mut self.switch.one_shot_vector),
            ("gateway-tors-never-invalidate", &mut self.switch.gateway_tors_never_invalidate),
            ("unseeded-ecmp", &mut self.unseeded_ecmp),
            ("on-demand-pays-once", &mut self.on_demand_pays_once),
            ("on-demand-learns-on-receive", &mut self.on_demand_learns_on_receive),
            ("fixed-datagrams", &mut self.fixed_datagrams),
            ("udp-tunnel", &mut self.udp_tunnel),
            ("millisecond-timestamps", &mut self.millisecond_timestamps),
            ("follow-me-in-switchv2p", &mut self.follow_me_in_switchv2p),
            ("patient-tcp", &mut self.patient_tcp),
            ("uncounted-bluebird-drops", &mut self.uncounted_bluebird_drops),
            ("one-event-queue", &mut self.one_event_queue),
        ]
    }
}
