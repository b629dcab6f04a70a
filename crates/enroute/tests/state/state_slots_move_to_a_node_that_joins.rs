//! A node that joins the cluster owns no slot. Agents measure its delay nevertheless, so that slots
//! for which it is the nearest node move to it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::cluster::{Linked, NODES, agree_on};
use crate::support::origins::Redis;
use crate::support::state::{Agent, Ends, owner, placer_with, said, slot_of, use_keys, wait_for};
use redis::cmd;

#[test]
fn state_slots_move_to_a_node_that_joins() {
    let Some(linked) = Linked::start(&[]) else { return };
    for link in &linked.links {
        link.set_delay(Duration::from_millis(5), Duration::from_millis(5));
    }
    let mut nodes = linked.addresses();
    let agent = Agent::start(&nodes);
    let placer = placer_with(&nodes, "watchful", &[]);
    let keys = ["{joined}:a".to_owned(), "{joined}:b".to_owned()];
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&over);
        scope.spawn(|| use_keys(agent.address(), &keys, &over));
        // Used evenly until the placer has reviewed the slot and found no better node.
        let why = |nodes: &[SocketAddr]| said(nodes, &["why", "{joined}"]).1;
        wait_for(|| why(&nodes).contains("stays: "), || why(&nodes));
        let Some(joins) = joined(&linked) else { return };
        nodes.push(joins.address());
        let arrived = || owner(&nodes, slot_of("{joined}")) == NODES;
        wait_for(arrived, || format!("{}\n{}", why(&nodes), placer.stderr()));
        over.store(true, Ordering::Relaxed);
        placer.terminate();
        let (output, text) = said(&nodes, &["doctor"]);
        assert!(output.status.success() && text.contains("no slot is open"), "{text}");
    });
}

/// Adds a node that all others know.
fn joined(linked: &Linked) -> Option<Redis> {
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let joins = Redis::start_with(&options)?;
    let (mut nodes, mut direct) =
        (linked.addresses(), linked.nodes.iter().map(Redis::address).collect::<Vec<_>>());
    let mut meet = cmd("CLUSTER");
    meet.arg("MEET").arg(direct[0].ip().to_string()).arg(direct[0].port());
    meet.exec(&mut joins.connection()).expect("it joins");
    nodes.push(joins.address());
    direct.push(joins.address());
    agree_on(&direct, &nodes);
    Some(joins)
}
