//! A MIGRATE whose reply is lost leaves its keys at both nodes. A key that a client then deletes
//! does not reappear after the slot has moved, whichever placer completes the move.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::cluster::{Linked, connection, even};
use crate::support::origins::Redis;
use crate::support::process::{Process, until};
use crate::support::state::{by_hand, owner, said, slot_of, tags_at};
use redis::cmd;

const SOURCE: usize = 0;
const TARGET: usize = 1;
const KEYS: usize = 8;
/// One-way delay between mover and source, so that the target can be stopped before MIGRATE begins.
const DELAY: Duration = Duration::from_millis(300);
/// Within this time the target is importing, and the source waits for it after it was stopped.
const WAITS_WITHIN: Duration = Duration::from_secs(15);
const ATTEMPTS: usize = 5;

/// Delay of keys that reach the target late: the timeouts of MIGRATE and the mover are shorter.
const LATE: Duration = Duration::from_secs(8);

/// The event that ends a MIGRATE that waits for its target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Time,
    /// The timeout of MIGRATE, after which its keys arrive.
    TimeAndTheyAreLate,
    SourceDies,
    SourceAndMoverDie,
}

#[test]
fn when_the_target_waits_for_longer_than_migrate() {
    delete_in_between(End::Time);
}

#[test]
fn when_keys_are_on_their_way_for_longer_than_the_move_takes() {
    delete_in_between(End::TimeAndTheyAreLate);
}

#[test]
fn when_the_source_dies() {
    delete_in_between(End::SourceDies);
}

#[test]
fn when_the_source_and_the_mover_die() {
    delete_in_between(End::SourceAndMoverDie);
}

fn delete_in_between(end: End) {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut linked) = Linked::start(&options) else { return };
    let addresses = linked.addresses();
    let [tag, ..] = tags_at(&addresses, SOURCE);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("{tag}:{number}")).collect();
    let mut source = connection(linked.nodes[SOURCE].address());
    for key in &keys {
        cmd("SET").arg(key).arg(1).exec(&mut source).expect("it is set");
    }
    let mover = stopped_in_migrate(&mut linked, &tag, end);
    let sent = Instant::now();
    let mover = (end != End::SourceAndMoverDie).then_some(mover);
    if matches!(end, End::SourceDies | End::SourceAndMoverDie) {
        linked.nodes[SOURCE].bring_down();
        linked.nodes[SOURCE].bring_up();
    }
    let direct = linked.nodes[SOURCE].address();
    until("the source deletes", || {
        cmd("DEL").arg(&keys[0]).query::<usize>(&mut connection(direct)).is_ok_and(|had| had == 1)
    });
    linked.nodes[TARGET].process().signal("CONT");
    if end == End::SourceAndMoverDie {
        let count = || count(&linked.nodes[TARGET], &tag);
        until("the target has the key", || count() > KEYS);
        let found = at_source_or_where_it_sends(direct, &keys[0]);
        assert!(found.is_none_or(|found| found.is_none()), "{found:?}");
    }
    for link in [SOURCE, TARGET] {
        linked.links[link].set_delay(Duration::ZERO, Duration::ZERO);
    }

    let told = mover.map(|mover| mover.wait().stderr);
    until("no slot is open", || said(&addresses, &["doctor"]).1.contains("no slot is open"));
    let owner = owner(&addresses, slot_of(&tag));
    assert_eq!(owner, TARGET);
    if end == End::TimeAndTheyAreLate {
        // There is no event for keys that never arrive.
        thread::sleep((LATE + Duration::from_secs(1)).saturating_sub(sent.elapsed()));
    }
    let mut owner = connection(linked.nodes[owner].address());
    let found = |key: &String| cmd("GET").arg(key).query(&mut owner).expect("an answer");
    let found: Vec<Option<usize>> = keys.iter().map(found).collect();
    let expected: Vec<Option<usize>> = (0..KEYS).map(|key| (key > 0).then_some(1)).collect();
    assert_eq!(found, expected, "{told:?}");
    let counts: Vec<usize> = linked.nodes.iter().map(|node| count(node, &tag)).collect();
    assert_eq!(counts, [0, KEYS - 1, 0], "nothing of ours is left");
}

/// With two nodes there is no third: clients are redirected to the target nevertheless, and what
/// they write there is not mistaken for keys of the MIGRATE.
#[test]
fn without_a_third_node_what_is_written_during_the_move_stays() {
    let Some(nodes) = even(2, &["--appendonly", "yes", "--appendfsync", "always"]) else { return };
    let mut linked = Linked::before(nodes);
    let addresses = linked.addresses();
    let [tag, ..] = tags_at(&addresses, SOURCE);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("{tag}:{number}")).collect();
    let direct = linked.nodes[SOURCE].address();
    for key in &keys {
        cmd("SET").arg(key).arg(1).exec(&mut connection(direct)).expect("it is set");
    }
    let mover = stopped_in_migrate(&mut linked, &tag, End::Time);
    mover.stop();
    until("the source deletes", || {
        cmd("DEL").arg(&keys[0]).query::<usize>(&mut connection(direct)).is_ok_and(|had| had == 1)
    });
    linked.nodes[TARGET].process().signal("CONT");
    until("the target has the key", || count(&linked.nodes[TARGET], &tag) > KEYS);
    let sent = cmd("SET").arg(&keys[0]).arg(2).exec(&mut connection(direct));
    let sent = sent.expect_err("it has gone");
    let target = addresses[TARGET].to_string();
    assert_eq!(sent.redirect_node().map(|(to, _)| to), Some(&target[..]));
    let mut asking = redis::pipe();
    asking.cmd("ASKING").ignore().cmd("SET").arg(&keys[0]).arg(2).ignore();
    asking.exec(&mut linked.nodes[TARGET].connection()).expect("it is set");
    mover.signal("CONT");

    for link in [SOURCE, TARGET] {
        linked.links[link].set_delay(Duration::ZERO, Duration::ZERO);
    }
    mover.wait();
    until("no slot is open", || said(&addresses, &["doctor"]).1.contains("no slot is open"));
    assert_eq!(owner(&addresses, slot_of(&tag)), TARGET);
    let mut target = linked.nodes[TARGET].connection();
    let found: Vec<usize> = cmd("MGET").arg(&keys).query(&mut target).expect("all are there");
    let expected: Vec<usize> = (0..KEYS).map(|key| if key == 0 { 2 } else { 1 }).collect();
    assert_eq!(found, expected);
}

/// A move whose source waits for its target. On a busy machine the target may be stopped only after
/// the move: then the slot moves back, and again.
fn stopped_in_migrate(linked: &mut Linked, tag: &str, end: End) -> Process {
    let addresses = linked.addresses();
    for _ in 0..ATTEMPTS {
        linked.links[SOURCE].set_delay(DELAY, DELAY);
        let to = addresses[TARGET].to_string();
        let words = ["move", tag, "--to", &to, "--log", "debug"];
        let mover = Process::start(&mut by_hand(&addresses, &words));
        let _ = within(WAITS_WITHIN, || is_importing(&linked.nodes[TARGET], tag));
        if end == End::TimeAndTheyAreLate {
            linked.links[TARGET].set_delay(LATE, Duration::ZERO);
        } else {
            linked.nodes[TARGET].process().stop();
        }
        if within(WAITS_WITHIN, || is_waiting(&linked.nodes[SOURCE])) {
            return mover;
        }
        linked.nodes[TARGET].process().signal("CONT");
        for link in [SOURCE, TARGET] {
            linked.links[link].set_delay(Duration::ZERO, Duration::ZERO);
        }
        mover.wait();
        let back = addresses[SOURCE].to_string();
        let (moved, told) = said(&addresses, &["move", tag, "--to", &back]);
        assert!(moved.status.success(), "{told}");
    }
    panic!("no source waited for its target in {ATTEMPTS} moves");
}

/// Number of keys of the slot at that node, including those of the test.
fn count(node: &Redis, tag: &str) -> usize {
    let mut command = cmd("CLUSTER");
    command.arg("COUNTKEYSINSLOT").arg(slot_of(tag));
    command.query(&mut node.connection()).expect("a number")
}

/// The value that a client finds by following redirections; `None` without a reply.
fn at_source_or_where_it_sends(source: SocketAddr, key: &str) -> Option<Option<usize>> {
    let asked = cmd("GET").arg(key).query::<Option<usize>>(&mut connection(source));
    let Err(error) = asked else { return asked.ok() };
    let (to, _) = error.redirect_node().expect("it is sent somewhere");
    let mut asking = redis::pipe();
    asking.cmd("ASKING").ignore().cmd("GET").arg(key);
    let answer = asking.query::<Vec<Option<usize>>>(&mut connection(to.parse().expect("a node")));
    answer.ok().and_then(|found| found.first().copied())
}

fn within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > time {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

fn is_importing(node: &Redis, tag: &str) -> bool {
    let told: String = cmd("CLUSTER").arg("NODES").query(&mut node.connection()).expect("nodes");
    told.contains(&format!("[{}-<-", slot_of(tag)))
}

/// Whether the node does not reply.
fn is_waiting(node: &Redis) -> bool {
    let address: SocketAddr = node.address();
    let client = redis::Client::open(format!("redis://{address}/")).expect("a URL");
    let limit = Duration::from_millis(300);
    client.get_connection_with_timeout(limit).is_err()
        || client.get_connection().is_ok_and(|mut connection| {
            connection.set_read_timeout(Some(limit)).is_ok()
                && cmd("PING").exec(&mut connection).is_err()
        })
}
