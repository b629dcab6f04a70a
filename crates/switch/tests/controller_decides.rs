//! The controller alone: events in, commands out.
#![allow(clippy::print_stdout, reason = "a test says what it skips and what it saw")]

use std::{net::SocketAddr, time::Duration};

use switch::{
    controller::{Command, Config, Controller, Event, View},
    install::Key,
    layout::{Protocol, Report, ReportKind, UNIT_BYTES},
    plane::Values,
};
use wire::{
    memcache::item::Item,
    netcache::{Flags, Message, Op},
};

struct Counts(u16, bool);

impl View for Counts {
    fn count(&self, place: u32) -> u16 {
        self.0 + place as u16
    }
    fn is_valid(&self, _: u32) -> bool {
        self.1
    }
    fn flushed_from(&self, _: Duration) -> Option<Duration> {
        None
    }
}

const COLD: Counts = Counts(0, true);
const NOW: Duration = Duration::from_secs(100);

fn server() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 50_000))
}

fn small() -> Controller {
    Controller::new(Config { entries: 32, ..Config::default() })
}

fn name(number: u8) -> [u8; 16] {
    [number; 16]
}

fn hot(number: u8, protocol: Protocol, estimate: u32) -> Event<'static> {
    Event::Report(Report {
        kind: ReportKind::Hot,
        name: name(number),
        hash: 0,
        estimate,
        place: 0,
        server: server(),
        protocol,
        key: vec![number; 16],
    })
}

fn commands(controller: &mut Controller) -> Vec<Command> {
    std::iter::from_fn(|| controller.ready()).collect()
}

fn sent(command: &Command) -> Option<Message<'_>> {
    match command {
        Command::Send(to, bytes) if *to == server() => Message::decode(bytes).ok(),
        _ => None,
    }
}

/// The agent has granted its lease to the controller.
fn granted(controller: &mut Controller) {
    let key = Key {
        name: name(99),
        bytes: vec![],
        server: server(),
        protocol: Protocol::NetCache,
        lease: 0,
    };
    controller.insert(key, false, NOW);
    for _ in 0..2 {
        let commands = commands(controller);
        let ask =
            commands.iter().filter_map(sent).find(|said| said.op == Op::Lease).expect("a question");
        let mut grant = Message::new(Op::Leased, ask.sequence, [0; 16]);
        grant.version = 7;
        controller.step(Event::Message(server(), grant), &COLD, NOW);
    }
    assert!(commands(controller).contains(&Command::Lease(0, NOW + Duration::from_secs(5))));
}

fn fetch(controller: &mut Controller, number: u8) -> u64 {
    controller.step(hot(number, Protocol::NetCache, 1000), &COLD, NOW);
    let commands = commands(controller);
    let ask = commands.iter().filter_map(sent).find(|said| said.op == Op::Fetch).expect("a fetch");
    ask.version
}

fn fetched(controller: &mut Controller, number: u8, version: u64) -> Vec<Command> {
    fetched_value(controller, number, version, b"v")
}

fn fetched_value(
    controller: &mut Controller,
    number: u8,
    version: u64,
    value: &[u8],
) -> Vec<Command> {
    let flags = Flags::FOUND;
    let value = Message { version, value, flags, ..Message::new(Op::Fetched, 0, name(number)) };
    controller.step(Event::Message(server(), value), &COLD, NOW);
    commands(controller)
}

#[test]
fn a_hot_key_is_fetched_admitted_filled_and_told() {
    let mut controller = small();
    granted(&mut controller);
    let version = fetch(&mut controller, 1);
    let done = fetched(&mut controller, 1, version);
    assert!(matches!(done[0], Command::Admit(_, _, _, v) if v == version));
    assert!(matches!(&done[1], Command::Fill(_, v, value) if *v == version && value.bytes == b"v"));
    assert_eq!(sent(&done[2]).map(|said| said.op), Some(Op::Installed));
    let again = fetched(&mut controller, 1, version);
    assert_eq!(again.len(), 1);
    assert_eq!(sent(&again[0]).map(|said| said.op), Some(Op::Installed), "announced once more");
}

#[test]
fn a_value_that_was_not_awaited_is_never_installed() {
    let mut controller = small();
    granted(&mut controller);
    let version = fetch(&mut controller, 1);
    controller.step(Event::Tick, &COLD, NOW + Duration::from_secs(1));
    commands(&mut controller);
    let late = fetched(&mut controller, 1, version);
    assert_eq!(late.len(), 1);
    assert_eq!(sent(&late[0]).map(|said| said.op), Some(Op::Abandoned));
}

#[test]
fn a_new_generation_costs_the_server_all_its_keys() {
    let mut controller = small();
    granted(&mut controller);
    let version = fetch(&mut controller, 1);
    fetched(&mut controller, 1, version);
    let waiting = fetch(&mut controller, 2);
    controller.step(Event::Tick, &COLD, NOW + Duration::from_secs(2));
    let asked = commands(&mut controller);
    let ask = asked.iter().filter_map(sent).find(|said| said.op == Op::Lease).expect("a question");
    assert_eq!(ask.version, 7);
    let grant = Message { version: 8, ..Message::new(Op::Leased, ask.sequence, [0; 16]) };
    controller.step(Event::Message(server(), grant), &COLD, NOW);
    let done = commands(&mut controller);
    assert!(matches!(done[0], Command::Evict(_, evicted) if evicted == name(1)));
    assert!(
        !done.iter().any(|command| matches!(command, Command::Lease(..))),
        "not before it is asked anew"
    );
    let late = fetched(&mut controller, 2, waiting);
    assert_eq!(sent(&late[0]).map(|said| said.op), Some(Op::Abandoned));
}

#[test]
fn a_hot_key_replaces_a_colder_one_whose_place_then_rests() {
    let mut controller = small();
    for number in 0..30 {
        controller.step(hot(number, Protocol::Memcache, 500), &COLD, NOW);
    }
    assert_eq!(controller.cached(), 30, "two places are kept free");
    commands(&mut controller);
    controller.step(hot(40, Protocol::Memcache, 500), &Counts(1000, true), NOW);
    assert_eq!(commands(&mut controller), [], "a key that is not hotter was admitted");
    controller.step(hot(40, Protocol::Memcache, 500), &COLD, NOW);
    let done = commands(&mut controller);
    let Command::Evict(evicted, _) = done[0] else { panic!("{done:?}") };
    let Command::Admit(admitted, ..) = done[1] else { panic!("{done:?}") };
    assert_ne!(evicted, admitted, "a processor may still be reading it");
    controller.step(Event::Period, &COLD, NOW);
    controller.step(hot(41, Protocol::Memcache, 500), &COLD, NOW);
    assert!(
        commands(&mut controller)
            .iter()
            .any(|c| matches!(c, Command::Admit(p, ..) if *p == evicted))
    );
}

#[test]
fn memcached_is_asked_after_a_while_and_lives_are_kept() {
    let mut controller = small();
    controller.step(hot(1, Protocol::Memcache, 500), &COLD, NOW);
    let Command::Admit(place, ..) = commands(&mut controller)[0] else { panic!("not admitted") };
    controller.step(Event::Tick, &COLD, NOW);
    assert_eq!(commands(&mut controller), []);
    controller.step(Event::Tick, &COLD, NOW + Duration::from_millis(50));
    assert_eq!(commands(&mut controller), [Command::Ask(place, server(), vec![1; 16])]);
    for (lives_s, expires) in [(Some(10), Some(108)), (Some(2), None), (None, Some(3700))] {
        let item = Some(Item { flags: 0, lives_s, value: b"v".to_vec() });
        let event = Event::Item { place, version: 5, epoch: 3, asked: NOW, item };
        controller.step(event, &COLD, NOW);
        let filled = commands(&mut controller).into_iter().find_map(|command| match command {
            Command::Fill(_, 5, value) => Some(value),
            _ => None,
        });
        assert_eq!(filled.map(|value| value.expires_ns / 1_000_000_000), expires, "{lives_s:?}");
    }
}

struct Flushed(Duration);

impl View for Flushed {
    fn count(&self, _: u32) -> u16 {
        0
    }
    fn is_valid(&self, _: u32) -> bool {
        true
    }
    fn flushed_from(&self, _: Duration) -> Option<Duration> {
        Some(self.0)
    }
}

#[test]
fn what_a_flush_is_to_drop_ends_before_and_is_not_stored_once_it_may_have() {
    let mut controller = small();
    controller.step(hot(1, Protocol::Memcache, 500), &COLD, NOW);
    let Command::Admit(place, ..) = commands(&mut controller)[0] else { panic!("not admitted") };
    for (flushed, expires) in [
        (NOW - Duration::from_secs(1), None),
        (NOW, None),
        (NOW + Duration::from_secs(7), Some(107)),
    ] {
        let item = Some(Item { flags: 0, lives_s: Some(100), value: b"v".to_vec() });
        let event = Event::Item { place, version: 5, epoch: 3, asked: NOW, item };
        controller.step(event, &Flushed(flushed), NOW);
        let filled = commands(&mut controller).into_iter().find_map(|command| match command {
            Command::Fill(_, 5, value) => Some(value.expires_ns / 1_000_000_000),
            _ => None,
        });
        assert_eq!(filled, expires, "{flushed:?}");
    }
}

#[test]
fn what_stays_invalid_leaves() {
    let mut controller = small();
    controller.step(hot(1, Protocol::Memcache, 500), &COLD, NOW);
    commands(&mut controller);
    for periods in 1..=4 {
        controller.step(Event::Period, &Counts(0, false), NOW);
        let left = commands(&mut controller).iter().any(|c| matches!(c, Command::Evict(..)));
        assert_eq!(left, periods == 4);
    }
}

#[test]
fn values_of_different_size_share_rows() {
    let values = Values::Registers { rows: 2 };
    let mut controller = Controller::new(Config { entries: 32, values, ..Config::default() });
    granted(&mut controller);
    for number in 0..22 {
        let version = fetch(&mut controller, number);
        let done = fetched(&mut controller, number, version);
        assert!(done.iter().any(|command| matches!(command, Command::Fill(..))), "{number}");
    }
    let version = fetch(&mut controller, 30);
    let done = fetched(&mut controller, 30, version);
    assert_eq!(sent(done.last().expect("an answer")).map(|said| said.op), Some(Op::Abandoned));
}

/// The keys in these places are invalid.
struct Invalid<'a>(&'a [u32]);

impl View for Invalid<'_> {
    fn count(&self, _: u32) -> u16 {
        0
    }
    fn is_valid(&self, place: u32) -> bool {
        !self.0.contains(&place)
    }
    fn flushed_from(&self, _: Duration) -> Option<Duration> {
        None
    }
}

#[test]
fn scattered_units_are_gathered_by_moving_values() {
    let values = Values::Registers { rows: 2 };
    let mut controller = Controller::new(Config { entries: 32, values, ..Config::default() });
    granted(&mut controller);
    let mut places = Vec::new();
    for (number, units) in (0..).zip([3, 3, 5, 3, 3, 5]) {
        let version = fetch(&mut controller, number);
        let value = vec![7; units * UNIT_BYTES];
        let done = fetched_value(&mut controller, number, version, &value);
        let Command::Admit(place, _, room, _) = done[0] else { panic!("{done:?}") };
        places.push((place, room));
    }
    let leave = |controller: &mut Controller, gone: &[u32]| {
        for _ in 0..5 {
            controller.step(Event::Period, &Invalid(gone), NOW);
        }
        commands(controller);
    };
    // The largest value of each row leaves: five units are free in each, and seven are needed.
    leave(&mut controller, &[places[2].0, places[5].0]);
    assert_eq!(controller.cached(), 4);
    let seven = [9; 7 * UNIT_BYTES];
    let version = fetch(&mut controller, 8);
    let done = fetched_value(&mut controller, 8, version, &seven);
    let Command::Move(moved, room) = done[0] else { panic!("{done:?}") };
    let (_, old) = *places.iter().find(|(place, _)| *place == moved).expect("a cached key");
    assert_ne!(room.place, old.place);
    assert_eq!((room.bitmap.count_ones(), done.len()), (3, 2), "one move and the answer: {done:?}");
    // Until the period ends nothing else moves or leaves, and the old room is not given away.
    let version = fetch(&mut controller, 9);
    let done = fetched_value(&mut controller, 9, version, &seven);
    assert_eq!(done.len(), 1, "{done:?}");
    leave(&mut controller, &[]);
    let version = fetch(&mut controller, 8);
    let done = fetched_value(&mut controller, 8, version, &seven);
    assert!(matches!(&done[0], Command::Admit(_, _, admitted, _) if admitted.place == old.place));
    assert_eq!((controller.cached(), controller.stats().moved), (5, 1));
    // The moved key leaves the room that it moved to.
    leave(&mut controller, &[moved]);
    let version = fetch(&mut controller, 10);
    let done = fetched_value(&mut controller, 10, version, &[7; 5 * UNIT_BYTES]);
    assert!(matches!(&done[0], Command::Admit(_, _, admitted, _) if admitted.place == room.place));
}

/// Clients may request keys of any address, with or without a server.
#[test]
fn servers_that_do_not_answer_take_no_place_from_those_that_do() {
    let mut controller = small();
    let at = |number: u16| SocketAddr::from(([10, 1, 0, 2], number));
    for number in 1..=1_100u16 {
        let mut name = [0; 16];
        name[..2].copy_from_slice(&number.to_be_bytes());
        let key =
            Key { name, bytes: vec![], server: at(number), protocol: Protocol::NetCache, lease: 0 };
        controller.insert(key, false, NOW);
    }
    controller.step(Event::Tick, &COLD, NOW + Duration::from_secs(5));
    commands(&mut controller);
    granted(&mut controller);
}
