//! The latency of every command of an agent's clients is counted once, by what answered it; and the
//! duration of every move of a placer.

use std::{net::SocketAddr, sync::atomic::AtomicBool, thread, time::Duration};

use redis::cmd;

use crate::support::{
    cluster::{Linked, cluster, connection},
    metrics::{Metrics, admin_of},
    origins::Redis,
    state::{Agent, Ends, owner, placer_with, slot_of, tags_at, use_keys, wait_for},
};

const ADMIN: [&str; 2] = ["--admin", "127.0.0.1:0"];

/// Commands answered from a copy, and by nodes.
fn counts(metrics: &Metrics) -> [u64; 2] {
    ["copy", "node"].map(|by| {
        let label = format!("answered_by=\"{by}\"");
        metrics.count("enroute_state_agent_command_latency_seconds", &label)
    })
}

#[test]
fn commands_are_counted_once_by_what_answered_them() {
    let Some(redis) = cluster(&[]) else { return };
    let nodes: Vec<SocketAddr> = redis.iter().map(Redis::address).collect();
    let agent = Agent::start_with(&nodes, &ADMIN);
    let at = admin_of(agent.process());
    let mut client = connection(agent.address());
    let mut asked = 0;
    for number in 0..10 {
        cmd("SET").arg(number).arg(number).exec(&mut client).expect("OK");
        cmd("GET").arg(number).exec(&mut client).expect("a value");
        // Several nodes execute it.
        cmd("MGET").arg(&[0, 1, 2, 3, 4, 5]).exec(&mut client).expect("values");
        // The agent does.
        cmd("PING").exec(&mut client).expect("PONG");
        asked += 3;
    }
    // The agent's own reports are not counted.
    loop {
        asked += 1;
        let reports: u64 =
            cmd("HLEN").arg("{enroute}:reports").query(&mut client).expect("a number");
        if reports > 0 {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(counts(&Metrics::once(at, |_| true)), [0, asked]);

    // A slot of which it keeps copies.
    let key = "{everywhere}:policy";
    cmd("SET").arg(key).arg("1").exec(&mut client).expect("OK");
    let chosen = slot_of(key).to_string();
    cmd("SET").arg("{enroute}:copies").arg(chosen).exec(&mut client).expect("OK");
    asked += 2;
    wait_for(
        || {
            let mut reads = connection(agent.address());
            (0..50).for_each(|_| cmd("GET").arg(key).exec(&mut reads).expect("a value"));
            counts(&Metrics::once(at, |_| true))[0] >= 40
        },
        || format!("nothing is answered from a copy: {}", agent.process().stderr()),
    );
    let are_all = |[copies, nodes]: [u64; 2]| (copies + nodes - asked) % 50 == 0;
    let [_, nodes] = counts(&Metrics::once(at, |metrics| are_all(counts(metrics))));
    assert!(nodes > asked, "{nodes} of {asked}");
}

#[test]
fn moves_are_counted_with_their_duration() {
    let Some(linked) = Linked::start(&[]) else { return };
    for (link, delay_ms) in linked.links.iter().zip([0, 5, 10]) {
        let delay = Duration::from_millis(delay_ms);
        link.set_delay(delay, delay);
    }
    let nodes = linked.addresses();
    let [one, two, _] = tags_at(&nodes, 2);
    let agent = Agent::start(&nodes);
    let over = AtomicBool::new(false);
    let keys = [format!("{one}:a"), format!("{two}:a")];
    thread::scope(|scope| {
        let _ends = Ends(&over);
        scope.spawn(|| use_keys(agent.address(), &keys, &over));
        let placer = placer_with(&nodes, "one", &ADMIN);
        let near = || [&one, &two].iter().all(|tag| owner(&nodes, slot_of(tag)) == 0);
        wait_for(near, || placer.stderr());
        let at = admin_of(&placer);
        let count = |metrics: &Metrics, outcome: &str| {
            let label = format!("outcome=\"{outcome}\"");
            metrics.count("enroute_state_placer_move_duration_seconds", &label)
        };
        let metrics = Metrics::once(at, |metrics| count(metrics, "moved") >= 2);
        assert_eq!(metrics.value("enroute_state_placer_leads"), 1.0);
        let told = |line: &str| placer.stderr().matches(line).count() as u64;
        // A line follows its move; no slot is worth a third.
        wait_for(|| told("slot moved: ") >= 2, || placer.stderr());
        let metrics = Metrics::once(at, |_| true);
        let moves = [count(&metrics, "moved"), count(&metrics, "not_moved")];
        assert_eq!(moves, [told("slot moved: "), told("slot not moved: ")], "{}", placer.stderr());
        let second = placer_with(&nodes, "two", &ADMIN);
        let has_reviewed =
            |metrics: &Metrics| metrics.value("enroute_state_placer_reviews_total") >= 2.0;
        let waits = Metrics::once(admin_of(&second), has_reviewed);
        assert_eq!(waits.value("enroute_state_placer_leads"), 0.0);
    });
}
