//! Three listeners in front of a Redis Cluster of three nodes: a cluster client that knows one
//! listener discovers all three and no node, also while slots move.

use std::process::Command;

use crate::support::cluster::{NODES, cluster};
use crate::support::directory::python;
use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::raw::Raw;

#[test]
fn cluster_clients_never_go_around_the_cache() {
    let Some(python) = python() else { return };
    let Some(nodes) = cluster(&[]) else { return };
    let cache = cache(&nodes, "cluster = \"shop\"");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/redis_cluster.py");
    let output = Command::new(python)
        .arg(script)
        .args(cache.addresses().iter().map(ToString::to_string))
        .output()
        .expect("python starts");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}\n{}", cache.process().stderr());
    eprintln!("{said}{:?}", cache.statistics());
    assert!(cache.hits() >= 300.0, "{:?}", cache.statistics());
    let log = cache.process().stderr();
    assert!(!log.contains("clients bypass the cache"), "{log}");

    a_slot_moves(&nodes, &cache);
}

#[test]
fn a_node_without_listener_is_named_once() {
    let Some(nodes) = cluster(&[]) else { return };
    let cache = cache(&nodes[..2], "");
    for _ in 0..3 {
        let mut client = Raw::connect(cache.address());
        client.command("CLUSTER NODES");
        let header = client.hear_line();
        let bytes = header.trim_start_matches('$').trim_end().parse::<usize>().expect("a length");
        let nodes_told = String::from_utf8(client.hear_bytes(bytes)).expect("text");
        client.hear("\r\n");
        for (node, ours) in nodes.iter().zip(cache.addresses()) {
            assert!(nodes_told.contains(&format!("{ours}@")), "{nodes_told}");
            assert!(!nodes_told.contains(&format!("{}@", node.address())), "{nodes_told}");
        }
        assert!(nodes_told.contains(&format!("{}@", nodes[2].address())), "{nodes_told}");
    }
    let stranger = nodes[2].address().to_string();
    cache.log_line(&stranger);
    let log = cache.process().stderr();
    assert_eq!(log.matches(&stranger).count(), 1, "{log}");
}

/// A client that still asks the old owner is redirected, and gets the value of the new owner.
fn a_slot_moves(nodes: &[Redis], cache: &Cache) {
    let (key, slot) = ("foo", 12182);
    let mut clients: Vec<Raw> = cache.addresses().iter().map(|at| Raw::connect(*at)).collect();
    let owner = (0..NODES)
        .find(|&node| ask(&mut clients[node], &format!("SET {key} old")) == "+OK\r\n")
        .expect("the slot has an owner");
    let other = (owner + 1) % NODES;
    let hits = cache.hits();
    while cache.hits() < hits + 1.0 {
        clients[owner].ask(&format!("GET {key}"), "$3\r\nold\r\n");
    }
    let moved = ask(&mut clients[other], &format!("STRLEN {key}"));
    assert_eq!(moved, format!("-MOVED {slot} {}\r\n", cache.addresses()[owner]));

    // Node to node, bypassing the cache.
    let mut direct: Vec<Raw> = nodes.iter().map(|node| Raw::connect(node.address())).collect();
    let ids: Vec<String> = direct.iter_mut().map(node_id).collect();
    direct[other].ask(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[owner]), "+OK\r\n");
    direct[owner].ask(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[other]), "+OK\r\n");
    let port = nodes[other].address().port();
    direct[owner].ask(&format!("MIGRATE 127.0.0.1 {port} {key} 0 5000"), "+OK\r\n");
    let asked = ask(&mut clients[owner], &format!("STRLEN {key}"));
    assert_eq!(asked, format!("-ASK {slot} {}\r\n", cache.addresses()[other]));
    for node in [other, owner] {
        direct[node].ask(&format!("CLUSTER SETSLOT {slot} NODE {}", ids[other]), "+OK\r\n");
    }
    let moved = ask(&mut clients[owner], &format!("STRLEN {key}"));
    assert_eq!(moved, format!("-MOVED {slot} {}\r\n", cache.addresses()[other]));

    clients[other].ask(&format!("SET {key} new"), "+OK\r\n");
    let told = ask(&mut clients[owner], &format!("GET {key}"));
    assert!(told.starts_with("-MOVED") || told == "$3\r\n", "{told}");
    if told == "$3\r\n" {
        clients[owner].hear("new\r\n");
    }
}

fn ask(client: &mut Raw, words: &str) -> String {
    client.command(words);
    client.hear_line()
}

fn node_id(node: &mut Raw) -> String {
    assert_eq!(ask(node, "CLUSTER MYID"), "$40\r\n");
    node.hear_line().trim().to_owned()
}

fn cache(nodes: &[Redis], options: &str) -> Cache {
    let listeners: Vec<_> = nodes.iter().map(|node| ("redis", node.address(), options)).collect();
    Cache::start_all(&listeners, "")
}
