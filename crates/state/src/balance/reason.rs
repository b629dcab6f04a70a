//! Why a slot moves or stays, as `enroute state why` shows it.

use std::time::Duration;

use super::Balancer;
use crate::{Node, slot::Slot};

/// Why a slot moves: loads in multiples of the mean load of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reason {
    /// Load of the slot.
    pub slot: f64,
    /// Load of its node, before and after.
    pub from: (f64, f64),
    /// Load of the new node, before and after.
    pub to: (f64, f64),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { slot, from, to } = self;
        write!(
            formatter,
            "evens out load, in multiples of the mean of a node: the slot has {slot:.3}, its node goes from \
             {:.3} to {:.3}, the new one from {:.3} to {:.3}",
            from.0, from.1, to.0, to.1
        )
    }
}

impl Balancer {
    /// Why the latest move of `slot` was planned.
    #[must_use]
    pub fn reason(&self, slot: Slot) -> Option<Reason> {
        self.known.get(&slot)?.reason
    }

    /// The load of each slot in use, as of the latest review.
    pub fn loads(&self) -> impl Iterator<Item = (Slot, f64)> {
        self.found.loads.iter().map(|(&slot, &(_, load, _))| (slot, load))
    }

    /// Mean load of a node, and the load of each, as text.
    #[must_use]
    pub fn summary(&self, name: impl Fn(Node) -> String) -> String {
        let found = &self.found;
        let ratio = |load: f64| if found.mean > 0.0 { load / found.mean } else { 0.0 };
        let nodes: Vec<String> = found
            .places
            .iter()
            .map(|(&node, &load)| format!("{} {:.2}", name(node), ratio(load)))
            .collect();
        let (mean, unit) = (found.mean, found.unit.name());
        let stuck = found.stuck.map(|(node, top)| {
            format!(
                "; {} cannot be relieved further: its hottest slot alone has {:.2}, or no other node has room",
                name(node),
                ratio(top)
            )
        });
        let stuck = stuck.unwrap_or_default();
        let nodes = nodes.join(", ");
        format!("mean load of a node: {mean:.0} {unit}; in multiples of it: {nodes}{stuck}")
    }

    /// The load of `slot`, and why it stays or moves, one fact a line; `None` for an unused slot.
    #[must_use]
    pub fn why(
        &self,
        slot: Slot,
        name: impl Fn(Node) -> String,
        now: Duration,
    ) -> Option<Vec<String>> {
        let found = &self.found;
        let &(owner, load, pinned) = found.loads.get(&slot)?;
        let ratio = |load: f64| if found.mean > 0.0 { load / found.mean } else { 0.0 };
        let mut lines = vec![
            format!(
                "its load: {load:.0} {}, {:.3} of the mean of a node",
                found.unit.name(),
                ratio(load)
            ),
            self.summary(&name),
        ];
        let known = self.known.get(&slot);
        if let Some((reason, moved)) = known.and_then(|known| Some((known.reason?, known.moved?))) {
            let ago = now.saturating_sub(moved).as_secs();
            lines.push(format!("moved {ago} s ago: {reason}"));
        }
        let hottest = found.places.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let (begin, end) = (self.config.begin, self.config.end);
        let stays_until = known.map(|known| known.rests.until).filter(|&until| until > now);
        lines.push(match hottest {
            _ if self.moves.is_moving(slot) => match known.and_then(|known| known.reason) {
                Some(reason) => format!("moving: {reason}"),
                None => "moving".to_owned(),
            },
            _ if pinned => "stays: pinned".to_owned(),
            _ if !found.places.contains_key(&owner) => "stays: its node is excluded".to_owned(),
            _ if found.mean < found.unit.least() => format!(
                "stays: the mean load of a node is below {:.0} {}",
                found.unit.least(),
                found.unit.name()
            ),
            Some((_, &load)) if load <= begin * found.mean => {
                format!("stays: no node has more than {begin} times the mean load")
            }
            Some((&node, _)) if node != owner => {
                "stays: slots move from the node with the highest load only".to_owned()
            }
            _ if let Some(until) = stays_until => format!(
                "stays: it moved recently, or its last move failed; next review in {:.1} s",
                until.saturating_sub(now).as_secs_f64()
            ),
            _ if found.no_budget => format!(
                "waits: the maximum number of moves, {} in {} s, is reached",
                self.config.moves_max,
                self.config.moves_window.as_secs()
            ),
            _ if ratio(load) > end => {
                "stays: it alone is hotter than a node should be; other slots move away from it"
                    .to_owned()
            }
            _ if self.above < self.config.reviews => format!(
                "may move: {} of {} consecutive reviews have found its node too hot",
                self.above, self.config.reviews
            ),
            _ => "stays: other slots even out the load with fewer moves".to_owned(),
        });
        Some(lines)
    }
}
