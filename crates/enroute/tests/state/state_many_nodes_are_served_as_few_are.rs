//! A cluster of many nodes, one of which dies: an agent finds all remaining keys, slots of all
//! nodes move to one node, and the operator's commands are answered.

use std::net::SocketAddr;

use crate::support::cluster::{connection, even};
use crate::support::origins::Redis;
use crate::support::state::{Agent, owner_now, placer, said, slot_of, wait_for};
use redis::cmd;

const NODES: usize = 60;

#[test]
#[ignore = "slow: make soak"]
fn many_nodes_are_served_as_few_are() {
    let Some(mut nodes) = even(NODES, &[]) else { return };
    for node in &mut nodes {
        node.set("cluster-require-full-coverage", "no");
    }
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let agent = Agent::start(&addresses[..1]);
    let mut client = connection(agent.address());
    // At least one key in each node's slots.
    let keys: Vec<String> = (0..2_000).map(|number| format!("key:{number}")).collect();
    let home = |key: &String| slot_of(key) * NODES / 16_384;
    for key in &keys {
        cmd("SET").arg(key).arg(1).exec(&mut client).expect("it is set");
    }
    let placer = placer(&addresses[..1], "of-many");
    let status = || said(&addresses[..1], &["status"]).1;
    wait_for(|| status().contains("slots in use: "), || format!("{}{}", status(), placer.stderr()));
    placer.terminate();

    // A slot of each node, to one of them.
    let target = addresses[NODES - 1].to_string();
    let from = |node: usize| keys.iter().find(|key| home(key) == node).expect("one of its keys");
    let moving: Vec<&str> = (0..NODES - 1).map(|node| from(node).as_str()).collect();
    let words = [&["move", "--to", &target], &moving[..]].concat();
    let (output, text) = said(&addresses[..1], &words);
    assert!(output.status.success(), "{text}");
    for key in &moving {
        assert_eq!(owner_now(&addresses[NODES - 1..], slot_of(key)), Some(0), "{key}");
    }
    let read = |client: &mut redis::Connection, key: &String| {
        cmd("GET").arg(key).query::<Option<usize>>(client)
    };
    for key in &keys {
        assert_eq!(read(&mut client, key).expect("it is told"), Some(1), "{key}");
    }
    let (output, text) = said(&addresses[..1], &["doctor"]);
    assert!(output.status.success() && text.contains("no slot is open"), "{text}");

    nodes[7].bring_down();
    let (output, text) = said(&addresses[..1], &["doctor"]);
    assert!(!output.status.success() && text.contains(&addresses[7].to_string()), "{text}");
    for key in keys.iter().filter(|key| home(key) != 7) {
        assert_eq!(read(&mut client, key).expect("it is told"), Some(1), "{key}");
    }
    // Once the nodes consider it failed, it no longer delays moves.
    wait_for(|| said(&addresses[..1], &["doctor"]).0.status.success(), status);
}
