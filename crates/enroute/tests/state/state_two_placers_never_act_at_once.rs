//! Only one process at a time moves slots. A placer that was stopped while it led, and is continued
//! after another has taken over, takes no further step.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::support::cluster::{Linked, NODES, cluster};
use crate::support::origins::Redis;
use crate::support::placers::{SLOT, Watch, count, everything_is_there, load, mover};
use crate::support::process::Process;
use crate::support::state::{owner, placer, wait_for};

/// A move takes about three hundred steps of two commands, each with a delay: long enough to be
/// stopped in the middle.
const KEYS_MANY: usize = 20_000;
const DELAY: Duration = Duration::from_millis(10);
/// About thirty steps.
const KEYS: usize = 2_000;
/// Number of attempts: a mover that finds others at work gives up after some seconds, and each of
/// the others may take long on a busy machine.
const TRIES: usize = 100;

#[test]
fn a_placer_that_was_stopped_finds_out_that_another_leads() {
    let Some(linked) = Linked::start(&[]) else { return };
    let nodes = linked.addresses();
    load(&nodes, KEYS_MANY);
    linked.links.iter().for_each(|link| link.set_delay(DELAY, DELAY));
    let watch = Watch::default();
    let to = thread::scope(|scope| {
        let direct: Vec<SocketAddr> = linked.nodes.iter().map(Redis::address).collect();
        let _end = watch.begin(scope, &direct);
        let (first, to) = stopped_in_the_middle(&nodes);
        linked.links.iter().for_each(|link| link.set_delay(Duration::ZERO, Duration::ZERO));
        let second = placer(&nodes, "second");
        assert!(second.stderr_line("slot move finished").is_some(), "{}", second.stderr());
        first.signal("CONT");
        let first = first.wait();
        assert!(!first.status.success(), "{}", first.stderr);
        assert!(first.stderr.contains("slot move interrupted"), "{}", first.stderr);
        second.terminate();
        to
    });
    assert!(watch.actors_one_after_the_other() >= 2);
    assert_eq!(nodes[owner(&nodes, SLOT)], to);
    everything_is_there(&nodes, KEYS_MANY);
}

/// A mover that was stopped in the middle of its move, and the target of the move.
fn stopped_in_the_middle(nodes: &[SocketAddr]) -> (Process, SocketAddr) {
    let from = owner(nodes, SLOT);
    let to = nodes[(from + 1) % NODES];
    let first = mover(nodes, to);
    wait_for(|| count(nodes[from]) < KEYS_MANY, || first.stderr());
    first.stop();
    // The commands until then are executed before the second reply.
    assert!(
        count(nodes[from]) > 0 && count(nodes[from]) > 0,
        "it was too quick: {}",
        first.stderr()
    );
    (first, to)
}

#[test]
fn of_many_that_want_to_move_slots_one_does_at_a_time() {
    let Some(running) = cluster(&[]) else { return };
    let nodes: Vec<SocketAddr> = running.iter().map(Redis::address).collect();
    load(&nodes, KEYS);
    let watch = Watch::default();
    thread::scope(|scope| {
        let _end = watch.begin(scope, &nodes);
        let from = owner(&nodes, SLOT);
        let nodes = &nodes;
        let targets = (0..4).map(|number| nodes[(from + 1 + number) % NODES]);
        let movers: Vec<_> =
            targets.map(|target| scope.spawn(move || moves_at_last(nodes, target))).collect();
        movers.into_iter().for_each(|mover| mover.join().expect("it moves"));
    });
    assert!(watch.actors_one_after_the_other() >= 2);
    everything_is_there(&nodes, KEYS);
}

/// A mover that always finds another at work gives up, and is started again; so is one that lost
/// its lease in the middle of its move because the machine was busy.
fn moves_at_last(nodes: &[SocketAddr], target: SocketAddr) {
    let has_moved = |_| mover(nodes, target).wait().status.success();
    assert!((0..TRIES).any(has_moved), "it never got the lease");
}
