//! A cache in front of a cluster whose nodes all have a feed.

use std::net::SocketAddr;

use super::cluster::{GONE, agree, connection, id, told};
use super::enroute::Cache;
use super::origins::Redis;
use super::process::until;
use super::raw::Raw;

const OPTIONS: &str = "cluster = \"shop\"\nfeed = {}";
/// Entries do not expire while a test waits for a report.
const STORAGE: &str = "[storage]\nttl = \"60min\"\n";

/// Starts three nodes with options: of Redis or of Valkey.
pub type Engine = fn(&[&str]) -> Option<Vec<Redis>>;

/// Options of nodes that elect a replica soon, however old its data are.
pub const ELECTING: [&str; 4] =
    ["--cluster-node-timeout", "5000", "--cluster-replica-validity-factor", "0"];

/// A cache with a listener for each node. Nothing is a hit before all feeds are established.
pub fn start(nodes: &[Redis]) -> Cache {
    let listeners: Vec<_> = nodes.iter().map(|node| ("redis", node.address(), OPTIONS)).collect();
    Cache::start_all(&listeners, STORAGE)
}

/// The node that accepts writes of this key.
pub fn owner(nodes: &[Redis], key: &str) -> usize {
    let owns = |node: &Redis| {
        let mut direct = Raw::connect(node.address());
        direct.command(&format!("SET {key} 0"));
        direct.hear_line() == "+OK\r\n"
    };
    let mut owner = None;
    until("the slot has an owner", || {
        owner = nodes.iter().position(owns);
        owner.is_some()
    });
    owner.expect("found")
}

/// Writes a key at its owner. A node on a busy machine may refuse it for a while.
pub fn set(node: SocketAddr, key: &str, value: &str) {
    let mut direct = Raw::connect(node);
    until(&format!("{key} is written at {node}"), || {
        direct.command(&format!("SET {key} {value}"));
        direct.hear_line() == "+OK\r\n"
    });
}

/// A replica of one of the nodes, which all know it.
pub fn add_replica(nodes: &mut Vec<Redis>, primary: usize, options: &[&str]) {
    let all = [&["--cluster-enabled", "yes"], &GONE[..], options].concat();
    let primary = &nodes[primary];
    let replica = primary.another(&all);
    let mut direct = replica.connection();
    let (host, port) = (primary.address().ip().to_string(), primary.address().port());
    redis::cmd("CLUSTER").arg("MEET").arg(host).arg(port).exec(&mut direct).expect("it joins");
    let of = id(&mut primary.connection());
    until("a replica", || {
        redis::cmd("CLUSTER").arg("REPLICATE").arg(&of).exec(&mut direct).is_ok()
    });
    let own = id(&mut direct);
    until("its primary has it", || {
        let nodes: String =
            redis::cmd("CLUSTER").arg("NODES").query(&mut primary.connection()).expect("nodes");
        nodes.contains(&own) && told(&mut primary.connection(), &own)[1].contains("slave")
    });
    until("it follows", || is_in_step(&replica));
    nodes.push(replica);
    agree(&nodes.iter().map(Redis::address).collect::<Vec<_>>());
}

/// Whether a replica is connected to its primary.
pub fn is_in_step(replica: &Redis) -> bool {
    let info: String =
        redis::cmd("INFO").arg("replication").query(&mut replica.connection()).expect("told");
    info.contains("role:slave") && info.contains("master_link_status:up")
}

pub fn is_primary(node: &Redis) -> bool {
    let info: String =
        redis::cmd("INFO").arg("replication").query(&mut node.connection()).expect("told");
    info.contains("role:master")
}

/// Moves a slot with its keys, as `redis-cli --cluster reshard` does.
pub fn move_slot(slot: usize, from: SocketAddr, to: SocketAddr) {
    let mut nodes = [from, to].map(connection);
    let ids = nodes.each_mut().map(id);
    let mut set = |node: usize, state: &str, other: usize| {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SETSLOT").arg(slot).arg(state).arg(&ids[other]);
        command.exec(&mut nodes[node]).expect("a slot of theirs");
    };
    set(1, "IMPORTING", 0);
    set(0, "MIGRATING", 1);
    let mut source = connection(from);
    loop {
        let mut ask = redis::cmd("CLUSTER");
        let keys: Vec<String> =
            ask.arg("GETKEYSINSLOT").arg(slot).arg(100).query(&mut source).expect("keys");
        if keys.is_empty() {
            break;
        }
        let mut migrate = redis::cmd("MIGRATE");
        migrate.arg(to.ip().to_string()).arg(to.port()).arg("").arg(0).arg(60_000);
        migrate.arg("KEYS").arg(keys).exec(&mut source).expect("moved");
    }
    set(1, "NODE", 1);
    set(0, "NODE", 1);
}

/// Kills the primary after a write that it acknowledges and the replica never receives.
/// `act` is called while the replica is stopped: with true before the kill, with false after it.
pub fn kill_with_lost_write(
    nodes: &mut [Redis],
    (primary, replica): (usize, usize),
    (key, value): (&str, &str),
    mut act: impl FnMut(bool),
) {
    let mut direct = nodes[primary].connection();
    // WAIT says it of the writes of its own connection only.
    let written = offset(&mut direct, "master_repl_offset:");
    let mut other = nodes[replica].connection();
    until("the replica has all writes before", || {
        offset(&mut other, "slave_repl_offset:") >= written
    });
    nodes[replica].process().stop();
    // What is sent to a stopped replica waits in its socket, so the connection must go first.
    until("the replica is cut off", || {
        let kill = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica").clone();
        let _: i64 = kill.query(&mut direct).expect("a number");
        let info: String = redis::cmd("INFO").arg("replication").query(&mut direct).expect("told");
        info.contains("connected_slaves:0")
    });
    set(nodes[primary].address(), key, value);
    act(true);
    nodes[primary].bring_down();
    act(false);
    nodes[replica].process().signal("CONT");
}

/// A position in the stream of writes, as INFO has it.
fn offset(node: &mut redis::Connection, name: &str) -> u64 {
    let info: String = redis::cmd("INFO").arg("replication").query(node).expect("told");
    let number = info.lines().find_map(|line| line.strip_prefix(name)).expect("a replicated node");
    number.parse().expect("a number")
}

/// Waits until a client that follows redirections reads this through the cache, at each listener.
pub fn becomes(listeners: &[SocketAddr], key: &str, value: Option<&str>) {
    for listener in listeners {
        until(&format!("{key} is {value:?} through {listener}"), || {
            get(*listener, key).is_ok_and(|told| told.as_deref() == value)
        });
    }
}

/// Waits until a read through one of the listeners is a hit; returns the value.
pub fn is_a_hit(cache: &Cache, listeners: &[SocketAddr], key: &str) -> Option<String> {
    let mut through = listeners.iter().cycle();
    let mut value = None;
    until(&format!("a hit of {key}"), || {
        let hits = cache.hits();
        let told = get(*through.next().expect("endless"), key);
        let is_hit = told.is_ok() && cache.hits() > hits;
        value = told.ok().flatten();
        is_hit
    });
    value
}

fn reach(node: SocketAddr) -> Option<redis::Connection> {
    let client = redis::Client::open(format!("redis://{node}/")).expect("a URL");
    client.get_connection().ok()
}

/// The value of a key, at the node to which the listener redirects; the error of the node.
pub fn get(listener: SocketAddr, key: &str) -> Result<Option<String>, String> {
    let mut at = listener;
    for redirections in 0..5 {
        let Some(mut client) = reach(at) else { return Err(format!("{at} is down")) };
        if redirections > 0 {
            // Both kinds of redirection are followed, and a node that owns the slot ignores it.
            redis::cmd("ASKING").exec(&mut client).map_err(|error| error.to_string())?;
        }
        let reply: redis::RedisResult<Option<String>> =
            redis::cmd("GET").arg(key).query(&mut client);
        match reply {
            Ok(value) => return Ok(value),
            Err(error) => match error.redirect_node() {
                Some((node, _)) => at = node.parse().expect("an address"),
                None => return Err(error.to_string()),
            },
        }
    }
    Err("too many redirections".to_owned())
}
