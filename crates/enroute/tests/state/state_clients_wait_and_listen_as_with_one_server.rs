//! WATCH, commands that block and subscriptions work through an agent as with a single server, also
//! while their slots move: no update is lost, no element is delivered twice, and a subscription
//! that ends is noticed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use redis::cmd;

use crate::support::cluster::{cluster, connection, valkey};
use crate::support::directory::python;
use crate::support::origins::Redis;
use crate::support::process::Process;
use crate::support::raw::Raw;
use crate::support::state::{Agent, Ends, owner, said, slot_of, wait_for};

fn addresses(nodes: &[Redis]) -> Vec<SocketAddr> {
    nodes.iter().map(Redis::address).collect()
}

#[test]
fn redis_py_cannot_tell_an_agent_from_a_server() {
    let (Some(server), Some(python)) = (Redis::start(), python()) else { return };
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/state_own_connections.py");
    let outcome = |address: SocketAddr, protocol: &str| {
        let mut command = Command::new(&python);
        command.arg(&script).arg(address.to_string()).arg(protocol);
        let ended = Process::start(&mut command).wait();
        assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
        cmd("FLUSHALL").exec(&mut connection(address)).expect("OK");
        ended.stdout
    };
    for nodes in [cluster(&[]), valkey(&[])].into_iter().flatten() {
        let agent = Agent::start(&addresses(&nodes));
        for protocol in ["2", "3"] {
            let direct = outcome(server.address(), protocol);
            let through = outcome(agent.address(), protocol);
            assert!(direct.contains("done True"), "{direct}");
            for (found, expected) in through.lines().zip(direct.lines()) {
                assert_eq!(found, expected, "protocol {protocol}");
            }
            assert_eq!(through.lines().count(), direct.lines().count());
        }
    }
}

/// Moves the slot from node to node.
fn move_slot(nodes: &[SocketAddr], key: &str) {
    let to = nodes[(owner(nodes, slot_of(key)) + 1) % nodes.len()].to_string();
    let (output, told) = said(nodes, &["move", &slot_of(key).to_string(), "--to", &to]);
    assert!(output.status.success(), "{told}");
}

const MOVES: usize = 6;
const CLIENTS: usize = 3;

/// Adds one to both keys if none of them has changed; returns whether they were written, if known.
fn increment(client: &mut redis::Connection, keys: [&str; 2]) -> Option<bool> {
    cmd("WATCH").arg(&keys).exec(client).expect("they are watched");
    let values: [Option<u64>; 2] = cmd("MGET").arg(&keys).query(client).expect("values");
    let [first, second] = values.map(Option::unwrap_or_default);
    assert_eq!(first, second, "a transaction was executed in part");
    let mut queued = redis::pipe();
    queued.cmd("MULTI").ignore().cmd("SET").arg(keys[0]).arg(first + 1).ignore();
    queued.cmd("SET").arg(keys[1]).arg(second + 1).ignore().cmd("EXEC");
    let executed: Result<(redis::Value,), _> = queued.query(client);
    match executed {
        Ok((value,)) => Some(value != redis::Value::Nil),
        Err(error) if error.to_string().contains("UNCERTAIN") => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn no_watched_update_is_lost_while_its_slot_moves() {
    let Some(nodes) = cluster(&[]) else { return };
    let nodes = addresses(&nodes);
    let agents = [Agent::start(&nodes), Agent::start(&nodes)];
    let keys = ["{watched}:1", "{watched}:2"];
    let (over, done, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let known = thread::scope(|scope| {
        let _ends = Ends(&over);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let agent = agents[number % agents.len()].address();
                let (over, done, refused) = (&over, &done, &refused);
                scope.spawn(move || {
                    let mut client = connection(agent);
                    while !over.load(SeqCst) {
                        match increment(&mut client, keys) {
                            Some(true) => done.fetch_add(1, SeqCst),
                            Some(false) => refused.fetch_add(1, SeqCst),
                            None => return false,
                        };
                    }
                    true
                })
            })
            .collect();
        for _ in 0..MOVES {
            let before = done.load(SeqCst);
            move_slot(&nodes, keys[0]);
            wait_for(|| done.load(SeqCst) > before + 20, || "no transaction is executed".into());
        }
        over.store(true, SeqCst);
        clients.into_iter().all(|client| client.join().expect("a client"))
    });
    let mut client = connection(agents[0].address());
    let value: u64 = cmd("GET").arg(keys[0]).query(&mut client).expect("a value");
    let (done, refused) = (done.load(SeqCst), refused.load(SeqCst));
    eprintln!("{done} transactions were executed, {refused} were not");
    assert!(known, "no node was lost");
    assert_eq!(value, done, "{refused} transactions were not executed");
    assert!(refused > 0, "no two clients wrote at once");
}

#[test]
fn what_blocked_clients_take_is_delivered_once_while_its_slot_moves() {
    const ELEMENTS: u64 = 600;
    let Some(nodes) = cluster(&[]) else { return };
    let nodes = addresses(&nodes);
    let agent = Agent::start(&nodes);
    let address = agent.address();
    let taken = AtomicU64::new(0);
    let all = thread::scope(|scope| {
        let taken = &taken;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = connection(address);
                    let mut elements = Vec::new();
                    loop {
                        let mut pop = cmd("BLPOP");
                        pop.arg("{queue}").arg(0);
                        let (_, element): (String, u64) = pop.query(&mut client).expect("one");
                        if element >= ELEMENTS {
                            return elements;
                        }
                        elements.push(element);
                        taken.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        let mut client = connection(address);
        let mut push = |elements: std::ops::Range<u64>| {
            for element in elements {
                cmd("RPUSH").arg("{queue}").arg(element).exec(&mut client).expect("it is pushed");
            }
        };
        let part = ELEMENTS / MOVES as u64;
        for number in 0..MOVES as u64 {
            push(number * part..(number + 1) * part);
            move_slot(&nodes, "{queue}");
            let expected = (number + 1) * part;
            wait_for(|| taken.load(SeqCst) == expected, || "elements are left".into());
        }
        push(ELEMENTS..ELEMENTS + CLIENTS as u64);
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect::<Vec<_>>()
    });
    let mut times = BTreeMap::new();
    all.iter().for_each(|element| *times.entry(element).or_insert(0) += 1);
    assert!(times.values().all(|&count| count == 1), "{times:?}");
    assert_eq!(times.len() as u64, ELEMENTS);
}

/// Number of connections of a node whose last command is this one.
fn count(node: SocketAddr, command: &str) -> usize {
    let list: String = cmd("CLIENT").arg("LIST").query(&mut connection(node)).expect("a list");
    list.lines().filter(|line| line.contains(&format!(" cmd={command} "))).count()
}

#[test]
fn a_client_that_leaves_ends_what_it_waits_for() {
    let Some(nodes) = cluster(&[]) else { return };
    let nodes = addresses(&nodes);
    let agent = Agent::start(&nodes);
    let node = nodes[owner(&nodes, slot_of("{left}"))];
    let mut blocked = Raw::connect(agent.address());
    blocked.command("BLPOP {left} 0");
    wait_for(|| count(node, "blpop") == 1, || "it is not blocked".into());
    drop(blocked);
    wait_for(|| count(node, "blpop") == 0, || "it is still blocked".into());
    let mut client = Raw::connect(agent.address());
    client.ask("RPUSH {left} kept", ":1\r\n");
    client.ask("LLEN {left}", ":1\r\n");

    let mut listener = Raw::connect(agent.address());
    listener.ask("SSUBSCRIBE {left}", "*3\r\n$10\r\nssubscribe\r\n$6\r\n{left}\r\n:1\r\n");
    assert_eq!(count(node, "ssubscribe"), 1);
    drop(listener);
    wait_for(|| count(node, "ssubscribe") == 0, || "it is still subscribed".into());
}

#[test]
fn a_subscription_that_ends_ends_its_client() {
    let Some(running) = cluster(&[]) else { return };
    let nodes = addresses(&running);
    let agent = Agent::start(&nodes);
    let mut of_shard = Raw::connect(agent.address());
    of_shard.ask("SSUBSCRIBE {shard}", "*3\r\n$10\r\nssubscribe\r\n$7\r\n{shard}\r\n:1\r\n");
    let mut of_channel = Raw::connect(agent.address());
    of_channel.ask("SUBSCRIBE all", "*3\r\n$9\r\nsubscribe\r\n$3\r\nall\r\n:1\r\n");
    move_slot(&nodes, "{shard}");
    of_shard.hear_end();
    let mut client = Raw::connect(agent.address());
    client.command("PUBLISH all x");
    of_channel.hear("*3\r\n$7\r\nmessage\r\n$3\r\nall\r\n$1\r\nx\r\n");
    let mut blocked = Raw::connect(agent.address());
    blocked.command("BLPOP {shard} 0");
    let node = nodes[owner(&nodes, slot_of("{shard}"))];
    wait_for(|| count(node, "blpop") == 1, || "it is not blocked".into());
    drop(running);
    of_channel.hear_end();
    let told = blocked.hear_line();
    assert!(told.starts_with("-UNCERTAIN "), "{told}");
}
