//! The lease ends early, because its node's clock was stepped or a failover lost it: another placer
//! takes over at once, and from then on nodes execute no command of the former holder, however late
//! it arrives. The former holder logs this, and stops.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::support::cluster::{Linked, agree, connection};
use crate::support::origins::Redis;
use crate::support::placers::{SLOT, Watch, count, everything_is_there, load, mover};
use crate::support::process::Process;
use crate::support::state::{owner, placer, said, slot_of, tags_at, wait_for};
use redis::cmd;

const LEASE: &str = "{enroute}:placer";
const KEYS: usize = 20_000;
/// One-way delay between movers and nodes: a move takes many seconds.
const DELAY: Duration = Duration::from_millis(10);

#[test]
fn a_clock_step_at_the_leases_node_lets_no_two_act() {
    let Some(linked) = Linked::start(&[]) else { return };
    let (nodes, direct) = (linked.addresses(), direct(&linked.nodes));
    load(&nodes, KEYS);
    linked.links.iter().for_each(|link| link.set_delay(DELAY, DELAY));
    let watch = Watch::default();
    thread::scope(|scope| {
        let _end = watch.begin(scope, &direct);
        let (from, to) = (owner(&nodes, SLOT), (owner(&nodes, SLOT) + 1) % nodes.len());
        let first = mover(&nodes, nodes[to]);
        wait_for(|| count(direct[from]) < KEYS, || first.stderr());
        first.stop();
        let late = watch.latest_script();
        linked.links.iter().for_each(|link| link.set_delay(Duration::ZERO, Duration::ZERO));
        forget_the_lease(direct[owner(&nodes, slot_of(LEASE))]);

        let second = placer(&nodes, "second");
        let leads = second.stderr_line("this placer leads").expect("it leads at once");
        assert!(leads.contains("move-"), "the name of the fenced-off placer is missing: {leads}");
        // The commands of the first placer are still in transit.
        is_refused(direct[from], &late);
        assert!(second.stderr_line("slot move finished").is_some(), "{}", second.stderr());
        is_refused(direct[from], &late);
        let took_over = || said(&nodes, &["status"]).1;
        wait_for(|| took_over().contains("took over from move-"), took_over);

        first.signal("CONT");
        let first = first.wait();
        assert!(!first.status.success(), "{}", first.stderr);
        for said in ["another placer leads now", "slot move interrupted"] {
            assert!(first.stderr.contains(said), "{}", first.stderr);
        }
        second.terminate();
        assert_eq!(owner(&nodes, SLOT), to);
    });
    assert!(watch.actors_one_after_the_other() >= 2);
    everything_is_there(&nodes, KEYS);
}

/// A replica that lags behind the lease replaces its node, and the mover cannot reach that node any
/// longer: it still considers its lease valid, while another placer holds it.
#[test]
fn a_failover_that_loses_the_lease_lets_no_two_act() {
    let Some(linked) = Linked::start(&[]) else { return };
    let (nodes, primaries) = (linked.addresses(), direct(&linked.nodes));
    let leases = owner(&nodes, slot_of(LEASE));
    let from = owner(&nodes, SLOT);
    let to = 3 - from - leases;
    assert_ne!(from, leases);
    let Some(replica) = replica_of(&linked, leases) else { return };
    load(&nodes, KEYS);
    linked.links.iter().for_each(|link| link.set_delay(DELAY, DELAY));
    let watch = Watch::default();
    thread::scope(|scope| {
        let _end = watch.begin(scope, &primaries);
        let first = mover(&nodes, nodes[to]);
        wait_for(|| count(primaries[from]) < KEYS, || first.stderr());
        linked.links[leases].cut();
        cmd("CLUSTER").arg("FAILOVER").arg("TAKEOVER").exec(&mut replica.connection()).expect("OK");
        let holds = || owner(&[replica.address()], slot_of(LEASE)) == 0;
        wait_for(holds, || "the replica does not take over".to_owned());
        forget_the_lease(replica.address());

        // The request is sent by a node that knows the new primary; the old one is a replica by
        // then.
        let knows = || is_replica(&linked.nodes[leases]);
        wait_for(knows, || "the old primary does not give up".to_owned());
        linked.links[leases].restore();
        let known = [nodes.clone(), vec![replica.address()]].concat();
        let second = placer(&known, "second");
        assert!(second.stderr_line("this placer leads").is_some(), "{}", second.stderr());
        let first = first.wait();
        assert!(!first.status.success(), "{}", first.stderr);
        assert!(first.stderr.contains("slot move interrupted"), "{}", first.stderr);
        assert!(second.stderr_line("slot move finished").is_some(), "{}", second.stderr());
        linked.links.iter().for_each(|link| link.set_delay(Duration::ZERO, Duration::ZERO));
        second.terminate();
    });
    assert!(watch.actors_one_after_the_other() >= 2);
    assert_eq!([from, to].map(|node| count(primaries[node])), [0, KEYS]);
}

#[test]
fn two_placers_of_one_name_are_two() {
    let Some(linked) = Linked::start(&[]) else { return };
    let (nodes, direct) = (linked.addresses(), direct(&linked.nodes));
    let leads = |placer: &Process| placer.stderr().matches("this placer leads").count();
    let first = placer(&nodes, "twin");
    wait_for(|| leads(&first) == 1, || first.stderr());
    first.stop();
    forget_the_lease(direct[owner(&nodes, slot_of(LEASE))]);
    let second = placer(&nodes, "twin");
    wait_for(|| leads(&second) == 1, || second.stderr());
    first.signal("CONT");
    let line = first.stderr_line("another placer leads now").expect("it does not lead any more");
    assert!(line.contains("twin"), "{line}");
    assert_eq!((leads(&first), leads(&second)), (1, 1));
}

/// A restarted node has no fence: the leader raises it again, and moves continue.
#[test]
fn a_node_that_starts_again_takes_steps_from_the_leader_again() {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut linked) = Linked::start(&options) else { return };
    let nodes = linked.addresses();
    let [tag, ..] = tags_at(&nodes, 0);
    let leader = placer(&nodes, "leader");
    assert!(leader.stderr_line("this placer leads").is_some(), "{}", leader.stderr());
    linked.nodes[1].bring_down();
    linked.nodes[1].bring_up();
    linked.agree();
    // A slot with an open move, which the leader resumes.
    let id = |node: usize| -> String {
        cmd("CLUSTER").arg("MYID").query(&mut linked.nodes[node].connection()).expect("an id")
    };
    let set = |node: usize, how: &str, other: usize| {
        let mut command = cmd("CLUSTER");
        command.arg("SETSLOT").arg(slot_of(&tag)).arg(how).arg(id(other));
        command.exec(&mut linked.nodes[node].connection()).expect("OK");
    };
    set(1, "IMPORTING", 0);
    set(0, "MIGRATING", 1);
    wait_for(|| owner(&nodes, slot_of(&tag)) == 1, || leader.stderr());
    leader.terminate();
}

fn direct(nodes: &[Redis]) -> Vec<SocketAddr> {
    nodes.iter().map(Redis::address).collect()
}

/// Deletes the lease, as a clock step or a failover does.
fn forget_the_lease(node: SocketAddr) {
    cmd("DEL").arg(LEASE).exec(&mut connection(node)).expect("it is the lease's node");
}

fn is_refused(node: SocketAddr, script: &[Vec<u8>]) {
    let mut words = script.iter();
    let name = String::from_utf8(words.next().expect("a command").clone()).expect("EVAL");
    let mut late = cmd(&name);
    words.for_each(|word| {
        late.arg(&word[..]);
    });
    let mut connection = connection(node);
    cmd("ASKING").exec(&mut connection).expect("OK");
    let refused = late.query::<redis::Value>(&mut connection).expect_err("it comes too late");
    assert_eq!(refused.code(), Some("FENCED"), "{refused}");
}

/// A replica of that node that is up to date.
fn replica_of(linked: &Linked, node: usize) -> Option<Redis> {
    let replica =
        Redis::start_with(&["--cluster-enabled", "yes", "--cluster-node-timeout", "15000"])?;
    let primary = linked.nodes[node].address();
    let mut connection = replica.connection();
    let mut meet = cmd("CLUSTER");
    meet.arg("MEET").arg(primary.ip().to_string()).arg(primary.port());
    meet.exec(&mut connection).expect("it joins");
    let all = [direct(&linked.nodes), vec![replica.address()]].concat();
    agree(&all);
    let id: String = cmd("CLUSTER").arg("MYID").query(&mut linked.nodes[node].connection()).ok()?;
    wait_for(
        || cmd("CLUSTER").arg("REPLICATE").arg(&id).exec(&mut replica.connection()).is_ok(),
        || "it becomes no replica".to_owned(),
    );
    wait_for(
        || info(&replica, "replication").contains("master_link_status:up"),
        || info(&replica, "replication"),
    );
    Some(replica)
}

fn is_replica(node: &Redis) -> bool {
    info(node, "replication").contains("role:slave")
}

fn info(node: &Redis, section: &str) -> String {
    cmd("INFO").arg(section).query(&mut node.connection()).unwrap_or_default()
}
