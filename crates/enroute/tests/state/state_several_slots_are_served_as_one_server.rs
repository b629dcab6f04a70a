//! An agent executes commands over several slots, and over all keys, as a single server does. While
//! slots move, nothing is lost, and nothing that was deleted comes back.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::support::cluster::{NODES, cluster, connection};
use crate::support::directory::python;
use crate::support::origins::Redis;
use crate::support::process::{Ended, Process};
use crate::support::raw::Raw;
use crate::support::state::{Agent, owner, said, slot_of, tags_at, wait_for};
use redis::cmd;

/// Slots that move.
const GROUPS: [&str; 8] =
    ["group:0", "group:1", "group:2", "group:3", "group:4", "group:5", "group:6", "group:7"];
const ROUNDS: usize = 300;
/// Maximum number of attempts on a busy machine.
const TRIES: usize = 6;

/// The random choices of the client.
fn seed() -> u64 {
    std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

fn client(python: &Path, agent: &Agent, server: &Redis, mode: &str, rounds: usize) -> Process {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/state_whole_cluster.py");
    let addresses = [agent.address().to_string(), server.address().to_string()];
    let numbers = [rounds.to_string(), seed().to_string()];
    let mut command = Command::new(python);
    command.arg(script).args(addresses).arg(mode).args(numbers);
    let client = Process::start(&mut command);
    assert!(client.stdout_line("begun").is_some(), "{}", client.stderr());
    client
}

fn is_done(ended: &Ended) {
    assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("done: "), "{}", ended.stdout);
}

#[test]
fn commands_over_all_keys_answer_as_those_of_one_server() {
    let (Some(nodes), Some(server), Some(python)) = (cluster(&[]), Redis::start(), python()) else {
        return;
    };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let agent = Agent::start(&addresses);
    is_known(&agent);
    is_done(&client(&python, &agent, &server, "still", ROUNDS).wait());
}

#[test]
fn commands_over_several_slots_answer_as_those_of_one_server_while_slots_move() {
    let (Some(nodes), Some(server), Some(python)) = (cluster(&[]), Redis::start(), python()) else {
        return;
    };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let agent = Agent::start(&addresses);
    is_known(&agent);
    let back_and_forth = |more: usize| {
        let client = client(&python, &agent, &server, "moving", ROUNDS << more);
        let (mut moved, mut rounds) = (0, 0);
        while !client.has_ended() {
            let target = addresses[rounds % NODES].to_string();
            let words = [&["move"], &GROUPS[..], &["--to", &target]].concat();
            // FLUSHALL deletes the lease of the mover, which may then end with an error.
            moved += usize::from(said(&addresses, &words).0.status.success());
            rounds += 1;
        }
        is_done(&client.wait());
        eprintln!("seed {}: {moved} of {rounds} moves of {} slots", seed(), GROUPS.len());
        moved >= 2
    };
    assert!((0..TRIES).any(back_and_forth), "the client is done before slots go back and forth");
    let (output, text) = said(&addresses, &["doctor"]);
    assert!(output.status.success(), "{text}");
}

/// The agent knows its nodes.
fn is_known(agent: &Agent) {
    let size = || cmd("DBSIZE").query::<usize>(&mut connection(agent.address()));
    wait_for(|| size().is_ok(), || format!("{:?}", size()));
}

/// Keys of a slot are at two nodes, and stay there.
#[test]
fn parts_follow_the_keys_of_a_slot_that_moves() {
    let Some(nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let agent = Agent::start(&addresses);
    is_known(&agent);
    let mut client = Raw::connect(agent.address());
    let ([here, ..], [there, ..]) = (tags_at(&addresses, 0), tags_at(&addresses, 1));
    client.ask(&format!("MSET {here}1 a {there}1 b"), "+OK\r\n");
    let id = |node: usize| -> String {
        cmd("CLUSTER").arg("MYID").query(&mut connection(addresses[node])).expect("its name")
    };
    for (node, how, other) in [(2, "IMPORTING", 0), (0, "MIGRATING", 2)] {
        let mut set = cmd("CLUSTER");
        set.arg("SETSLOT").arg(slot_of(&here)).arg(how).arg(id(other));
        set.exec(&mut connection(addresses[node])).expect("it is told");
    }
    // A key that its owner does not have is written at the target.
    client.ask(&format!("MSET {here}2 c {there}2 d"), "+OK\r\n");
    assert_eq!(owner(&addresses, slot_of(&here)), 0);
    let mut target = connection(addresses[2]);
    let mut asking = redis::pipe();
    asking.cmd("ASKING").ignore().cmd("GET").arg(format!("{here}2"));
    let (value,): (String,) = asking.query(&mut target).expect("it has the key");
    assert_eq!(value, "c");
    client.ask(&format!("MGET {there}2 {here}2 {there}1"), "*3\r\n");
    client.hear("$1\r\nd\r\n$1\r\nc\r\n$1\r\nb\r\n");
    client.ask(&format!("EXISTS {here}1 {there}1 {there}3"), ":2\r\n");
    // Keys of one part are at two nodes: the other part is executed, and the error says so.
    client.command(&format!("DEL {here}1 {here}2 {there}1"));
    let told = client.hear_line();
    assert!(told.starts_with("-CLUSTERDOWN Hash slot "), "{told}");
    assert!(told.ends_with("; 1 of 2 parts of the command were executed\r\n"), "{told}");
    client.ask(&format!("EXISTS {there}1 {here}1"), ":1\r\n");
    // All keys are deleted, wherever they are.
    client.ask("FLUSHALL", "+OK\r\n");
    client.ask("DBSIZE", ":0\r\n");
}
