//! A node without memory for a slot refuses it in the middle of its move. Afterwards the slot is
//! back at its node, complete and closed, and is not moved again: on Redis, where the mover takes
//! keys back, and on Valkey, which moves slots itself.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::cluster::{Linked, agree_on, connection, link, valkey};
use crate::support::origins::Redis;
use crate::support::state::{Agent, Ends, owner, placer_with, said, slot_of, tags_at, wait_for};
use redis::cmd;
use testbed::link::RelayHandle;

/// Indexes of the nodes in the order of their distance from every agent; only the near one is close
/// enough to be worth a move.
const NEAR: usize = 0;
const FARTHER: usize = 2;
const DELAYS_MS: [u64; 3] = [0, 20, 10];

const KEYS: usize = 400;

#[test]
fn on_redis() {
    let Some(linked) = Linked::start(&[]) else { return };
    let direct: Vec<SocketAddr> = linked.nodes.iter().map(Redis::address).collect();
    Cluster { direct, links: &linked.links }.refuses_and_takes_back("refuses keys: OOM");
}

#[test]
fn on_valkey() {
    let Some(nodes) = valkey(&[]) else { return };
    let direct: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let links: Vec<RelayHandle> = direct.iter().map(|node| link(*node)).collect();
    let announced: Vec<SocketAddr> = links.iter().map(RelayHandle::local_addr).collect();
    for (node, link) in direct.iter().zip(&announced) {
        let mut command = cmd("CONFIG");
        command.arg("SET").arg("cluster-announce-port").arg(link.port());
        command.exec(&mut connection(*node)).expect("it is announced");
    }
    agree_on(&direct, &announced);
    Cluster { direct, links: &links }
        .refuses_and_takes_back("refuses keys: Ran out of memory (OOM) during slot import");
}

struct Cluster<'a> {
    direct: Vec<SocketAddr>,
    links: &'a [RelayHandle],
}

impl Cluster<'_> {
    fn refuses_and_takes_back(&self, refusal: &str) {
        for (link, delay_ms) in self.links.iter().zip(DELAYS_MS) {
            let delay = Duration::from_millis(delay_ms);
            link.set_delay(delay, delay);
        }
        let nodes: Vec<SocketAddr> = self.links.iter().map(RelayHandle::local_addr).collect();
        let [large, small, _] = tags_at(&nodes, FARTHER);
        let agent = Agent::start(&nodes);
        let mut client = connection(agent.address());
        fill(&mut client, &large, &small);
        // The large slot takes about 11 MB; the placer knows only the mean size of keys, and
        // therefore estimates a fiftieth of that.
        self.limit(self.memory() + (4 << 20));
        self.is_refused_to_a_placer(&nodes, agent.address(), &large, refusal);

        let (output, text) = said(&nodes, &["doctor"]);
        assert!(output.status.success() && text.contains("no slot is open"), "{text}");
        check(&mut client, &large);
        // A manual move reports the refusal at once, and succeeds once there is room.
        let target = nodes[NEAR].to_string();
        let (output, text) = said(&nodes, &["move", &large, "--to", &target]);
        assert!(!output.status.success() && text.contains(refusal), "{text}");
        self.limit(0);
        let (output, text) = said(&nodes, &["move", &large, "--to", &target]);
        assert!(output.status.success(), "{text}");
        assert_eq!(owner(&nodes, slot_of(&large)), NEAR);
        check(&mut client, &large);
    }

    fn is_refused_to_a_placer(
        &self,
        nodes: &[SocketAddr],
        agent: SocketAddr,
        large: &str,
        refusal: &str,
    ) {
        let why = || said(nodes, &["why", large]).1;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _ends = Ends(&over);
            // Concurrent reads return the current value. Writes may be refused for lack of memory.
            scope.spawn(|| {
                let mut client = connection(agent);
                for number in (0..KEYS).cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
                    let found: Option<String> =
                        cmd("GET").arg(key(large, number)).query(&mut client).expect("an answer");
                    assert!(found == Some(value(number)), "key {number} while its slot is moved");
                }
            });
            let placer = placer_with(nodes, "hopeful", &[]);
            let refused = placer.stderr_line("not moved: ");
            let refused = refused.unwrap_or_else(|| panic!("{}", placer.stderr()));
            assert!(refused.contains(refusal), "{refused}");
            let told = || why().contains("its last move failed");
            wait_for(told, || format!("{}\n{}", why(), placer.stderr()));
            assert!(why().contains(refusal), "{}", why());
            let status = said(nodes, &["status"]).1;
            assert!(status.contains("failed: 1") && status.contains(refusal), "{status}");
            let slot = slot_of(large);
            assert_eq!(owner(nodes, slot), FARTHER);
            let count = |node: usize| -> usize {
                let mut command = cmd("CLUSTER");
                command.arg("COUNTKEYSINSLOT").arg(slot);
                command.query(&mut connection(self.direct[node])).expect("a number")
            };
            assert_eq!((count(NEAR), count(FARTHER)), (0, KEYS));
            placer.terminate();
        });
    }

    /// Memory used by the near node, in bytes.
    fn memory(&self) -> usize {
        let info: String = cmd("INFO")
            .arg("memory")
            .query(&mut connection(self.direct[NEAR]))
            .expect("what it uses");
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        used.expect("its memory").trim().parse().expect("bytes")
    }

    /// Sets the memory limit of the near node, in bytes; 0 is no limit.
    fn limit(&self, bytes: usize) {
        let mut command = cmd("CONFIG");
        command.arg("SET").arg("maxmemory").arg(bytes);
        command.exec(&mut connection(self.direct[NEAR])).expect("a limit");
    }
}

fn key(tag: &str, number: usize) -> String {
    format!("{tag}:{number}")
}

fn value(number: usize) -> String {
    number.to_string().repeat(10_000)
}

/// A few large keys, every other one with a TTL, and many small ones.
fn fill(client: &mut redis::Connection, large: &str, small: &str) {
    let mut pipeline = redis::pipe();
    for number in 0..KEYS {
        pipeline.cmd("SET").arg(key(large, number)).arg(value(number)).ignore();
        if number % 2 == 0 {
            pipeline.cmd("EXPIRE").arg(key(large, number)).arg(3_600).ignore();
        }
    }
    pipeline.query::<()>(client).expect("they are set");
    let mut pipeline = redis::pipe();
    for number in 0..20_000 {
        pipeline.cmd("SET").arg(key(small, number)).arg(number).ignore();
    }
    pipeline.query::<()>(client).expect("they are set");
}

/// Checks that every large key is unchanged.
fn check(client: &mut redis::Connection, large: &str) {
    for number in 0..KEYS {
        let (found, left): (String, i64) = redis::pipe()
            .cmd("GET")
            .arg(key(large, number))
            .cmd("TTL")
            .arg(key(large, number))
            .query(client)
            .expect("a value");
        assert!(found == value(number), "key {number}");
        assert_eq!(left > 3_000, number % 2 == 0, "key {number} has {left} s to live");
    }
}
