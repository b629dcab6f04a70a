//! Moves of one slot in a model cluster, with every fault on the way.

use super::*;

mod chance;
mod cluster;
mod exhaustive;
mod real;

use cluster::{Cluster, NODES, slot};

#[test]
fn a_slot_moves_with_all_its_keys() {
    let mut cluster = Cluster::new(1);
    for value in 0..40 {
        cluster.write(value);
    }
    let mut migration = Migration::new(slot(), Node(0), Node(2), cluster.turn());
    cluster.drive(&mut migration, 0);
    assert_eq!((migration.end(), cluster.owner()), (Some(End::Moved), Some(Node(2))));
    assert_eq!(cluster.claims(), []);
    cluster.check(1);
}

#[test]
fn a_target_without_room_gives_back_what_it_has() {
    for room in 0..12 {
        let mut cluster = Cluster::new(room as u64);
        cluster.loses = false;
        cluster.at(Node(2)).room = Some(room);
        for value in 0..200 {
            cluster.write(value);
        }
        assert_eq!(cluster.written.len(), 12);
        let mut migration = Migration::new(slot(), Node(0), Node(2), cluster.turn());
        cluster.drive(&mut migration, 0);
        assert_eq!(migration.end(), Some(End::Refused("OOM".to_owned())));
        assert_eq!((cluster.owner(), cluster.claims()), (Some(Node(0)), vec![]));
        cluster.check(room as u64);
        // With more room the slot moves.
        cluster.at(Node(2)).room = None;
        let mut migration = Migration::new(slot(), Node(0), Node(2), cluster.turn());
        cluster.drive(&mut migration, 0);
        assert_eq!((migration.end(), cluster.owner()), (Some(End::Moved), Some(Node(2))));
        cluster.check(room as u64);
    }
}

#[test]
fn nothing_is_lost_wherever_it_breaks_off() {
    for seed in 0..4_000 {
        let mut cluster = Cluster::new(seed);
        // A source without room cannot take keys back, so that the slot stays open: only a node
        // that is no source is limited.
        if seed % 3 > 0 {
            cluster.at(Node(2)).room = Some(seed as usize % 7);
        }
        break_off(&mut cluster, seed, true);
        cluster.check(seed);
    }
}

#[test]
fn nothing_deleted_comes_back_wherever_it_breaks_off() {
    let is_right = |seed: u64, settles: bool| {
        let mut cluster = Cluster::new(seed);
        (cluster.deletes, cluster.settles) = (true, settles);
        break_off(&mut cluster, seed, false);
        if settles {
            cluster.check(seed);
        }
        !cluster.misread
    };
    assert!((0..4_000).all(|seed| is_right(seed, true)));
    // Faults are found if targets keep keys that may have arrived unacknowledged.
    assert!(!(0..4_000).all(|seed| is_right(seed, false)));
}

#[test]
fn no_claim_is_on_its_way_when_a_target_takes_a_slot() {
    let is_right = |seed: u64, waits: bool, hears: bool| {
        let mut cluster = Cluster::new(seed);
        (cluster.waits, cluster.hears) = (waits, hears);
        break_off(&mut cluster, seed, false);
        cluster.is_whole()
    };
    assert!((0..1_000).all(|seed| is_right(seed, true, true)));
    // Without the wait, an old message of an earlier owner is accepted, and so are its broadcasts.
    assert!(!(0..1_000).all(|seed| is_right(seed, false, true)));
    assert!(!(0..1_000).all(|seed| is_right(seed, true, false)));
}

#[test]
fn a_slot_without_an_owner_goes_to_the_node_with_its_keys() {
    let way =
        |claims: &[(Node, Claim)]| resume(slot(), None, claims, 0).map(|migration| migration.way());
    use Claim::{Holding, Importing};
    let (a, b, c) = (Node(0), Node(1), Node(2));
    assert_eq!(way(&[(a, Holding(0)), (b, Holding(3)), (c, Holding(2))]), Some((a, b)));
    // The slot was moving, and its source has no keys left.
    assert_eq!(way(&[(a, Holding(0)), (b, Importing(a, 3)), (c, Holding(0))]), Some((a, b)));
    assert_eq!(way(&[(a, Holding(0)), (b, Importing(a, 0)), (c, Holding(0))]), Some((a, b)));
    // The importing node has the newer data.
    assert_eq!(way(&[(a, Holding(1)), (b, Importing(a, 3)), (c, Holding(0))]), Some((b, a)));
    assert_eq!(way(&[(a, Holding(0)), (b, Holding(0)), (c, Holding(0))]), Some((b, a)));
    assert_eq!(way(&[(a, Holding(3))]), None);
}

/// Three moves that are interrupted at any step and resumed.
fn break_off(cluster: &mut Cluster, seed: u64, failovers: bool) {
    let trouble = if seed.is_multiple_of(2) { 30 } else { 80 };
    for value in 0..20 {
        cluster.write(value);
    }
    for _ in 0..3 {
        let from = cluster.owner().expect("the slot has an owner");
        let to = Node((from.0 + 1 + cluster.chance.below(NODES - 1)) % NODES);
        cluster.heard(from);
        let mut migration = Migration::new(slot(), from, to, cluster.turn());
        cluster.drive(&mut migration, trouble);
        if migration.end() == Some(End::Stayed) {
            assert_eq!(cluster.claims(), [], "seed {seed}: said to be closed");
        }
        if let Some(End::Refused(_)) = migration.end() {
            assert_eq!((cluster.owner(), cluster.claims()), (Some(from), vec![]), "seed {seed}");
        }
        if failovers && migration.end() != Some(End::Moved) && cluster.chance.one_in(4) {
            // A replica takes over from a node, and does not know of the migration. One that has
            // not heard that the slot has left would claim it again, which no placer can repair.
            // Nor could a placer distinguish a moved key from a deleted one before the move is
            // resumed.
            let latest = cluster.latest();
            let server = cluster.chance.below(NODES);
            let server = cluster.at(Node(server));
            if latest.is_none_or(|latest| server.owner == latest) {
                (server.migrating, server.importing) = (None, None);
            }
        }
        cluster.mend();
    }
}
