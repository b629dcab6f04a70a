//! A primary of a cluster is killed and its replica elected, while clients write at the nodes: what
//! the new primary never had is gone, nothing is served until all owners of slots report their
//! writes, and then hits resume.

use std::net::SocketAddr;

use crate::support::cached_cluster::{
    ELECTING, Engine, add_replica, becomes, get, is_a_hit, is_in_step, is_primary,
    kill_with_lost_write, owner, set, start,
};
use crate::support::cluster::{NODES, cluster, valkey};
use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::process::until;

#[test]
fn what_an_elected_replica_never_had_is_gone_and_hits_resume() {
    fail_over(cluster);
}

#[test]
fn what_an_elected_replica_of_valkey_never_had_is_gone_and_hits_resume() {
    fail_over(valkey);
}

fn fail_over(engine: Engine) {
    let Some((mut nodes, primary)) = with_replica(engine) else { return };
    let cache = start(&nodes);
    set(nodes[primary].address(), "foo", "kept");
    let others = listeners(&cache, |node| node != primary);
    let failing = nodes[primary].address().to_string();
    let other_key = key_of_another(&nodes, primary);
    becomes(cache.addresses(), "foo", Some("kept"));
    // The listener of the replica waits with it.
    let running = listeners(&cache, |node| node < NODES);
    kill_with_lost_write(&mut nodes, (primary, NODES), ("foo", "lost"), |is_up| {
        if is_up {
            becomes(&running, "foo", Some("lost"));
            until("a hit", || is_a_hit(&cache, &running, "foo").as_deref() == Some("lost"));
            is_a_hit(&cache, &running, &other_key);
        } else {
            until("the feed is lost", || {
                let log = cache.process().stderr();
                log.lines().any(|line| line.contains("feed lost") && line.contains(&failing))
            });
            serves_nothing(&cache, &others[..NODES - 1], &["foo", &other_key]);
        }
    });
    until("an election", || {
        others.iter().for_each(|listener| {
            let told = get(*listener, "foo");
            assert!(!matches!(&told, Ok(Some(value)) if value == "lost"), "stale at {listener}");
        });
        is_primary(&nodes[NODES])
    });
    becomes(&others, "foo", Some("kept"));
    reports(&cache, &others, &nodes[NODES]);

    nodes[primary].bring_up();
    until("a replica", || is_in_step(&nodes[primary]));
    reports(&cache, cache.addresses(), &nodes[NODES]);
}

#[test]
fn an_elected_replica_without_a_listener_closes_the_cluster_and_is_named() {
    let Some((mut nodes, primary)) = with_replica(cluster) else { return };
    let cache = start(&nodes[..NODES]);
    let other_key = key_of_another(&nodes, primary);
    set(nodes[primary].address(), "foo", "kept");
    becomes(cache.addresses(), "foo", Some("kept"));
    let all = cache.addresses().to_vec();
    is_a_hit(&cache, &all, "foo");
    nodes[primary].bring_down();
    until("an election", || is_primary(&nodes[NODES]));
    let told = cache.log_line("this node owns slots, and no listener has it as its origin");
    let (elected, advice) = (nodes[NODES].address().to_string(), "add a [[listener]] for it");
    assert!(told.contains(&elected) && told.contains(advice), "{told}");
    set(nodes[NODES].address(), "foo", "after");
    let others = listeners(&cache, |node| node != primary);
    becomes(&others, "foo", Some("after"));
    serves_nothing(&cache, &others, &["foo", &other_key]);

    // Its writes are not reported, and it alone answers reads of its slots.
    nodes[primary].bring_up();
    until("a replica", || is_in_step(&nodes[primary]));
    is_a_hit(&cache, &others, &other_key);
    set(nodes[NODES].address(), "foo", "again");
    becomes(cache.addresses(), "foo", Some("again"));
}

/// Four nodes, the last of them a replica of the one that owns `foo`.
fn with_replica(engine: Engine) -> Option<(Vec<Redis>, usize)> {
    let mut nodes = engine(&ELECTING)?;
    let primary = owner(&nodes, "foo");
    add_replica(&mut nodes, primary, &ELECTING);
    Some((nodes, primary))
}

fn key_of_another(nodes: &[Redis], primary: usize) -> String {
    let mut keys = (0..).map(|number| format!("key{number}"));
    keys.find(|key| owner(&nodes[..NODES], key) != primary).expect("it does not own all slots")
}

fn listeners(cache: &Cache, are: impl Fn(usize) -> bool) -> Vec<SocketAddr> {
    let all = cache.addresses().iter().enumerate();
    all.filter(|(node, _)| are(*node)).map(|(_, listener)| *listener).collect()
}

/// Every write at the node is seen through each of the listeners, and then served from storage.
fn reports(cache: &Cache, listeners: &[SocketAddr], node: &Redis) {
    for round in 0..5 {
        set(node.address(), "foo", &format!("after{round}"));
        becomes(listeners, "foo", Some(&format!("after{round}")));
        is_a_hit(cache, listeners, "foo");
    }
}

fn serves_nothing(cache: &Cache, listeners: &[SocketAddr], keys: &[&str]) {
    let hits = cache.hits();
    for _ in 0..20 {
        for (listener, key) in listeners.iter().flat_map(|at| keys.iter().map(move |key| (at, key)))
        {
            let _ = get(*listener, key);
        }
    }
    assert_eq!(cache.hits(), hits, "served without the feed of a node that owns slots");
}
