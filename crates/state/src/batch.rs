//! Selects the moves that are made at once.
//!
//! In one batch a node is either a source or a target, never both: in MIGRATE the source waits for
//! the target, and two nodes that wait for each other wait until the timeout. Slots leave a node
//! one after another.
//!
//! **Epochs.** Of two claims to a slot, nodes accept the one with the higher epoch, and the target
//! takes a higher one than it knows. Targets that do so at the same time may take the same epoch,
//! and one of them takes a higher one when it notices. If its slot has moved on by then, to a node
//! that had not received the update, a node without the update follows the wrong claim and informs
//! the right owner of it, which drops the keys. Slots therefore leave a node only after every node
//! knows an epoch as high as that of the node, and no other node has the same epoch: a node that
//! takes a slot then takes a higher one, regardless of the other nodes.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Node, members::Member, moves::Move};

/// Moves that may begin now, one list per source, to be made one after another; and the moves that
/// must wait for a later batch. The first of `moves` has priority.
#[must_use]
pub fn batch(moves: Vec<Move>, may_leave: impl Fn(Node) -> bool) -> (Vec<Vec<Move>>, Vec<Move>) {
    let (mut lanes, mut later) = (BTreeMap::<Node, Vec<Move>>::new(), Vec::new());
    let mut targets = BTreeSet::new();
    for one in moves {
        let is_free = !targets.contains(&one.from) && !lanes.contains_key(&one.to);
        if is_free && may_leave(one.from) {
            targets.insert(one.to);
            lanes.entry(one.from).or_default().push(one);
        } else {
            later.push(one);
        }
    }
    (lanes.into_values().collect(), later)
}

/// Whether all primaries know an epoch as high as that of `node`, which is unique. `members` are
/// all primaries as they report themselves, `heard` is the epoch known to every one.
#[must_use]
pub fn is_settled(node: &Member, members: &[&Member], heard: u64) -> bool {
    let same = members.iter().filter(|member| member.epoch == node.epoch).count();
    node.epoch <= heard && same <= 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{members, slot::Slot};

    fn moves(ways: &[(u16, u16)]) -> Vec<Move> {
        let one = |(number, &(from, to)): (usize, &(u16, u16))| Move {
            slot: Slot::new(number).expect("a slot"),
            from: Node(from),
            to: Node(to),
            saves_us: 0.0,
        };
        ways.iter().enumerate().map(one).collect()
    }

    fn numbers(moves: &[Move]) -> Vec<usize> {
        moves.iter().map(|one| one.slot.number()).collect()
    }

    #[test]
    fn no_node_is_left_and_moved_to_at_once() {
        let ways = [(0, 1), (1, 0), (2, 1), (0, 3), (1, 4), (5, 6), (6, 7), (0, 2)];
        let (lanes, later) = batch(moves(&ways), |_| true);
        let lanes: Vec<Vec<usize>> = lanes.iter().map(|lane| numbers(lane)).collect();
        assert_eq!(lanes, [vec![0, 3], vec![2], vec![5]]);
        assert_eq!(numbers(&later), [1, 4, 6, 7]);
    }

    #[test]
    fn a_node_that_may_not_be_left_accepts_slots() {
        let (lanes, later) = batch(moves(&[(1, 0), (2, 1)]), |node| node != Node(1));
        assert_eq!((numbers(&lanes.concat()), numbers(&later)), (vec![1], vec![0]));
    }

    #[test]
    fn a_node_is_settled_when_all_nodes_know_its_epoch_and_none_shares_it() {
        let text = "a 127.0.0.1:1@2 master - 0 0 7 connected\nb 127.0.0.1:2@3 master - 0 0 8 connected\n\
                    c 127.0.0.1:3@4 master - 0 0 8 connected\nd 127.0.0.1:4@5 master - 0 0 9 connected\n";
        let members = members::read(text, ([127, 0, 0, 1], 1).into());
        let all: Vec<&Member> = members.iter().collect();
        let settled: Vec<bool> = members.iter().map(|one| is_settled(one, &all, 8)).collect();
        assert_eq!(settled, [true, false, false, false]);
        assert!(is_settled(all[3], &all, 9));
    }
}
