//! A Redis Cluster of which each node has a feed: writes made directly at its nodes are seen, also
//! while slots move and after a failover, and nothing is served while a feed is down.

use std::net::SocketAddr;

use crate::support::cluster::{GONE, NODES, agree, cluster, connection, id, told};
use crate::support::enroute::Cache;
use crate::support::origins::Redis;
use crate::support::process::until;
use crate::support::raw::Raw;

const OPTIONS: &str = "cluster = \"shop\"\nfeed = {}";
/// Entries do not expire while a test waits for a report.
const STORAGE: &str = "[storage]\nttl = \"60min\"\n";
/// A key of a slot that moves, and one that is absent until it is written after a move.
const SLOT: u16 = 12_182;
const KEYS: [&str; 2] = ["foo", "{foo}absent"];

#[test]
fn writes_at_each_node_are_reported_by_its_own_feed() {
    let Some(nodes) = cluster(&[]) else { return };
    let cache = start(&nodes);
    for node in &nodes {
        let mut around = Raw::connect(node.address());
        let owns = |key: &String| {
            around.command(&format!("SET {key} 0"));
            around.hear_line() == "+OK\r\n"
        };
        let key = (0..).map(|number| format!("key{number}")).find(owns).expect("it owns slots");
        for round in 1..4 {
            is_a_hit(&cache, &key);
            around.ask(&format!("SET {key} {round}"), "+OK\r\n");
            becomes(&cache, &key, Some(&round.to_string()));
        }
    }
}

#[test]
fn writes_around_a_cached_cluster_are_seen_while_slots_move() {
    let Some(nodes) = cluster(&[]) else { return };
    let cache = start(&nodes);
    let ids: Vec<String> = nodes.iter().map(|node| id(&mut node.connection())).collect();
    let mut owner = owner(&nodes);
    for round in 0..12 {
        let mut around = Raw::connect(nodes[owner].address());
        around.ask(&format!("SET {} {round}", KEYS[0]), "+OK\r\n");
        around.command(&format!("DEL {}", KEYS[1]));
        around.hear_line();
        becomes(&cache, KEYS[0], Some(&round.to_string()));
        becomes(&cache, KEYS[1], None);
        KEYS.iter().for_each(|key| is_a_hit(&cache, key));

        let next = (owner + 1) % NODES;
        begin_move(&nodes, &ids, (owner, next));
        // A write in the middle of the move, at the node that has the key by then.
        let mut around = Raw::connect(nodes[next].address());
        around.ask("ASKING", "+OK\r\n");
        around.ask(&format!("SET {} asked{round}", KEYS[0]), "+OK\r\n");
        becomes(&cache, KEYS[0], Some(&format!("asked{round}")));
        for node in [next, owner] {
            let mut direct = Raw::connect(nodes[node].address());
            direct.ask(&format!("CLUSTER SETSLOT {SLOT} NODE {}", ids[next]), "+OK\r\n");
        }
        for key in KEYS {
            around.ask(&format!("SET {key} moved{round}"), "+OK\r\n");
            becomes(&cache, key, Some(&format!("moved{round}")));
        }
        owner = next;
    }
}

/// redis-server 7.0 deletes the keys of a slot that it has lost without a report.
#[test]
fn keys_of_a_slot_that_is_taken_over_are_no_longer_served() {
    let Some(nodes) = cluster(&[]) else { return };
    let cache = start(&nodes);
    let taker = (owner(&nodes) + 1) % NODES;
    becomes(&cache, "foo", Some("0"));
    is_a_hit(&cache, "foo");
    let own = id(&mut nodes[taker].connection());
    let mut taker = Raw::connect(nodes[taker].address());
    taker.ask(&format!("CLUSTER SETSLOT {SLOT} NODE {own}"), "+OK\r\n");
    taker.command("CLUSTER BUMPEPOCH");
    taker.hear_line();
    becomes(&cache, "foo", None);
}

#[test]
fn nothing_of_a_cluster_is_served_without_its_feeds_and_a_promoted_replica_is_followed() {
    let Some(mut nodes) = cluster(&[]) else { return };
    let primary = owner(&nodes);
    nodes.push(replica_of(&nodes[primary]));
    agree(&nodes.iter().map(Redis::address).collect::<Vec<_>>());
    let cache = start(&nodes);
    Raw::connect(nodes[primary].address()).ask("SET foo before", "+OK\r\n");
    becomes(&cache, "foo", Some("before"));
    is_a_hit(&cache, "foo");
    let mut replica = nodes[NODES].connection();
    until("replicated", || {
        let keys: i64 = redis::cmd("DBSIZE").query(&mut replica).expect("a number");
        keys == 1
    });

    nodes[primary].bring_down();
    cache.log_line("feed lost");
    redis::cmd("CLUSTER").arg("FAILOVER").arg("TAKEOVER").exec(&mut replica).expect("promoted");
    let mut around = Raw::connect(nodes[NODES].address());
    until("the promoted node accepts writes", || {
        around.command("SET foo after");
        around.hear_line() == "+OK\r\n"
    });
    let hits = cache.hits();
    for round in 0..50 {
        around.ask(&format!("SET foo after{round}"), "+OK\r\n");
        let mut through = Raw::connect(cache.addresses()[NODES]);
        let value = format!("after{round}");
        through.ask("GET foo", &format!("${}\r\n{value}\r\n", value.len()));
    }
    assert_eq!(cache.hits(), hits, "served without the feed of a node");

    nodes[primary].bring_up();
    is_a_hit(&cache, "foo");
    around.ask("SET foo again", "+OK\r\n");
    becomes(&cache, "foo", Some("again"));
}

/// A cache with a listener for each node. Nothing is a hit before all feeds are established.
fn start(nodes: &[Redis]) -> Cache {
    let listeners: Vec<_> = nodes.iter().map(|node| ("redis", node.address(), OPTIONS)).collect();
    Cache::start_all(&listeners, STORAGE)
}

fn owner(nodes: &[Redis]) -> usize {
    let owns = |node: &Redis| {
        let mut direct = Raw::connect(node.address());
        direct.command("SET foo 0");
        direct.hear_line() == "+OK\r\n"
    };
    nodes.iter().position(owns).expect("the slot has an owner")
}

/// Moves the keys of the slot, not yet the slot.
fn begin_move(nodes: &[Redis], ids: &[String], (from, to): (usize, usize)) {
    let [mut source, mut target] = [from, to].map(|node| Raw::connect(nodes[node].address()));
    target.ask(&format!("CLUSTER SETSLOT {SLOT} IMPORTING {}", ids[from]), "+OK\r\n");
    source.ask(&format!("CLUSTER SETSLOT {SLOT} MIGRATING {}", ids[to]), "+OK\r\n");
    let port = nodes[to].address().port();
    source.ask(&format!("MIGRATE 127.0.0.1 {port} {} 0 60000", KEYS[0]), "+OK\r\n");
}

fn replica_of(primary: &Redis) -> Redis {
    let all = [&["--cluster-enabled", "yes"], &GONE[..]].concat();
    let replica = Redis::start_with(&all).expect("redis-server is installed");
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
    replica
}

/// Waits until a client that follows redirections reads this through the cache, at each listener.
fn becomes(cache: &Cache, key: &str, value: Option<&str>) {
    for listener in cache.addresses() {
        until(&format!("{key} is {value:?} through {listener}"), || {
            get(*listener, key).is_ok_and(|told| told.as_deref() == value)
        });
    }
}

fn is_a_hit(cache: &Cache, key: &str) {
    let mut through = cache.addresses().iter().cycle();
    until(&format!("a hit of {key}"), || {
        let hits = cache.hits();
        let listener = through.next().expect("endless");
        get(*listener, key).is_ok() && cache.hits() > hits
    });
}

/// The value of a key, at the node to which the listener redirects; the error of the node.
fn get(listener: SocketAddr, key: &str) -> Result<Option<String>, String> {
    let mut at = listener;
    for redirections in 0..5 {
        let mut client = connection(at);
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
