//! Why a slot is where it is, in words: what `enroute state why` shows.

use std::time::Duration;

use state::{initiator::Stays, placement::Demand};

use super::cluster::View;

/// Who uses a slot, what that waits at each node, and what keeps it where it is.
pub(super) fn explanation(
    hosts: &[String],
    view: &View,
    demand: &Demand,
    waits: &[f32],
    why: Option<Stays>,
    now: Duration,
) -> String {
    let mut lines = Vec::new();
    for (host, rate) in demand.accesses.iter().take(8) {
        let name = hosts.get(usize::from(host.0)).map_or("?", String::as_str);
        lines.push(format!(
            "used by {name}: {:.1} reads/s, {:.1} writes/s, {:.1} reads/s from copies",
            rate.reads, rate.writes, rate.copied
        ));
    }
    for (node, member) in view.primaries() {
        let wait = waits.get(usize::from(node.0)).copied().unwrap_or(f32::INFINITY);
        let here = if node == demand.owner { " (it is here)" } else { "" };
        let wait =
            if wait.is_finite() { format!("{wait:.0} us/s") } else { "not measured".to_owned() };
        lines.push(format!("at {}{here} its accesses wait {wait}", member.address));
    }
    lines.push(match why {
        None => "nothing was decided".to_owned(),
        Some(Stays::Unchanged) => "stays: used as when it was looked at last".to_owned(),
        Some(Stays::Best) => "stays: it is where its accesses wait least".to_owned(),
        Some(Stays::Pinned) => "stays: pinned".to_owned(),
        Some(Stays::NotWorthIt { saves_us, needs_us }) => {
            format!(
                "stays: a move saves {saves_us:.0} us while it lasts; worth it from {needs_us:.0} us on"
            )
        }
        Some(Stays::Full) => {
            "stays: nodes where its accesses would wait less have no room".to_owned()
        }
        Some(Stays::Wanted { reviews }) => {
            format!("about to move: wanted elsewhere in {reviews} reviews in a row")
        }
        Some(Stays::CoolsDown { until }) => {
            format!(
                "stays: it moved lately; looked at again in {:.1} s",
                until.saturating_sub(now).as_secs_f64()
            )
        }
        Some(Stays::NotMoved { until }) => {
            format!(
                "stays: its move did not come about; looked at again in {:.1} s",
                until.saturating_sub(now).as_secs_f64()
            )
        }
        Some(Stays::Budget) => "waits: enough other slots are moving".to_owned(),
        Some(Stays::Moving) => "on its way".to_owned(),
    });
    lines.join("\n")
}
