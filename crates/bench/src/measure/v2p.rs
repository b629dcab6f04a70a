//! A SwitchV2P switch in the kernel: what a packet costs beside the smallest forwarder that
//! encapsulates, and beside one that only forwards. Route and next hop are part of all.

use super::switch::{measured, of};
use crate::{
    figure::{Figure, Goal},
    run::Run,
};

/// Nanoseconds a packet, by `BPF_PROG_TEST_RUN`.
pub(super) fn packets(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let ns = measured(run, "v2p")?;
    let floor = "smallest encapsulating forwarder";
    let against = |figure: &str, ours: &str, peer: &str, most: f64| -> anyhow::Result<Figure> {
        let both = (of(&ns, ours)?, of(&ns, peer)?);
        let note = "medians, what measuring costs taken off both".to_owned();
        Ok(Figure::compared(figure, both, "ns", peer, Goal::RatioMax(most)).note(note))
    };
    let note = format!("forwarding alone takes {:.0}", of(&ns, "forwarding only")?);
    Ok(vec![
        against("v2p-hit-core-ns-over-floor", "hit at a core", floor, 1.3)?,
        against("v2p-hit-gateway-spine-ns-over-floor", "hit at a gateway spine", floor, 1.3)?,
        against("v2p-hit-spine-ns-over-floor", "hit at a spine", floor, 1.3)?,
        against("v2p-hit-tor-ns-over-floor", "hit at a ToR", floor, 1.3)?,
        against("v2p-miss-tor-ns-over-forwarding", "miss at a ToR", "forwarding only", 1.5)?,
        Figure::alone("v2p-learn-ns", of(&ns, "learn at a gateway ToR")?, "ns", 300.0)
            .note(note.clone()),
        Figure::alone("v2p-invalidation-ns", of(&ns, "invalidation packet")?, "ns", 300.0)
            .note(note),
    ])
}
