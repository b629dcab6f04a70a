//! The resident memory of `enroute state agent` stays within `--memory` and the overhead that the
//! guide states, whatever clients send, request or leave unread; other clients are served again as
//! soon as those have disconnected.

use std::net::SocketAddr;

use crate::support::cluster::{cluster, connection};
use crate::support::greedy::{bulk, insist};
use crate::support::origins::Redis;
use crate::support::process::at_once;
use crate::support::raw::Raw;
use crate::support::state::{Agent, owner, slot_of};

const MIB: usize = 1 << 20;
/// The default of `--memory`.
const MEMORY: usize = 64 * MIB;
/// The limit stated in `docs/guide/state.md`: `--memory` plus a sixteenth of it and 96 MiB.
const BOUND: usize = MEMORY + MEMORY / 16 + 96 * MIB;

struct Served {
    redis: Vec<Redis>,
    agent: Agent,
}

impl Served {
    fn start() -> Option<Self> {
        let redis = cluster(&[])?;
        let nodes: Vec<SocketAddr> = redis.iter().map(Redis::address).collect();
        let agent = Agent::start(&nodes);
        Raw::connect(agent.address()).ask("SET {k}small v", "+OK\r\n");
        Some(Self { redis, agent })
    }

    fn address(&self) -> SocketAddr {
        self.agent.address()
    }

    fn check(&self, attack: &str) {
        // Its request is executed after all earlier requests to the node.
        Raw::connect(self.address()).ask("GET {k}small", "$1\r\nv\r\n");
        let peak = self.agent.process().peak_bytes();
        eprintln!("{attack}: peak {} MiB, limit {} MiB", peak / MIB, BOUND / MIB);
        assert!(peak <= BOUND, "{attack}: {peak} bytes resident, expected at most {BOUND}");
    }

    /// Sets a value of this length at its node, bypassing the agent.
    fn set(&self, key: &str, bytes: usize) {
        let nodes: Vec<SocketAddr> = self.redis.iter().map(Redis::address).collect();
        let mut node = connection(nodes[owner(&nodes, slot_of(key))]);
        let set = redis::cmd("SETRANGE").arg(key).arg(bytes - 1).arg("x").clone();
        set.exec(&mut node).expect("its owner takes it");
    }
}

#[test]
fn clients_that_send_one_huge_value_each() {
    let Some(served) = Served::start() else { return };
    let _open = at_once(6, |_| insist(served.address(), bulk(300)));
    served.check("six values of 300 MB");
}

#[test]
fn values_and_transactions_that_are_all_but_whole() {
    let Some(served) = Served::start() else { return };
    let unfinished = |client: usize| {
        let ahead = if client.is_multiple_of(2) { "" } else { "MULTI\r\n" };
        let value = |bytes: usize| {
            [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3000000\r\n"[..], &vec![b'v'; bytes], b"\r\n"]
                .concat()
        };
        let said = [ahead.as_bytes().to_vec(), value(3_000_000), value(2_900_000)];
        insist(served.address(), said.into_iter())
    };
    let _open = at_once(60, unfinished);
    served.check("60 clients with values and transactions of 3 MB");
    let line = served.agent.process().stderr_line("closing the client with the largest buffers");
    assert!(line.is_some_and(|line| line.contains("of all clients, whose limit")));
}

#[test]
fn replies_that_are_not_read() {
    let Some(served) = Served::start() else { return };
    served.set("{k}large", 1_000_000);
    let ask = "GET {k}large\r\n".repeat(20).into_bytes();
    let _unread = at_once(40, |_| insist(served.address(), std::iter::once(ask.clone())));
    served.check("40 clients that ask for 20 MB each and read nothing");
}

#[test]
fn replies_that_are_too_long() {
    let Some(served) = Served::start() else { return };
    served.set("{k}huge", 100_000_000);
    let _told = at_once(6, |_| {
        let mut client = Raw::connect(served.address());
        client.command("GET {k}huge");
        let told = client.hear_line();
        assert!(told.starts_with("-ERR the command was executed"), "{told}");
        client.stream().try_clone().expect("a descriptor")
    });
    served.check("six replies of 100 MB");
}

#[test]
fn pipelines_for_nodes_that_do_not_answer() {
    let Some(served) = Served::start() else { return };
    served.redis.iter().for_each(|node| node.process().stop());
    let _open = at_once(60, |client| {
        let value = "v".repeat(2_000);
        let set = |at: usize| format!("SET {{k}}{client:04}{at:05} {value}\r\n").into_bytes();
        insist(served.address(), (0..4_000).map(set))
    });
    served.redis.iter().for_each(|node| node.process().signal("CONT"));
    served.check("60 pipelines of 4,000 values of 2 kB");
}

#[test]
fn many_clients_with_small_requests_that_are_not_answered() {
    let Some(served) = Served::start() else { return };
    served.redis.iter().for_each(|node| node.process().stop());
    let ask = "GET {k}small\r\n".repeat(1_024).into_bytes();
    let _open = at_once(300, |_| insist(served.address(), std::iter::once(ask.clone())));
    served.redis.iter().for_each(|node| node.process().signal("CONT"));
    served.check("300 pipelines of 1,024 reads");
}
