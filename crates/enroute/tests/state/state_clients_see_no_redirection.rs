//! Clients use an agent like a single Redis, which has no MOVED, ASK or TRYAGAIN: if a slot has no
//! owner, or migrates forever, they get an error that it is not served.

use std::net::SocketAddr;

use crate::support::cluster::{cluster, connection};
use crate::support::origins::Redis;
use crate::support::raw::Raw;
use crate::support::state::{Agent, slot_of, tags_at};
use redis::cmd;

#[test]
fn a_slot_without_an_owner_is_not_served_and_the_client_is_told_so() {
    let Some(nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let agent = Agent::start(&addresses);
    let mut client = Raw::connect(agent.address());
    let [deleted, lost, ..] = tags_at(&addresses, 0);
    client.ask(&format!("SET {deleted} 1"), "+OK\r\n");

    // Each of two nodes considers the other the owner.
    set(addresses[0], &lost, "NODE", &id(addresses[1]));
    is_told(&mut client, &format!("SET {lost} 1"), &unserved(&lost, "has no owner"));
    client.command("MULTI");
    assert_eq!(client.hear_line(), "+OK\r\n");
    client.command(&format!("SET {lost} 1"));
    assert_eq!(client.hear_line(), "+QUEUED\r\n");
    is_told(&mut client, "EXEC", &unserved(&lost, "has no owner"));

    // Its owner no longer has it, and the other nodes do not know that. A known slot without an
    // owner would take the whole cluster down.
    let mut delete = cmd("CLUSTER");
    delete.arg("DELSLOTS").arg(slot_of(&deleted)).exec(&mut connection(addresses[0])).expect("OK");
    is_told(&mut client, &format!("GET {deleted}"), "-CLUSTERDOWN Hash slot not served");
}

#[test]
fn keys_that_are_nowhere_and_everywhere_are_not_served_and_the_client_is_told_so() {
    let Some(nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let agent = Agent::start(&addresses);
    let mut client = Raw::connect(agent.address());
    let [tag, ..] = tags_at(&addresses, 0);
    client.ask(&format!("SET {tag}1 1"), "+OK\r\n");

    // It migrates to a node that is not importing it.
    set(addresses[0], &tag, "MIGRATING", &id(addresses[1]));
    is_told(&mut client, &format!("GET {tag}2"), &unserved(&tag, ""));
    is_told(&mut client, &format!("MGET {tag}1 {tag}2"), &unserved(&tag, "is moving"));
    // The node serves the keys that it has.
    client.ask(&format!("GET {tag}1"), "$1\r\n");
    client.hear("1\r\n");
}

fn unserved(tag: &str, why: &str) -> String {
    format!("-CLUSTERDOWN Hash slot {} {why}", slot_of(tag))
}

fn is_told(client: &mut Raw, command: &str, expected: &str) {
    client.command(command);
    let told = client.hear_line();
    assert!(told.starts_with(expected), "{command}: expected {expected}, got {told}");
}

fn id(node: SocketAddr) -> String {
    cmd("CLUSTER").arg("MYID").query(&mut connection(node)).expect("its name")
}

fn set(node: SocketAddr, tag: &str, how: &str, other: &str) {
    let mut command = cmd("CLUSTER");
    command.arg("SETSLOT").arg(slot_of(tag)).arg(how).arg(other);
    command.exec(&mut connection(node)).expect("it is told");
}
