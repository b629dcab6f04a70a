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
    elastic::{Config, Elastic, Fetch, Sync},
};

/// Longer than what a disk writes as one.
const VALUE_BYTES: usize = 3_000;
/// Longer than all arguments of a transaction that changes parts of them.
const LONG_BYTES: usize = 5_000;

/// The words of each command of a transaction.
type Commands = Vec<Vec<Vec<u8>>>;

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Gives both keys a number; removes a third key now and then.
fn whole_values(number: u64) -> Commands {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(VALUE_BYTES, number as u8);
    let third = match number % 3 {
        0 => words(&[b"del", b"third"]),
        _ => words(&[b"set", b"third", &value]),
    };
    vec![words(&[b"set", b"one", &value]), third, words(&[b"set", b"other", &value])]
}

/// Writes a number into the long values of both keys, and copies one to a third or removes that.
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

fn open(device: &SimulatedDevice) -> Elastic {
    let (memory_bytes, segment_bytes) = (4 << 20, 64 << 10);
    let config = Config { memory_bytes, segment_bytes, sync: Sync::Always, ..Config::default() };
    Elastic::open(config, device, NOW).expect("opens")
}

/// Executes the commands for every number in turn, each in a transaction, until the device stops.
fn count_up(device: &SimulatedDevice, commands: impl Fn(u64) -> Commands) {
    let shards = Cells(vec![RefCell::new(Shard::new("shard-000", open(device)))]);
    let parameters = Parameters::new(8 << 20, 10, Sync::Always, BTreeMap::new());
    let server = Server::new(&db::ROWS, Box::new(NoHost), parameters, 1, NOW);
    let client = server.clients.enter(String::new(), String::new(), 0, |_| Box::new(|| {}));
    let mut session = Session::new(client, &server);
    for number in 1u64.. {
        let commands =
            [vec![words(&[b"multi"])], commands(number), vec![words(&[b"exec"])]].concat();
        let mut out = Vec::new();
        for command in &commands {
            let command: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            while session.execute(&command, &server, &shards, &mut out, NOW) != db::Step::Done {
                if device.has_crashed() {
                    return;
                }
                carry_out_one(device, &shards);
            }
        }
        let refused = out.contains(&b'-') && !device.has_crashed();
        assert!(!refused, "{}", String::from_utf8_lossy(&out));
        carry_out_one(device, &shards);
        if device.has_crashed() {
            return;
        }
    }
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

/// Crashes at many places while `commands` are executed.
fn crash(commands: impl Fn(u64) -> Commands) {
    let mut found = BTreeMap::new();
    for seed in 0..200 {
        let device = SimulatedDevice::new(seed, Faults::default());
        device.set_faults(Faults { crash_at: Some(20 + seed % 97), ..Faults::default() });
        count_up(&device, &commands);
        device.restart(Faults::default());
        let mut store = open(&device);
        let [one, other, third] =
            [&b"one"[..], b"other", b"third"].map(|key| held(&mut store, &device, key));
        assert_eq!(one, other, "seed {seed}");
        assert_eq!(third, one.filter(|number| number % 3 != 0), "seed {seed}");
        *found.entry(one).or_insert(0) += 1;
    }
    assert!(found.len() > 10, "crashes came after {found:?}");
}

#[test]
fn exec_is_recovered_whole_or_not_at_all() {
    crash(whole_values);
}

#[test]
fn exec_that_changes_parts_of_values_is_recovered_whole_or_not_at_all() {
    crash(parts_of_values);
}
