//! Rules of a role, as the bits that the program is loaded with.

use policy::v2p::{Admission, Learning, Quirks, Role, Rules, Special};

use super::bits::RULES;

/// The bits of a switch of this role under these rules.
#[must_use]
pub fn bits(role: Role, rules: &Rules) -> u32 {
    let features = role.features();
    let Rules { learn_probability, spillover, promotion, invalidation, .. } = *rules;
    let Quirks {
        spines_only_promote,
        promote_without_access_bit,
        cores_fill_empty_lines,
        tors_fill_empty_lines,
        tors_learn_sources_from_fabric_only,
        tors_ignore_spillover,
        one_tag,
        learning_packet_for_any,
        one_shot_vector,
        gateway_tors_never_invalidate: _, // in `takes_hit_tag`
    } = rules.quirks;
    let is = [
        matches!(role, Role::Tor | Role::GatewayTor),
        features.admission == Admission::All,
        features.learning == Learning::SourceAndLearningPackets,
        features.learning == Learning::Promotions,
        features.special == Special::LearningPackets && learn_probability > 0.0,
        rules.takes_hit_tag(role),
        spillover,
        features.special == Special::Promotions && promotion,
        invalidation,
        rules.timestamp_vector,
        spines_only_promote,
        promote_without_access_bit,
        cores_fill_empty_lines,
        tors_fill_empty_lines,
        tors_learn_sources_from_fabric_only,
        tors_ignore_spillover,
        one_tag,
        learning_packet_for_any,
        one_shot_vector,
    ];
    const { assert!(RULES.len() == 19, "one for each of `is`") };
    is.iter().enumerate().fold(0, |bits, (bit, is)| bits | u32::from(*is) << bit)
}

/// The largest of 2^32 equally likely numbers that stands for a draw of at most `probability`.
#[must_use]
pub fn learn_max(probability: f64) -> u32 {
    (probability * 4_294_967_296.0 - 1.0).clamp(0.0, f64::from(u32::MAX)) as u32
}
