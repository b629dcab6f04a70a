//! Explanation of the place of a slot, as `enroute state why` shows it.

use std::time::Duration;

use crate::{Node, initiator::Stays, members::Member, placement::Demand, view::View};

/// Maximum number of hosts and nodes that it names.
const NAMED_MAX: usize = 8;

/// The hosts that use a slot, the waiting time at each node, and why it stays.
pub(super) fn explanation(
    hosts: &[Option<String>],
    view: &View,
    demand: &Demand,
    waits: &[f32],
    why: Option<Stays>,
    now: Duration,
) -> String {
    let mut lines = Vec::new();
    for (host, rate) in demand.accesses.iter().take(NAMED_MAX) {
        let name = hosts.get(usize::from(host.0)).and_then(Option::as_deref).unwrap_or("?");
        lines.push(format!(
            "used by {name}: {:.1} reads/s, {:.1} writes/s, {:.1} reads/s from copies",
            rate.reads, rate.writes, rate.copied
        ));
    }
    let nodes: Vec<(Node, &Member)> = view.primaries().collect();
    let count = nodes.len();
    for (node, member, wait) in named(nodes, waits, demand.owner) {
        let here = if node == demand.owner { " (it is here)" } else { "" };
        let wait =
            if wait.is_finite() { format!("{wait:.0} us/s") } else { "not measured".to_owned() };
        lines.push(format!("at {}{here} its accesses wait {wait}", member.address));
    }
    if count > NAMED_MAX {
        lines.push(format!("only the best of {count} nodes and the current one are shown"));
    }
    lines.push(match why {
        None => "not reviewed yet".to_owned(),
        Some(Stays::Unchanged) => "stays: its accesses have not changed since the last \
                                   review"
            .to_owned(),
        Some(Stays::Best) => "stays: it is where its accesses wait least".to_owned(),
        Some(Stays::Pinned) => "stays: pinned".to_owned(),
        Some(Stays::NotWorthIt { saves_us, needs_us }) => {
            format!(
                "stays: a move would save {saves_us:.0} us within the dwell time; at least \
                 {needs_us:.0} us are required"
            )
        }
        Some(Stays::Full) => {
            "stays: the nodes where its accesses would wait less have no room (maxmemory, \
             --load-max)"
                .to_owned()
        }
        Some(Stays::Wanted { reviews }) => {
            format!("about to move: {reviews} consecutive reviews have chosen another node")
        }
        Some(Stays::CoolsDown { until }) => {
            format!(
                "stays: it moved recently; next review in {:.1} s",
                until.saturating_sub(now).as_secs_f64()
            )
        }
        Some(Stays::NotMoved { until }) => {
            format!(
                "stays: its last move failed; next review in {:.1} s",
                until.saturating_sub(now).as_secs_f64()
            )
        }
        Some(Stays::Budget) => {
            "waits: the maximum number of moves (--moves-max) is reached".to_owned()
        }
        Some(Stays::Moving) => "moving".to_owned(),
    });
    lines.join("\n")
}

/// The nodes with the least waiting time, the best first, and the node of the slot; each with its
/// waiting time.
fn named<'a>(
    nodes: Vec<(Node, &'a Member)>,
    waits: &[f32],
    owner: Node,
) -> Vec<(Node, &'a Member, f32)> {
    let wait = |node: Node| waits.get(usize::from(node.0)).copied().unwrap_or(f32::INFINITY);
    let mut all: Vec<(Node, &Member, f32)> =
        nodes.into_iter().map(|(node, member)| (node, member, wait(node))).collect();
    let by_wait = |a: &(Node, &Member, f32), b: &(Node, &Member, f32)| a.2.total_cmp(&b.2);
    let its_own = all.iter().find(|(node, ..)| *node == owner).copied();
    if all.len() > NAMED_MAX {
        all.select_nth_unstable_by(NAMED_MAX, by_wait);
        all.truncate(NAMED_MAX);
    }
    all.sort_by(by_wait);
    all.extend(its_own.filter(|own| !all.iter().any(|(node, ..)| *node == own.0)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members;

    #[test]
    fn of_many_nodes_the_best_are_named_and_where_it_is() {
        let line =
            |node: u16| format!("{node} 127.0.0.1:{}@1 master - 0 0 {node} connected\n", node + 1);
        let text: String = (0..300).map(line).collect();
        let members = members::read(&text, ([127, 0, 0, 1], 1).into());
        let waits: Vec<f32> = (0..300).map(|node| ((node * 7) % 300) as f32).collect();
        let names = |count: usize, owner: u16| {
            let nodes = (0..count as u16).map(Node).zip(&members).collect();
            let all = named(nodes, &waits, Node(owner));
            all.into_iter().map(|(node, ..)| node.0).collect::<Vec<_>>()
        };
        assert_eq!(names(3, 1), [0, 1, 2]);
        assert_eq!(names(300, 0), [0, 43, 86, 129, 172, 215, 258, 1]);
        assert_eq!(names(300, 2), [0, 43, 86, 129, 172, 215, 258, 1, 2]);
    }
}
