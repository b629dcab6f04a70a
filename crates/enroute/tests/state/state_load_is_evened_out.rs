//! With `--goal load` the placer evens out the load of nodes: by the processor time that Valkey
//! counts for each slot, without any report of an agent, or by the accesses that agents count.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::cluster::{NODES, cluster, connection, valkey};
use crate::support::origins::Redis;
use crate::support::state::{
    Agent, Ends, owner, placer_with, said, slot_of, tags_at, use_keys, wait_for,
};
use redis::cmd;

/// Elements of a list in which each access searches.
const ELEMENTS: usize = 10_000;

#[test]
fn the_load_that_nodes_count_is_evened_out_without_reports_of_agents() {
    let Some(nodes) = valkey(&["--cluster-slot-stats-enabled", "yes"]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    // It only routes.
    let agent = Agent::start_with(&addresses, &["--report-period", "0"]);
    let hot = tags_at(&addresses, 0);
    let mut client = connection(agent.address());
    for tag in &hot {
        let elements: Vec<usize> = (0..ELEMENTS).collect();
        cmd("RPUSH").arg(tag).arg(elements).exec(&mut client).expect("a list");
    }
    evens_out(&addresses, &hot, "us of processor time per second", |over| {
        let mut client = connection(agent.address());
        while !over.load(Ordering::Relaxed) {
            for tag in &hot {
                let mut search = cmd("LPOS");
                search.arg(tag).arg("absent").exec(&mut client).expect("no such element");
            }
        }
    });
}

#[test]
fn the_accesses_that_agents_count_are_evened_out_where_nodes_count_nothing() {
    let Some(nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let agent = Agent::start(&addresses);
    let hot = tags_at(&addresses, 0);
    evens_out(&addresses, &hot, "accesses per second", |over| {
        use_keys(agent.address(), &hot, over);
    });
}

/// Three slots of one node are used by `load`, all alike: each node gets one of them.
fn evens_out(
    nodes: &[SocketAddr],
    hot: &[String; NODES],
    unit: &str,
    load: impl Fn(&AtomicBool) + Sync,
) {
    let over = AtomicBool::new(false);
    let why = |tag: &str| said(nodes, &["why", tag]).1;
    thread::scope(|scope| {
        let _ends = Ends(&over);
        for _ in 0..NODES {
            scope.spawn(|| load(&over));
        }
        let placer = placer_with(nodes, "even", &["--goal", "load", "--copies", "off"]);
        let at = || hot.each_ref().map(|tag| owner(nodes, slot_of(tag)));
        let is_even = || {
            let mut at = at();
            at.sort_unstable();
            at == [0, 1, 2]
        };
        wait_for(is_even, || format!("{:?}\n{}\n{}", at(), why(&hot[0]), placer.stderr()));
        let moved = hot.iter().filter(|tag| owner(nodes, slot_of(tag)) != 0);
        for tag in moved {
            let explains = |told: &str| told.contains("moved ") && told.contains("evens out load");
            wait_for(|| explains(&why(tag)), || why(tag));
        }
        let status = || said(nodes, &["status"]).1;
        wait_for(|| status().contains(unit) && status().contains("moves: 2"), status);
        over.store(true, Ordering::Relaxed);
        placer.terminate();
    });
    let (output, text) = said(nodes, &["doctor"]);
    assert!(output.status.success() && text.contains("no slot is open"), "{text}");
}
