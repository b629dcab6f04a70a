//! Clients of an agent are not affected by slots that move: no redirection, no lost write, no
//! repeated write. Whatever is killed in the middle of a move, the doctor completes it and no key
//! is lost. An unknown outcome is reported as such.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::cluster::{NODES, agree, cluster, connection, valkey};
use crate::support::directory::python;
use crate::support::origins::Redis;
use crate::support::process::Process;
use crate::support::raw::Raw;
use crate::support::state::{Agent, by_hand, is_open, owner, placer, said, wait_for};
use redis::cmd;

const INCREMENTS: usize = 12_000;
/// Maximum number of attempts on a busy machine.
const TRIES: usize = 10;
const INCREMENTS_MANY: usize = 1_000_000;
/// Slots of the counters.
const GROUPS: [&str; 8] =
    ["group:0", "group:1", "group:2", "group:3", "group:4", "group:5", "group:6", "group:7"];

#[test]
fn counters_end_where_they_must_while_slots_move() {
    let Some(nodes) = cluster(&[]) else { return };
    counters(&nodes.iter().map(Redis::address).collect::<Vec<_>>(), Clients::OfAgent, INCREMENTS);
}

#[test]
#[ignore = "slow: make soak"]
fn a_million_increments_while_slots_move_are_a_million() {
    let Some(nodes) = cluster(&[]) else { return };
    let nodes = nodes.iter().map(Redis::address).collect::<Vec<_>>();
    counters(&nodes, Clients::OfAgent, INCREMENTS_MANY);
}

/// The same with an engine that moves a slot in one step.
#[test]
fn counters_end_where_they_must_on_valkey() {
    let Some(nodes) = valkey(&[]) else { return };
    counters(&nodes.iter().map(Redis::address).collect::<Vec<_>>(), Clients::OfAgent, INCREMENTS);
}

/// The same for cluster clients of the nodes themselves: for a moment a slot has no owner, and they
/// are redirected back and forth.
#[test]
fn counters_of_a_cluster_client_end_where_they_must_while_slots_move() {
    let Some(nodes) = cluster(&[]) else { return };
    counters(&nodes.iter().map(Redis::address).collect::<Vec<_>>(), Clients::OfNodes, INCREMENTS);
}

/// The endpoint that clients connect to.
#[derive(Clone, Copy)]
enum Clients {
    OfAgent,
    OfNodes,
}

fn counters(nodes: &[SocketAddr], clients: Clients, increments: usize) {
    let Some(python) = python() else { return };
    let back_and_forth = |more| count(nodes, &python, clients, increments << more) >= 2;
    assert!((0..TRIES).any(back_and_forth), "the counters are done before slots go back and forth");
    let (output, text) = said(nodes, &["doctor"]);
    assert!(output.status.success() && text.contains("no slot is open"), "{text}");
}

/// Returns the number of times that all slots moved while counters, started anew, were incremented.
fn count(nodes: &[SocketAddr], python: &Path, clients: Clients, increments: usize) -> usize {
    for node in nodes {
        cmd("FLUSHALL").exec(&mut connection(*node)).expect("it is emptied");
    }
    let agent = matches!(clients, Clients::OfAgent).then(|| Agent::start(nodes));
    let (script, address) = match &agent {
        Some(agent) => ("state_counters.py", agent.address()),
        None => ("state_cluster_counters.py", nodes[0]),
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let arguments = [address.to_string(), increments.to_string()];
    let clients = Process::start(Command::new(python).arg(script).args(arguments));
    assert!(clients.stdout_line("begun").is_some(), "{}", clients.stderr());
    let mut rounds = 0;
    while !clients.has_ended() {
        let target = nodes[rounds % NODES].to_string();
        let (output, text) = said(nodes, &[&["move"], &GROUPS[..], &["--to", &target]].concat());
        assert!(output.status.success(), "{text}");
        rounds += 1;
    }
    let ended = clients.wait();
    assert!(
        ended.status.success(),
        "{}{}\n{}",
        ended.stdout,
        ended.stderr,
        agent.map(|agent| agent.process().stderr()).unwrap_or_default()
    );
    let all = format!("done: {increments} increments");
    assert!(ended.stdout.contains(&all), "expected {all}, got {}", ended.stdout);
    eprintln!("{} after {rounds} rounds of {} moves", ended.stdout.trim(), GROUPS.len());
    rounds
}

#[test]
fn whoever_dies_in_the_middle_of_a_move_it_ends_with_every_key() {
    let Some(mut nodes) = cluster(&["--appendonly", "yes", "--appendfsync", "always"]) else {
        return;
    };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let slot = 12_182; // of {foo}
    let agent = Agent::start(&addresses);
    let mut client = connection(agent.address());
    const KEYS: usize = 3_000;
    let mut pipeline = redis::pipe();
    for number in 0..KEYS {
        pipeline.cmd("SET").arg(format!("{{foo}}{number}")).arg(number).ignore();
    }
    pipeline.query::<()>(&mut client).expect("the agent takes them");

    for victim in ["mover", "target", "source"] {
        let mut tries = (0..TRIES).map(|_| killed_in_the_middle(&addresses, slot));
        let (from, to) = tries.find_map(|killed| killed).expect("one is killed in the middle");
        match victim {
            "target" => nodes[to].bring_down(),
            "source" => nodes[from].bring_down(),
            _ => {}
        }
        for node in [from, to] {
            if connects(addresses[node]) {
                continue;
            }
            nodes[node].bring_up();
        }
        agree(&addresses);
        let (output, text) = said(&addresses, &["doctor", "--dry-run"]);
        eprintln!("{victim} killed: {}", text.trim());
        assert!(
            !output.status.success() && text.contains("12182"),
            "{victim}: nothing was open: {text}"
        );
        let (output, text) = said(&addresses, &["doctor"]);
        assert!(output.status.success(), "{victim}: {text}");
        let (output, text) = said(&addresses, &["doctor"]);
        assert!(output.status.success() && text.contains("no slot is open"), "{victim}: {text}");
        let keys: Vec<String> = (0..KEYS).map(|number| format!("{{foo}}{number}")).collect();
        let values: Vec<Option<usize>> =
            cmd("MGET").arg(&keys).query(&mut client).expect("the agent");
        for (number, value) in values.into_iter().enumerate() {
            assert_eq!(value, Some(number), "{victim} was killed");
        }
    }
}

/// Source and target of the move when the mover was killed; `None` if the move was complete.
fn killed_in_the_middle(nodes: &[SocketAddr], slot: usize) -> Option<(usize, usize)> {
    let from = owner(nodes, slot);
    let to = (from + 1) % NODES;
    let target = nodes[to].to_string();
    let words = ["move", "{foo}", "--to", &target, "--log", "debug"];
    let mover = Process::start(&mut by_hand(nodes, &words));
    // Keys are in flight now.
    assert!(mover.stderr_line("Move {").is_some(), "{}", mover.stderr());
    drop(mover);
    is_open(nodes[from], slot).then_some((from, to))
}

#[test]
fn one_placer_acts_and_another_takes_over_what_it_left() {
    let Some(nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let first = placer(&addresses, "first");
    assert!(first.stderr_line("this placer leads").is_some(), "{}", first.stderr());
    let second = placer(&addresses, "second");
    assert!(second.stderr_line("waiting for reports of agents").is_some());
    let (output, text) = said(&addresses, &["status"]);
    assert!(output.status.success() && text.contains("placer: first"), "{text}");
    // No other process moves or repairs slots.
    let (output, text) = said(&addresses, &["move", "foo", "--to", &addresses[0].to_string()]);
    assert!(!output.status.success() && text.contains("first holds the placer lease"), "{text}");
    assert!(!second.stderr().contains("this placer leads"), "{}", second.stderr());

    drop(first);
    let from = owner(&addresses, 12_182);
    let to = (from + 1) % NODES;
    let mut source = connection(addresses[from]);
    let mut target = connection(addresses[to]);
    let id = |node: &mut redis::Connection| -> String {
        cmd("CLUSTER").arg("MYID").query(node).expect("an id")
    };
    let (source_id, target_id) = (id(&mut source), id(&mut target));
    let set = |node: &mut redis::Connection, how: &str, other: &str| {
        cmd("CLUSTER")
            .arg("SETSLOT")
            .arg(12_182)
            .arg(how)
            .arg(other)
            .query::<()>(node)
            .expect("OK");
    };
    set(&mut target, "IMPORTING", &source_id);
    set(&mut source, "MIGRATING", &target_id);
    assert!(second.stderr_line("this placer leads").is_some(), "{}", second.stderr());
    assert!(second.stderr_line("resuming an open slot move").is_some());
    assert!(second.stderr_line("slot move finished").is_some(), "{}", second.stderr());
    assert_eq!(owner(&addresses, 12_182), to);
    let (_, text) = said(&addresses, &["doctor", "--dry-run"]);
    assert!(text.contains("no slot is open"), "{text}");
}

#[test]
fn a_write_of_unknown_fate_is_said_and_not_repeated() {
    let Some(mut nodes) = cluster(&["--appendonly", "yes", "--appendfsync", "always"]) else {
        return;
    };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let agent = Agent::start(&addresses);
    // On a busy machine the node may be gone before the write was sent to it.
    let mut tries = (0..TRIES).map(|_| is_of_unknown_fate(&mut nodes, &addresses, &agent));
    assert!(tries.any(|unknown| unknown), "no write was sent to its node");
}

/// Kills a node before it replies to a write; returns whether the write had been sent to it.
fn is_of_unknown_fate(nodes: &mut [Redis], addresses: &[SocketAddr], agent: &Agent) -> bool {
    let mut client = Raw::connect(agent.address());
    client.ask("SET foo 1", "+OK\r\n");
    let home = owner(addresses, 12_182);
    nodes[home].process().stop();
    client.command("INCR foo");
    client.command("GET foo");
    // When a second client waits, too, the write has usually been sent.
    let mut other = Raw::connect(agent.address());
    other.ask("PING", "+PONG\r\n");
    std::thread::sleep(Duration::from_millis(300));
    nodes[home].bring_down();
    let told = client.hear_line();
    let has_left = told.starts_with("-UNCERTAIN ");
    if has_left {
        assert!(told.contains(&addresses[home].to_string()), "{told}");
    } else {
        assert!(told.starts_with("-ERR cannot reach"), "{told}");
    }
    nodes[home].bring_up();
    agree(addresses);
    // The read is retried until it is answered or times out; the increment is not retried.
    match client.hear_line().as_str() {
        "$1\r\n" => assert_eq!(client.hear_line(), "1\r\n"),
        told => assert!(
            told.starts_with("-ERR cannot reach") || told.starts_with("-CLUSTERDOWN"),
            "{told}"
        ),
    }
    client.ask("GET foo", "$1\r\n");
    client.hear("1\r\n");
    client.ask("INCR foo", ":2\r\n");
    has_left
}

/// The node's kernel still acknowledges the data.
#[test]
fn a_node_that_hangs_is_given_up() {
    let Some(nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let agent = Agent::start(&addresses);
    let mut client = Raw::connect(agent.address());
    client.ask("SET foo 1", "+OK\r\n");
    let home = owner(&addresses, 12_182);
    nodes[home].process().stop();
    client.command("INCR foo");
    let told = client.hear_line();
    assert!(told.starts_with("-UNCERTAIN ") && told.contains("no answer for 12s"), "{told}");
    client.command("GET foo");
    let told = client.hear_line();
    assert!(told.starts_with("-ERR cannot reach"), "{told}");
    nodes[home].process().signal("CONT");
    // It is executed eventually, which the agent cannot know.
    let value = || cmd("GET").arg("foo").query::<usize>(&mut connection(addresses[home]));
    wait_for(|| value() == Ok(2), || format!("{:?}", value()));
    client.ask("GET foo", "$1\r\n");
    client.hear("2\r\n");
}

fn connects(node: SocketAddr) -> bool {
    std::net::TcpStream::connect(node).is_ok()
}
