//! A cluster of Redis or Valkey of which each node has a feed: writes made directly at its nodes
//! are seen, also while slots move.

use crate::support::cached_cluster::{Engine, becomes, is_a_hit, owner, start};
use crate::support::cluster::{NODES, cluster, id, valkey};
use crate::support::origins::Redis;
use crate::support::raw::Raw;

/// A key of a slot that moves, and one that is absent until it is written after a move.
const SLOT: u16 = 12_182;
const KEYS: [&str; 2] = ["foo", "{foo}absent"];

#[test]
fn writes_at_each_node_are_reported_by_its_own_feed() {
    write_at_each_node(cluster);
}

#[test]
fn writes_at_each_node_are_reported_by_its_own_feed_of_valkey() {
    write_at_each_node(valkey);
}

fn write_at_each_node(engine: Engine) {
    let Some(nodes) = engine(&[]) else { return };
    let cache = start(&nodes);
    for node in &nodes {
        let mut around = Raw::connect(node.address());
        let owns = |key: &String| {
            around.command(&format!("SET {key} 0"));
            around.hear_line() == "+OK\r\n"
        };
        let key = (0..).map(|number| format!("key{number}")).find(owns).expect("it owns slots");
        for round in 1..4 {
            is_a_hit(&cache, cache.addresses(), &key);
            around.ask(&format!("SET {key} {round}"), "+OK\r\n");
            becomes(cache.addresses(), &key, Some(&round.to_string()));
        }
    }
}

#[test]
fn writes_around_a_cached_cluster_are_seen_while_slots_move() {
    write_while_slots_move(cluster);
}

#[test]
fn writes_around_a_cached_cluster_are_seen_while_slots_move_of_valkey() {
    write_while_slots_move(valkey);
}

fn write_while_slots_move(engine: Engine) {
    let Some(nodes) = engine(&[]) else { return };
    let cache = start(&nodes);
    let ids: Vec<String> = nodes.iter().map(|node| id(&mut node.connection())).collect();
    let mut owner = owner(&nodes, "foo");
    for round in 0..12 {
        let mut around = Raw::connect(nodes[owner].address());
        around.ask(&format!("SET {} {round}", KEYS[0]), "+OK\r\n");
        around.command(&format!("DEL {}", KEYS[1]));
        around.hear_line();
        becomes(cache.addresses(), KEYS[0], Some(&round.to_string()));
        becomes(cache.addresses(), KEYS[1], None);
        for key in KEYS {
            is_a_hit(&cache, cache.addresses(), key);
        }

        let next = (owner + 1) % NODES;
        begin_move(&nodes, &ids, (owner, next));
        // A write in the middle of the move, at the node that has the key by then.
        let mut around = Raw::connect(nodes[next].address());
        around.ask("ASKING", "+OK\r\n");
        around.ask(&format!("SET {} asked{round}", KEYS[0]), "+OK\r\n");
        becomes(cache.addresses(), KEYS[0], Some(&format!("asked{round}")));
        for node in [next, owner] {
            let mut direct = Raw::connect(nodes[node].address());
            direct.ask(&format!("CLUSTER SETSLOT {SLOT} NODE {}", ids[next]), "+OK\r\n");
        }
        for key in KEYS {
            around.ask(&format!("SET {key} moved{round}"), "+OK\r\n");
            becomes(cache.addresses(), key, Some(&format!("moved{round}")));
        }
        owner = next;
    }
}

/// redis-server 7.0 deletes the keys of a slot that it has lost without a report.
#[test]
fn keys_of_a_slot_that_is_taken_over_are_no_longer_served() {
    let Some(nodes) = cluster(&[]) else { return };
    let cache = start(&nodes);
    let taker = (owner(&nodes, "foo") + 1) % NODES;
    becomes(cache.addresses(), "foo", Some("0"));
    is_a_hit(&cache, cache.addresses(), "foo");
    let own = id(&mut nodes[taker].connection());
    let mut taker = Raw::connect(nodes[taker].address());
    taker.ask(&format!("CLUSTER SETSLOT {SLOT} NODE {own}"), "+OK\r\n");
    taker.command("CLUSTER BUMPEPOCH");
    taker.hear_line();
    becomes(cache.addresses(), "foo", None);
}

/// Moves the keys of the slot, not yet the slot.
fn begin_move(nodes: &[Redis], ids: &[String], (from, to): (usize, usize)) {
    let [mut source, mut target] = [from, to].map(|node| Raw::connect(nodes[node].address()));
    target.ask(&format!("CLUSTER SETSLOT {SLOT} IMPORTING {}", ids[from]), "+OK\r\n");
    source.ask(&format!("CLUSTER SETSLOT {SLOT} MIGRATING {}", ids[to]), "+OK\r\n");
    let port = nodes[to].address().port();
    source.ask(&format!("MIGRATE 127.0.0.1 {port} {} 0 60000", KEYS[0]), "+OK\r\n");
}
