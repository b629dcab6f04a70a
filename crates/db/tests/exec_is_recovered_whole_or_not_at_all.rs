//! After a crash, the writes of an EXEC to one shard are present completely or not at all.

#[path = "commands/exercise.rs"]
#[expect(dead_code, reason = "shared by several tests")]
mod exercise;

use std::{cell::RefCell, collections::BTreeMap};

use db::{Server, Session, Shard, parameters::Parameters};
use exercise::{Cells, NOW, NoHost};
use store::{
    Faults, SimulatedDevice,
    device::carry_out,
    elastic::{Config, Elastic, Error, Fetch, Position, Sync},
};

/// Longer than what a disk writes atomically.
const VALUE_BYTES: usize = 3_000;
/// Range of device calls after the restart within which the second crash occurs.
const CALLS_TO_OPEN: u64 = 20;
/// Longer than all arguments of a transaction that changes parts of them.
const LONG_BYTES: usize = 5_000;

/// The words of each command of a transaction.
type Commands = Vec<Vec<Vec<u8>>>;

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Sets both keys to a number; occasionally removes a third key.
fn whole_values(number: u64) -> Commands {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(VALUE_BYTES, number as u8);
    let third = match number % 3 {
        0 => words(&[b"del", b"third"]),
        _ => words(&[b"set", b"third", &value]),
    };
    vec![words(&[b"set", b"one", &value]), third, words(&[b"set", b"other", &value])]
}

/// Writes a number into the long values of both keys; copies one to a third key, or removes that.
fn parts_of_values(number: u64) -> Commands {
    let written = |key: &[u8]| words(&[b"setrange", key, b"0", &number.to_le_bytes()]);
    let third = match number % 3 {
        0 => words(&[b"del", b"third"]),
        _ => words(&[b"copy", b"one", b"third", b"replace"]),
    };
    if number == 1 {
        let mut value = number.to_le_bytes().to_vec();
        value.resize(LONG_BYTES, b'v');
        let other = words(&[b"set", b"other", &value]);
        return vec![words(&[b"set", b"one", &value]), third, other];
    }
    vec![written(b"one"), third, written(b"other")]
}

/// Every other transaction also removes all keys, by each of `flushes`, between its writes.
fn around(flushes: &[&str], number: u64) -> Commands {
    let set = |key: &[u8], number: u64| {
        let mut value = number.to_le_bytes().to_vec();
        value.resize(VALUE_BYTES, number as u8);
        words(&[b"set", key, &value])
    };
    // Writes before the removal of all keys have no effect.
    let mut commands = vec![set(b"one", 0), set(b"third", 0)];
    if number.is_multiple_of(2) {
        commands.clear();
    } else {
        for flush in flushes {
            commands.extend([words(&[flush.as_bytes()]), set(b"other", 0)]);
        }
    }
    commands.extend([set(b"one", number), set(b"other", number)]);
    if !number.is_multiple_of(3) {
        commands.push(set(b"third", number));
    } else if number.is_multiple_of(2) {
        commands.push(words(&[b"del", b"third"]));
    }
    commands
}

fn open(device: &SimulatedDevice) -> Result<Elastic, Error> {
    let (memory_bytes, segment_bytes) = (4 << 20, 64 << 10);
    let config = Config { memory_bytes, segment_bytes, sync: Sync::Always, ..Config::default() };
    Elastic::open(config, device, NOW)
}

fn crash_at(call: u64) -> Faults {
    Faults { crash_at: Some(call), ..Faults::default() }
}

/// Executes the commands for each number, each in a transaction, until the device stops, `crash`
/// calls after it was opened; returns the last number that a client knew to be durable.
fn count_up(device: &SimulatedDevice, crash: u64, commands: impl Fn(u64) -> Commands) -> u64 {
    let shards = Cells(vec![RefCell::new(Shard::new("shard-000", open(device).expect("opens")))]);
    device.set_faults(crash_at(device.calls() + crash));
    let parameters = Parameters::new(8 << 20, 10, Sync::Always, BTreeMap::new());
    let server = Server::new(&db::ROWS, Box::new(NoHost), parameters, 1, NOW);
    let client = server.clients.enter(String::new(), String::new(), 0, |_| Box::new(|| {}));
    let mut session = Session::new(client, &server);
    let mut ends = Vec::new();
    while !device.has_crashed() {
        let number = ends.len() as u64 + 1;
        let commands =
            [vec![words(&[b"multi"])], commands(number), vec![words(&[b"exec"])]].concat();
        let mut out = Vec::new();
        for command in &commands {
            let command: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            while session.execute(&command, &server, &shards, &mut out, NOW) != db::Step::Done {
                if device.has_crashed() {
                    return safe(&ends, &shards);
                }
                carry_out_one(device, &shards);
            }
        }
        ends.extend(session.take_unsynced().map(|(_, end)| end).max());
        let refused = out.contains(&b'-') && !device.has_crashed();
        assert!(!refused, "{}", String::from_utf8_lossy(&out));
        carry_out_one(device, &shards);
    }
    safe(&ends, &shards)
}

/// The number of transactions that end at `ends` and are durable.
fn safe(ends: &[Position], shards: &Cells) -> u64 {
    let durable = shards.0[0].borrow().store.durable_up_to();
    ends.iter().filter(|end| **end <= durable).count() as u64
}

fn carry_out_one(device: &SimulatedDevice, shards: &Cells) {
    let mut shard = shards.0[0].borrow_mut();
    if let Some(command) = shard.store.poll_device(NOW) {
        let completion = carry_out(device, &command);
        shard.store.complete(completion, NOW);
    }
}

/// The number a key of database 0 holds.
fn held(store: &mut Elastic, device: &SimulatedDevice, key: &[u8]) -> Option<u64> {
    let stored = [&[0], key].concat();
    loop {
        match store.fetch(&stored, NOW) {
            Fetch::Present(record) => {
                return Some(u64::from_le_bytes(record.value[..8].try_into().expect("8 bytes")));
            }
            Fetch::Absent => return None,
            Fetch::Failed(error) => panic!("{error}"),
            Fetch::Pending(_) => {}
        }
        while let Some(command) = store.poll_device(NOW) {
            store.complete(carry_out(device, &command), NOW);
        }
    }
}

/// The device calls after opening at which a crash occurs.
const CRASHES: std::ops::Range<u64> = 1..100;

/// Crashes at every device call while `commands` are executed, and at one of the following restart.
fn crash(commands: impl Fn(u64) -> Commands) {
    crash_within(commands, |one| one.unwrap_or(0));
}

/// As `crash`; `number` maps the value of a key to the number of the last transaction.
fn crash_within(commands: impl Fn(u64) -> Commands, number: impl Fn(Option<u64>) -> u64) {
    let mut found = BTreeMap::new();
    for (seed, crash) in (0..2).flat_map(|seed| CRASHES.map(move |crash| (seed, crash))) {
        let device = SimulatedDevice::new(seed << 8 | crash, Faults::default());
        let safe = count_up(&device, crash, &commands);
        device.restart(crash_at(1 + crash % CALLS_TO_OPEN));
        let _ = open(&device);
        device.restart(Faults::default());
        let mut store = open(&device).expect("opens");
        let [one, other, third] =
            [&b"one"[..], b"other", b"third"].map(|key| held(&mut store, &device, key));
        assert_eq!(one, other, "seed {seed}, crash at call {crash}");
        let expected = one.filter(|number| number % 3 != 0);
        assert_eq!(third, expected, "seed {seed}, crash at call {crash}");
        assert!(number(one) >= safe, "seed {seed}, crash at call {crash}: {one:?}, {safe} safe");
        *found.entry(one).or_insert(0) += 1;
    }
    assert!(found.len() > 5, "crashes came after {found:?}");
}

#[test]
fn exec_is_recovered_whole_or_not_at_all() {
    crash(whole_values);
}

#[test]
fn exec_that_changes_parts_of_values_is_recovered_whole_or_not_at_all() {
    crash(parts_of_values);
}

#[test]
fn exec_that_removes_all_keys_is_recovered_whole_or_not_at_all() {
    crash(|number| around(&["flushall"], number));
    crash(|number| around(&["flushdb"], number));
}

#[test]
fn exec_that_removes_all_keys_any_number_of_times_is_recovered_whole_or_not_at_all() {
    let flushes: Vec<&str> = ["flushall", "flushdb", "flushall"].repeat(3);
    crash(|number| around(&flushes, number));
}

#[test]
fn exec_that_only_removes_all_keys_is_recovered_whole_or_not_at_all() {
    let commands = |number: u64| {
        let flush = vec![words(&[b"flushall"])];
        if number.is_multiple_of(2) { flush } else { whole_values(number) }
    };
    // An empty database may be the result of any transaction that removes all keys.
    crash_within(commands, |one| one.unwrap_or(u64::MAX));
}
