//! A moved slot belongs to its new node, with its keys, even if a node still receives old messages
//! of the earlier owner. A slot that has lost its owner nevertheless is assigned to the node with
//! its keys.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::support::cluster::{bus_behind_link, cluster, connection, id, told};
use crate::support::origins::Redis;
use crate::support::state::{owner, owner_now, placer, said, slot_of, tags_at, wait_for};
use redis::{Connection, cmd};

/// Longer than a move including the start of the program.
const LATE: Duration = Duration::from_millis(2_500);

const SOURCE: usize = 0;
const TARGET: usize = 1;
const OTHER: usize = 2;

/// The target once received that the slot's owner does not own it, and later that it does: it
/// remembers the former after taking the slot (Redis 7.0.12 to 7.0.15). Then an older message of
/// the source arrives.
#[test]
fn a_claim_that_comes_late_takes_no_slot_away() {
    let Some(mut nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let link = bus_behind_link(&mut nodes, SOURCE, &[TARGET]);
    let [tag, ..] = tags_at(&addresses, SOURCE);
    disowned(&nodes, &tag);

    let mut target = connection(addresses[TARGET]);
    let source = id(&mut connection(addresses[SOURCE]));
    link.set_delay(Duration::ZERO, LATE);
    let waits = |target: &mut Connection| told(target, &source)[3] != "0";
    wait_for(|| !waits(&mut connection(addresses[TARGET])), || "it is not answered".to_owned());
    while !waits(&mut target) {
        thread::sleep(Duration::from_millis(1));
    }
    let (output, text) = said(&addresses, &["move", &tag, "--to", &addresses[TARGET].to_string()]);
    assert!(output.status.success(), "{text}");
    hears(&addresses, TARGET, SOURCE);
    has_keys(&addresses, &tag, TARGET);
}

/// As above, with an unacknowledged broadcast that the source sent after taking another slot.
#[test]
fn a_recent_broadcast_of_the_source_takes_no_slot_away() {
    let Some(mut nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let link = bus_behind_link(&mut nodes, TARGET, &[SOURCE]);
    let [tag, ..] = tags_at(&addresses, SOURCE);
    let [first, second, ..] = tags_at(&addresses, OTHER);
    disowned(&nodes, &tag);

    let [mut source, mut other] = [SOURCE, OTHER].map(|node| connection(addresses[node]));
    let (source_id, other_id) = (id(&mut source), id(&mut other));
    let mut take = |tag: &str| {
        set(&mut other, slot_of(tag), "NODE", &source_id);
        set(&mut source, slot_of(tag), "IMPORTING", &other_id);
        set(&mut source, slot_of(tag), "NODE", &source_id);
    };
    // Its epoch is known to all nodes; taking the second slot does not change it.
    take(&first);
    let epoch = |node: usize| told(&mut connection(addresses[node]), &source_id)[6].clone();
    let known = || epoch(SOURCE) == epoch(TARGET) && epoch(SOURCE) == epoch(OTHER);
    wait_for(known, || "its epoch is not known".to_owned());
    link.set_delay(LATE, Duration::ZERO);
    take(&second);
    let relocate = || said(&addresses, &["move", &tag, "--to", &addresses[TARGET].to_string()]);
    let (output, text) = relocate();
    assert!(!output.status.success() && text.contains("over the cluster bus"), "{text}");
    has_keys(&addresses, &tag, SOURCE);
    link.set_delay(Duration::ZERO, Duration::ZERO);
    wait_for(|| relocate().0.status.success(), || relocate().1);
    hears(&addresses, SOURCE, TARGET);
    has_keys(&addresses, &tag, TARGET);
}

/// Makes a slot of the source, with keys, of which the target once received that its owner does not
/// own it.
fn disowned(nodes: &[Redis], tag: &str) {
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let [mut source, mut target] = [SOURCE, TARGET].map(|node| connection(addresses[node]));
    for key in keys(tag) {
        cmd("SET").arg(&key).arg(1).exec(&mut source).expect("it is set");
    }
    let [source_id, other_id] = [SOURCE, OTHER].map(|node| id(&mut connection(addresses[node])));
    // Otherwise it would announce the owner to the target.
    nodes[SOURCE].process().stop();
    set(&mut target, slot_of(tag), "NODE", &other_id);
    hears(&addresses, TARGET, OTHER);
    set(&mut target, slot_of(tag), "NODE", &source_id);
    nodes[SOURCE].process().signal("CONT");
}

/// Waits until node `one` receives a reply of node `another`.
fn hears(nodes: &[SocketAddr], one: usize, another: usize) {
    let another = id(&mut connection(nodes[another]));
    let heard = || -> u64 {
        let told = told(&mut connection(nodes[one]), &another);
        told[4].parse().expect("when it last answered")
    };
    let before = heard();
    wait_for(|| heard() > before, || "one node does not answer the other".to_owned());
}

#[test]
fn a_slot_without_an_owner_goes_to_the_node_with_its_keys() {
    let Some(nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let [tag, other, third] = tags_at(&addresses, 0);

    lose(&addresses, &tag);
    let (output, text) = said(&addresses, &["doctor", "--dry-run"]);
    let finding = format!("slot {} has no owner", slot_of(&tag));
    assert!(!output.status.success() && text.contains(&finding), "{text}");
    let (output, text) = said(&addresses, &["doctor"]);
    assert!(output.status.success(), "{text}");
    has_keys(&addresses, &tag, 1);

    // Moving the slot assigns its owner.
    lose(&addresses, &other);
    let (output, text) = said(&addresses, &["move", &other, "--to", &addresses[2].to_string()]);
    assert!(output.status.success(), "{text}");
    has_keys(&addresses, &other, 2);

    // The slot of the lease, too.
    let lease = "{enroute}";
    lose(&addresses, lease);
    let (output, text) = said(&addresses, &["doctor"]);
    assert!(output.status.success(), "{text}");
    has_keys(&addresses, lease, 1);

    lose(&addresses, &third);
    let placer = placer(&addresses, "mending");
    wait_for(|| owner_now(&addresses, slot_of(&third)).is_some(), || placer.stderr());
    has_keys(&addresses, &third, 1);
    placer.terminate();
    let (output, text) = said(&addresses, &["doctor"]);
    assert!(output.status.success() && text.contains("no slot is open"), "{text}");
}

/// A key at a node that gets no requests for it, because its slot is closed and owned by another
/// node.
#[test]
fn a_key_at_a_node_that_does_not_own_its_slot_is_found() {
    let Some(nodes) = cluster(&[]) else { return };
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    let [tag, ..] = tags_at(&addresses, 0);
    let (slot, keys) = (slot_of(&tag), keys(&tag));
    let (mut owns, mut holds) = (connection(addresses[0]), connection(addresses[1]));
    let owner_id = id(&mut owns);
    set(&mut holds, slot, "IMPORTING", &owner_id);
    for (number, key) in keys.iter().enumerate() {
        let node = if number == 3 { &mut holds } else { &mut owns };
        cmd("ASKING").exec(node).expect("it is asked");
        cmd("SET").arg(key).arg(1).exec(node).expect("it is set");
    }
    cmd("CLUSTER").arg("SETSLOT").arg(slot).arg("STABLE").exec(&mut holds).expect("it is closed");
    let (output, text) = said(&addresses, &["doctor", "--dry-run"]);
    let finding = format!("slot {slot} has 1 keys at {}", addresses[1]);
    assert!(!output.status.success() && text.contains(&finding), "{text}");
    let (output, text) = said(&addresses, &["doctor"]);
    assert!(output.status.success(), "{text}");
    has_keys(&addresses, &tag, owner(&addresses, slot));
}

/// Moves the keys of the first node's slot to the second, and then makes each of the two consider
/// the other the owner.
fn lose(nodes: &[SocketAddr], tag: &str) {
    let (slot, keys) = (slot_of(tag), keys(tag));
    let (mut from, mut to) = (connection(nodes[0]), connection(nodes[1]));
    for key in &keys {
        cmd("SET").arg(key).arg(1).exec(&mut from).expect("it is set");
    }
    let (from_id, to_id) = (id(&mut from), id(&mut to));
    set(&mut to, slot, "IMPORTING", &from_id);
    set(&mut from, slot, "MIGRATING", &to_id);
    let address = nodes[1];
    let mut migrate = cmd("MIGRATE");
    migrate.arg(address.ip().to_string()).arg(address.port()).arg("").arg(0).arg(5_000).arg("KEYS");
    migrate.arg(&keys).exec(&mut from).expect("they have gone");
    set(&mut from, slot, "NODE", &to_id);
    cmd("CLUSTER").arg("SETSLOT").arg(slot).arg("STABLE").exec(&mut to).expect("it is closed");
    assert_eq!(owner_now(nodes, slot), None);
}

fn has_keys(nodes: &[SocketAddr], tag: &str, node: usize) {
    assert_eq!(owner(nodes, slot_of(tag)), node, "{tag}");
    for key in keys(tag) {
        let found = cmd("GET").arg(&key).query(&mut connection(nodes[node])).expect("an answer");
        assert_eq!(Some(1), found, "{key}");
    }
}

fn keys(tag: &str) -> Vec<String> {
    (0..8).map(|number| format!("{tag}:{number}")).collect()
}

fn set(node: &mut Connection, slot: usize, how: &str, other: &str) {
    let mut command = cmd("CLUSTER");
    command.arg("SETSLOT").arg(slot).arg(how).arg(other).exec(node).expect("it is told");
}
