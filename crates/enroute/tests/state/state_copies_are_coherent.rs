//! Agents serve reads of chosen slots from copies that are never stale: a write through the same
//! agent is visible once it is acknowledged, a write through another agent soon after, and an agent
//! that is disconnected stops serving copies when their lease elapses.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::cluster::{Linked, cluster, connection, valkey};
use crate::support::origins::Redis;
use crate::support::process::{PATIENCE, Process};
use crate::support::state::{self, Agent, placer, said};
use redis::cmd;

/// Equal to `state::agent::COPY_LEASE`.
const LEASE: Duration = Duration::from_secs(1);
const KEY: &str = "{everywhere}:policy";

fn slot_of(key: &str, node: SocketAddr) -> String {
    let slot: u16 =
        cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut connection(node)).expect("a slot");
    slot.to_string()
}

/// Tells all agents which slot to copy, as the placer does.
fn choose(agent: SocketAddr, slot: &str) {
    cmd("SET").arg("{enroute}:copies").arg(slot).exec(&mut connection(agent)).expect("it is set");
}

fn get(connection: &mut redis::Connection) -> String {
    cmd("GET").arg(KEY).query(connection).expect("a value")
}

/// Reads until the agent returns a value that was written just now; a read after the end of a lease
/// gets an error.
fn until_it_reads(client: &mut redis::Connection, value: &str) {
    let written = Instant::now();
    loop {
        // Measured before the reply, whose own duration depends on the machine.
        let asked = written.elapsed();
        let found = get(client);
        if found == value {
            return;
        }
        assert!(asked < LEASE, "answered with {found:?}, {asked:?} after {value:?} was written");
    }
}

/// Reads until the agent serves the value from a copy.
fn until_copied(client: &mut redis::Connection, nodes: &[SocketAddr]) {
    state::until_copied(client, KEY, nodes, connection);
}

/// A cluster, an agent that serves a key from a copy, and a client of the agent.
struct Copying {
    redis: Vec<Redis>,
    nodes: Vec<SocketAddr>,
    _agent: Agent,
    client: redis::Connection,
}

impl Copying {
    /// As `start`, with options of redis-server.
    fn start(options: &[&str]) -> Option<Self> {
        let redis = cluster(options)?;
        let nodes: Vec<SocketAddr> = redis.iter().map(Redis::address).collect();
        let agent = Agent::start(&nodes);
        let mut client = connection(agent.address());
        choose(agent.address(), &slot_of(KEY, nodes[0]));
        cmd("SET").arg(KEY).arg("before").exec(&mut client).expect("it is set");
        until_copied(&mut client, &nodes);
        Some(Self { redis, nodes, _agent: agent, client })
    }
}

#[test]
fn a_write_is_seen_where_it_was_acknowledged_and_soon_everywhere() {
    let Some(redis) = cluster(&[]) else { return };
    coherent(&redis.iter().map(Redis::address).collect::<Vec<_>>());
}

/// The same with an engine that moves a slot in one step.
#[test]
fn a_write_is_seen_likewise_on_valkey() {
    let Some(nodes) = valkey(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    coherent(&addresses);
}

fn coherent(nodes: &[SocketAddr]) {
    let (here, there) = (Agent::start(nodes), Agent::start(nodes));
    let (mut writer, mut reader) = (connection(here.address()), connection(here.address()));
    let mut elsewhere = connection(there.address());
    let slot = slot_of(KEY, nodes[0]);
    choose(here.address(), &slot);
    cmd("SET").arg(KEY).arg("0").exec(&mut writer).expect("it is set");
    until_copied(&mut reader, nodes);
    until_copied(&mut elsewhere, nodes);
    for number in 1..=3_000_u32 {
        // Every other write uses another connection than the reads of copies.
        let number = number.to_string();
        let script = "return redis.call('SET', KEYS[1], ARGV[1])";
        let write = if number.ends_with(['1', '3', '5', '7', '9']) {
            cmd("EVAL").arg(script).arg(1).arg(KEY).arg(&number).clone()
        } else {
            cmd("SET").arg(KEY).arg(&number).clone()
        };
        write.exec(&mut writer).expect("it is set");
        assert_eq!(get(&mut reader), number, "read after it was acknowledged");
        if number.ends_with("00") {
            // Creates a copy for the next write to drop, and reads this write through the other
            // agent.
            get(&mut reader);
            until_it_reads(&mut elsewhere, &number);
        }
    }
    // The slot moves away and back, and is written at the other node in between.
    let owner = nodes
        .iter()
        .position(|node| cmd("GET").arg(KEY).query::<String>(&mut connection(*node)).is_ok());
    let (from, to) = (nodes[owner.expect("an owner")], nodes[(owner.expect("one") + 1) % 3]);
    until_copied(&mut elsewhere, nodes);
    for (round, target) in [to, from, to].into_iter().enumerate() {
        let (output, text) = said(nodes, &["move", KEY, "--to", &target.to_string()]);
        assert!(output.status.success(), "{text}");
        let value = format!("moved {round}");
        cmd("SET").arg(KEY).arg(&value).exec(&mut connection(target)).expect("its owner takes it");
        until_it_reads(&mut elsewhere, &value);
        until_copied(&mut elsewhere, nodes);
    }
}

/// A copy expires together with its key.
#[test]
fn a_copy_expires_with_its_key() {
    let Some(copying) = Copying::start(&["--enable-debug-command", "yes"]) else { return };
    let Copying { nodes, mut client, .. } = copying;
    // The nodes do not expire keys actively, only on access.
    for node in &nodes {
        let mut node = connection(*node);
        cmd("DEBUG").arg("SET-ACTIVE-EXPIRE").arg(0).exec(&mut node).expect("debug commands");
    }
    // On a busy machine a longer TTL may be needed for as many reads.
    let is_read_often = |lives: Duration| {
        let mut set = cmd("SET");
        set.arg(KEY).arg("1").arg("PX").arg(lives.as_millis() as u64);
        set.exec(&mut client).expect("it is set");
        let written = Instant::now();
        for seen in 0.. {
            let asked = written.elapsed();
            let value: Option<String> = cmd("GET").arg(KEY).query(&mut client).expect("an answer");
            if value.is_none() {
                return seen > 100;
            }
            assert!(asked < lives + Duration::from_millis(100), "a copy outlives its key");
        }
        false
    };
    let lives = [700, 3_000, 20_000].map(Duration::from_millis);
    assert!(lives.into_iter().any(is_read_often), "a hundred reads take 20 s");
}

/// A path to a node that can be cut: then nothing passes, and no connection is reset.
struct Wire {
    node: SocketAddr,
    address: SocketAddr,
    cut: Arc<AtomicBool>,
}

impl Wire {
    fn new(listener: TcpListener, node: SocketAddr) -> Self {
        let address = listener.local_addr().expect("an address");
        let cut = Arc::new(AtomicBool::new(false));
        let is_cut = Arc::clone(&cut);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let Ok(node) = TcpStream::connect(node) else { return };
                for (from, to) in [(&stream, &node), (&node, &stream)] {
                    let (from, to) = (from.try_clone(), to.try_clone());
                    let (Ok(from), Ok(to)) = (from, to) else { return };
                    let is_cut = Arc::clone(&is_cut);
                    thread::spawn(move || carry(from, to, &is_cut));
                }
            }
        });
        Self { node, address, cut }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        while is_cut.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn an_agent_that_is_cut_off_does_not_answer_from_copies_for_long() {
    // The node announces the address of the wire as its own.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let options = ["--cluster-enabled", "yes", "--cluster-announce-port", &port];
    let Some(redis) = Redis::start_with(&options) else { return };
    let node = redis.address();
    let mut direct = connection(node);
    cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16_383).exec(&mut direct).expect("slots");
    let wire = Wire::new(listener, node);
    let agent = Agent::start(&[wire.address]);
    choose(agent.address(), &slot_of(KEY, node));
    // On a busy machine the lease may elapse before the first request.
    let is_answered = |_| is_answered_for_a_while(&agent, &wire, &mut direct);
    assert!((0..10).any(is_answered), "no copy is answered from once the agent is cut off");
}

/// Cuts the agent off and reads until it no longer replies; returns whether it replied before.
fn is_answered_for_a_while(agent: &Agent, wire: &Wire, direct: &mut redis::Connection) -> bool {
    let mut client = connection(agent.address());
    cmd("SET").arg(KEY).arg("before").exec(&mut client).expect("it is set");
    until_copied(&mut client, &[wire.node]);

    wire.cut.store(true, Relaxed);
    let cut = Instant::now();
    cmd("SET").arg(KEY).arg("after").exec(direct).expect("it is set");
    client.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let mut answered = false;
    loop {
        let asked = cut.elapsed();
        // The agent forwards the read, and the node does not reply.
        let Ok(value) = cmd("GET").arg(KEY).query::<String>(&mut client) else { break };
        assert_eq!(value, "before", "nothing else can have passed");
        assert!(asked < LEASE, "answered from a copy {asked:?} after the agent was cut off");
        answered = true;
    }
    // It may only have been slow.
    thread::sleep(LEASE.saturating_sub(cut.elapsed()));
    wire.cut.store(false, Relaxed);
    assert_eq!(get(&mut connection(agent.address())), "after");
    answered
}

#[test]
fn a_node_that_is_cut_off_with_the_agent_proves_no_copy() {
    let Some(copying) = Copying::start(&["--cluster-node-timeout", "2000"]) else { return };
    let Copying { redis, mut client, .. } = copying;
    let has = |node: &Redis| cmd("GET").arg(KEY).query::<String>(&mut node.connection()).is_ok();
    let (owner, others): (Vec<&Redis>, Vec<&Redis>) = redis.iter().partition(|node| has(node));
    let [owner] = owner[..] else { panic!("one node owns {KEY}") };

    // Otherwise the other nodes could elect a new owner, whose writes would not be visible here.
    others.iter().for_each(|node| node.process().stop());
    let mut direct = owner.connection();
    let cut = Instant::now();
    let info = || -> String { cmd("CLUSTER").arg("INFO").query(&mut direct).expect("it answers") };
    let fails = std::iter::repeat_with(info).any(|info| {
        assert!(cut.elapsed() < PATIENCE, "{info}");
        info.contains("cluster_state:fail")
    });
    assert!(fails);
    let failed = Instant::now();
    client.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    loop {
        let asked = failed.elapsed();
        if cmd("GET").arg(KEY).query::<String>(&mut client).is_err() {
            break;
        }
        assert!(asked < LEASE * 2, "answered from a copy of a node that is cut off");
    }
    others.iter().for_each(|node| node.process().signal("CONT"));
}

/// Nothing is configured: the placer finds the slot and informs the agents.
#[test]
fn what_is_read_everywhere_is_found_and_copied() {
    let Some(linked) = Linked::start(&[]) else { return };
    for link in &linked.links {
        link.set_delay(Duration::from_millis(1), Duration::from_millis(1));
    }
    let nodes = linked.addresses();
    let agents = [Agent::start(&nodes), Agent::start(&nodes)];
    let status = || said(&nodes, &["status"]).1;
    let until = |holds: &dyn Fn(&str) -> bool, placer: &Process| {
        let started = Instant::now();
        while !holds(&status()) {
            assert!(started.elapsed() < PATIENCE, "{}\n{}", status(), placer.stderr());
            thread::sleep(Duration::from_millis(100));
        }
    };
    // A leader that is to have no copies ends those of the leader before it.
    choose(agents[0].address(), &slot_of(KEY, nodes[0]));
    let plain = state::placer_with(&nodes, "plain", &["--copies", "off"]);
    let chosen = || -> String {
        cmd("GET")
            .arg("{enroute}:copies")
            .query(&mut connection(agents[0].address()))
            .expect("a list")
    };
    until(&|_| chosen().is_empty(), &plain);
    plain.terminate();
    let placer = placer(&nodes, "placer");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for agent in &agents {
            scope.spawn(|| {
                let mut client = connection(agent.address());
                for turn in 0_u64.. {
                    match turn % 11 {
                        0 => cmd("SET").arg(KEY).arg("0").exec(&mut client).expect("it is set"),
                        _ => assert_eq!(get(&mut client), "0"),
                    }
                    if over.load(Relaxed) {
                        return;
                    }
                }
            });
        }
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until(&|said| said.contains("agents keep copies of: 1"), &placer);
        }));
        over.store(true, Relaxed);
        found.expect("the placer finds it");
    });
    let why = said(&nodes, &["why", KEY]).1;
    assert!(why.contains("read by several hosts: agents keep copies"), "{why}");
    for agent in &agents {
        until_copied(&mut connection(agent.address()), &nodes);
    }
    // No client reads the slot any more.
    until(&|said| said.contains("agents keep copies of: 0"), &placer);
}
