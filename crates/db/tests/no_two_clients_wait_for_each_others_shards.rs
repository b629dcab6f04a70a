//! Commands that use several shards, in random thread schedules (shuttle): no deadlock between
//! clients, no partial writes visible to other clients, and a client that waits for the disk is
//! woken.

#[path = "commands/exercise.rs"]
#[expect(dead_code, reason = "shared by several tests")]
mod exercise;

use std::{collections::BTreeMap, sync::Arc};

use db::{Server, Session, Shard, Step, keyspace::Shards, parameters::Parameters};
use exercise::{NOW, NoHost};
use shuttle::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
use store::{
    Faults, SimulatedDevice,
    device::carry_out,
    elastic::{self, Config, Elastic},
};

const SHARDS: usize = 3;
/// Keys in different shards.
const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
/// Number of schedules, unless `ORDERS` sets it.
const ORDERS: usize = 1_000;
/// Number of schedules of tests that begin with a filled store.
const ORDERS_FILLED: usize = 60;
/// In half of the schedules threads switch at most this often.
const CHANGES: usize = 3;

/// Shards behind the model's locks.
struct Locks(Vec<Mutex<Shard>>);

impl Shards for Locks {
    type Guard<'a> = MutexGuard<'a, Shard>;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn lock(&self, index: usize) -> Self::Guard<'_> {
        self.0[index].lock().expect("not poisoned")
    }
}

/// A counter with a condition variable that threads wait for.
#[derive(Default)]
struct Bell(Mutex<u64>, Condvar);

impl Bell {
    fn ring(&self) {
        *self.0.lock().expect("not poisoned") += 1;
        self.1.notify_all();
    }

    /// Waits until `is_done` is true; rechecks on each ring.
    fn wait_until(&self, mut is_done: impl FnMut() -> bool) {
        let mut rung = self.0.lock().expect("not poisoned");
        while !is_done() {
            rung = self.1.wait(rung).expect("not poisoned");
        }
    }
}

struct Machine {
    locks: Locks,
    devices: Vec<SimulatedDevice>,
    server: Server,
}

impl Machine {
    fn new() -> Self {
        let devices: Vec<SimulatedDevice> =
            (0..SHARDS).map(|_| SimulatedDevice::new(1, Faults::default())).collect();
        let config = || Config {
            memory_bytes: Elastic::MEMORY_BYTES_MIN,
            segment_bytes: 64 << 10,
            sync: elastic::Sync::Never,
            ..Config::default()
        };
        let open = |device| Elastic::open(config(), device, NOW).expect("an empty store");
        let shard = |device| Mutex::new(Shard::new("shard", open(device)));
        let locks = Locks(devices.iter().map(shard).collect());
        let parameters = Parameters::new(8 << 20, 10, elastic::Sync::Never, BTreeMap::new());
        let server = Server::new(&db::ROWS, Box::new(NoHost), parameters, 1, NOW);
        Self { locks, devices, server }
    }

    /// Executes one disk operation of a shard as the product does: without holding the lock.
    fn serve_disk(&self, index: usize) -> bool {
        let Some(command) = self.locks.lock(index).store.poll_device(NOW) else { return false };
        let completion = carry_out(&self.devices[index], &command);
        let mut arrived = Vec::new();
        {
            let mut shard = self.locks.lock(index);
            shard.store.complete(completion, NOW);
            while let Some(client) = shard.poll_arrived() {
                arrived.push(client);
            }
        }
        for client in arrived.into_iter().filter_map(|client| self.server.clients.find(client)) {
            client.arrived();
        }
        true
    }

    fn client(&self, bell: &Arc<Bell>) -> Session {
        let bell = Arc::clone(bell);
        let client = self
            .server
            .clients
            .enter(String::new(), String::new(), 0, move |_| Box::new(move || bell.ring()));
        Session::new(client, &self.server)
    }

    /// Executes a command to its end; rings `disk` whenever the command waits for the disk.
    fn execute(&self, session: &mut Session, bell: &Bell, disk: &Bell, args: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            match session.execute(args, &self.server, &self.locks, &mut out, NOW) {
                Step::Done => return out,
                Step::Wait => {
                    disk.ring();
                    let client = Arc::clone(session.client());
                    bell.wait_until(|| client.is_ready());
                }
                Step::Again | Step::Busy => {
                    disk.ring();
                    thread::yield_now();
                }
                Step::Sleep(_) => unreachable!("no command sleeps"),
            }
        }
    }
}

fn check(orders: usize, model: impl Fn() + Send + Sync + Clone + 'static) {
    let said = std::env::var("ORDERS").ok().and_then(|orders| orders.parse().ok());
    let orders = said.unwrap_or(orders) / 2;
    shuttle::check_pct(model.clone(), orders, CHANGES);
    shuttle::check_random(model, orders);
}

/// Returns the reply to MGET for these values.
fn reply(values: [&str; 2]) -> Vec<u8> {
    let bulk = |value: &str| match value {
        "" => "$-1\r\n".to_owned(),
        value => format!("${}\r\n{value}\r\n", value.len()),
    };
    format!("*2\r\n{}{}", bulk(values[0]), bulk(values[1])).into_bytes()
}

#[test]
fn and_see_all_or_nothing_of_what_others_write() {
    check(ORDERS, || {
        let machine = Arc::new(Machine::new());
        let [first, second] = [KEYS[0], KEYS[1]];
        let write = |value: &'static [u8], keys: [&'static [u8]; 2], queued: bool| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || {
                let (bell, disk) = (Arc::new(Bell::default()), Bell::default());
                let mut session = machine.client(&bell);
                let mut say = |args: &[&[u8]]| machine.execute(&mut session, &bell, &disk, args);
                if queued {
                    say(&[b"MULTI"]);
                    keys.iter().for_each(|key| drop(say(&[b"SET", key, value])));
                    say(&[b"EXEC"]);
                } else {
                    say(&[b"MSET", keys[0], value, keys[1], value]);
                }
            })
        };
        let writers = [write(b"1", [first, second], false), write(b"2", [second, first], true)];
        let (bell, disk) = (Arc::new(Bell::default()), Bell::default());
        let mut session = machine.client(&bell);
        let whole = [reply(["", ""]), reply(["1", "1"]), reply(["2", "2"])];
        let found = machine.execute(&mut session, &bell, &disk, &[b"MGET", first, second]);
        assert!(whole.contains(&found), "{}", String::from_utf8_lossy(&found));
        writers.into_iter().for_each(|writer| writer.join().expect("it ends"));
    });
}

#[test]
fn nor_for_a_disk_that_has_answered() {
    check(ORDERS_FILLED, || {
        let machine = Arc::new(Machine::new());
        let disk = Arc::new(Bell::default());
        // Values that memory cannot hold.
        let value = vec![b'v'; 4_000];
        {
            let bell = Arc::new(Bell::default());
            let mut session = machine.client(&bell);
            for number in 0..600_u32 {
                let name = number.to_string();
                let key = KEYS.get(number as usize).copied().unwrap_or(name.as_bytes());
                let args: [&[u8]; 3] = [b"SET", key, &value];
                let mut out = Vec::new();
                let mut execute =
                    || session.execute(&args, &machine.server, &machine.locks, &mut out, NOW);
                while execute() != Step::Done {
                    (0..SHARDS).for_each(|index| while machine.serve_disk(index) {});
                }
            }
            (0..SHARDS).for_each(|index| while machine.serve_disk(index) {});
        }
        let over = Arc::new(Mutex::new(0));
        let clients: Vec<_> = (0..2)
            .map(|client| {
                let (machine, disk, over) =
                    (Arc::clone(&machine), Arc::clone(&disk), Arc::clone(&over));
                thread::spawn(move || {
                    let bell = Arc::new(Bell::default());
                    let mut session = machine.client(&bell);
                    let args: [&[u8]; 3] = [b"MGET", KEYS[client], KEYS[client + 1]];
                    let found = machine.execute(&mut session, &bell, &disk, &args);
                    assert!(found.len() > 8_000, "{}", String::from_utf8_lossy(&found));
                    *over.lock().expect("not poisoned") += 1;
                    disk.ring();
                })
            })
            .collect();
        // The disk thread.
        loop {
            let seen = *disk.0.lock().expect("not poisoned");
            while (0..SHARDS).any(|index| machine.serve_disk(index)) {}
            if *over.lock().expect("not poisoned") == clients.len() {
                break;
            }
            let mut rung = disk.0.lock().expect("not poisoned");
            while *rung == seen {
                rung = disk.1.wait(rung).expect("not poisoned");
            }
        }
        clients.into_iter().for_each(|client| client.join().expect("it ends"));
    });
}
