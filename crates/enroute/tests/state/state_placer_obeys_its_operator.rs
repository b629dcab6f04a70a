//! The operator's options take effect and are reported: pins, excluded nodes, a dry run; `why`,
//! `status` and `advise-tags` report the facts.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use crate::support::cluster::{Linked, connection};
use crate::support::state::{
    Agent, Ends, owner, placer_with, said, slot_of, tags_at, use_keys, wait_for,
};
use state::slot::Slot;

/// Indexes of the nodes in the order of their distance from every agent.
const NEAR: usize = 0;
const FAR: usize = 1;
const FARTHER: usize = 2;

#[test]
fn a_placer_obeys_pins_and_exclusions_and_says_why() {
    let Some(linked) = Linked::start(&[]) else { return };
    for (link, delay_ms) in linked.links.iter().zip([0, 5, 10]) {
        let delay = Duration::from_millis(delay_ms);
        link.set_delay(delay, delay);
    }
    let nodes = linked.addresses();
    let [free, pinned, unused] = tags_at(&nodes, FARTHER);
    let is_at = |tag: &str, node: usize| owner(&nodes, slot_of(tag)) == node;
    let keys = [format!("{free}:a"), format!("{pinned}:a")];
    let agent = Agent::start(&nodes);
    let over = AtomicBool::new(false);
    let why = |tag: &str| said(&nodes, &["why", tag]).1;
    thread::scope(|scope| {
        let _ends = Ends(&over);
        scope.spawn(|| use_keys(agent.address(), &keys, &over));

        // A dry run only reports.
        let dry = placer_with(&nodes, "dry", &["--dry-run", "--pin", &pinned]);
        let would = format!("would move slot {} ", slot_of(&free));
        assert!(dry.stdout_line(&would).is_some(), "{}", dry.stderr());
        assert!(!dry.stdout().contains(&format!("slot {} ", slot_of(&pinned))), "{}", dry.stdout());
        assert!(is_at(&free, FARTHER), "a dry run moved a slot");
        dry.terminate();

        // The near node is excluded, so the far one is best.
        let near = nodes[NEAR].to_string();
        let absent = ["--exclude", "127.0.0.1:1"];
        let options = [&["--pin", &*pinned, "--exclude", &*near][..], &absent].concat();
        let careful = placer_with(&nodes, "careful", &options);
        let unknown = careful.stderr_line("--exclude 127.0.0.1:1: expected a primary");
        assert!(unknown.is_some_and(|line| line.contains(&near)), "{}", careful.stderr());
        assert!(!careful.stderr().contains(&format!("--exclude {near}:")), "{}", careful.stderr());
        wait_for(|| is_at(&free, FAR), || careful.stderr());
        wait_for(|| why(&pinned).contains("stays: pinned"), || why(&pinned));
        assert!(is_at(&pinned, FARTHER));
        let told = why(&free);
        assert!(told.contains(&format!("is at {}", nodes[FAR])), "{told}");
        let told = why(&unused);
        assert!(told.contains("stays: it is not used"), "{told}");
        careful.terminate();

        // No option prevents the move.
        let bold = placer_with(&nodes, "bold", &[]);
        wait_for(|| is_at(&free, NEAR) && is_at(&pinned, NEAR), || bold.stderr());
        wait_for(|| why(&free).contains("used by "), || why(&free));
        let status = said(&nodes, &["status"]).1;
        assert!(status.contains("placer: bold") && status.contains("moves: 2"), "{status}");
        bold.terminate();
        assert!(why(&free).contains(&format!("is at {near}")));
        assert!(is_at(&unused, FARTHER), "an unused slot moved");
    });
}

#[test]
fn a_node_without_room_takes_nothing() {
    let Some(mut linked) = Linked::start(&[]) else { return };
    for (link, delay_ms) in linked.links.iter().zip([0, 5, 10]) {
        let delay = Duration::from_millis(delay_ms);
        link.set_delay(delay, delay);
    }
    let nodes = linked.addresses();
    let [large, small, _] = tags_at(&nodes, FARTHER);
    let agent = Agent::start(&nodes);
    let (keys, room) = (1_000, 4 << 20);
    let mut client = connection(agent.address());
    let mut pipeline = redis::pipe();
    for number in 0..keys {
        pipeline.cmd("SET").arg(format!("{large}:{number}")).arg("x".repeat(10_000)).ignore();
    }
    pipeline.query::<()>(&mut client).expect("they are set");
    // The memory in use, plus less than the large slot needs.
    let info: String =
        redis::cmd("INFO").arg("memory").query(&mut linked.nodes[NEAR].connection()).expect("INFO");
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("its memory");
    let limit = used.trim().parse::<usize>().expect("bytes") + room;
    linked.nodes[NEAR].set("maxmemory", &limit.to_string());
    let keys = [format!("{large}:0"), format!("{small}:0")];
    let is_at = |tag: &str, node: usize| owner(&nodes, slot_of(tag)) == node;
    let why = |tag: &str| said(&nodes, &["why", tag]).1;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&over);
        scope.spawn(|| use_keys(agent.address(), &keys, &over));
        let placer = placer_with(&nodes, "idle", &["--load-max", "0.1"]);
        wait_for(|| why(&small).contains("have no room"), || why(&small));
        assert!(
            is_at(&small, FARTHER) && is_at(&large, FARTHER),
            "a slot moved to a node that must not get it"
        );
        placer.terminate();
        let placer = placer_with(&nodes, "careful", &[]);
        wait_for(|| is_at(&small, NEAR), || placer.stderr());
        wait_for(|| is_at(&large, FAR), || placer.stderr());
        wait_for(|| why(&large).contains("have no room"), || why(&large));
        let mut near = linked.nodes[NEAR].connection();
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(0).exec(&mut near).expect("no limit");
        wait_for(|| is_at(&large, NEAR), || placer.stderr());
    });
}

#[test]
fn keys_that_share_a_slot_and_should_not_are_named() {
    let Some(linked) = Linked::start(&[]) else { return };
    let nodes = linked.addresses();
    let agents = [Agent::start(&nodes), Agent::start(&nodes)];
    let slot = Slot::of(b"key:0");
    let other = (1..).map(|number| format!("key:{number}"));
    let other = { other }.find(|key| Slot::of(key.as_bytes()) == slot).expect("one in 16,384");
    let keys = [vec!["key:0".to_owned()], vec![other]];
    let advice = || said(&nodes, &["advise-tags"]).1;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&over);
        scope.spawn(|| use_keys(agents[0].address(), &keys[0], &over));
        // Keys of one host may share a slot.
        thread::sleep(Duration::from_secs(1));
        assert_eq!(advice(), "no slot has keys that different hosts use most\n");
        scope.spawn(|| use_keys(agents[1].address(), &keys[1], &over));
        let named = |text: &str| {
            let line =
                text.lines().find(|line| line.starts_with(&format!("slot {}: ", slot.number())));
            line.is_some_and(|line| {
                keys.iter().flatten().all(|key| line.contains(&format!("{key} (used most by ")))
                    && line.contains("give each group a hash tag")
            })
        };
        wait_for(|| named(&advice()), advice);
    });
}
