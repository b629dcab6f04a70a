//! Two faults at a time, drawn from a seed that is printed, while clients write under `--sync always`: a kill,
//! a process that is stopped for a while, a full disk, memory that is taken away. Nothing acknowledged is lost,
//! and what was refused was not done. Clock steps are not among them: the process cannot be given a clock of
//! its own without a library that is put before the system's.

mod support;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use redis::Connection;
use support::directory::TemporaryDirectory;
use support::enroute::program;
use support::faults;
use support::origins::absent;
use support::process::{PATIENCE, Process};

const CLIENTS: usize = 4;
const KEYS: u64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    Stop,
    FullDisk,
    LessMemory,
}

const FAULTS: [Fault; 4] = [Fault::Kill, Fault::Stop, Fault::FullDisk, Fault::LessMemory];

/// A database on a small disk of its own, in a mount namespace that another process keeps.
struct Machine {
    directory: TemporaryDirectory,
    keeper: Process,
    address: SocketAddr,
    database: Mutex<Option<Process>>,
}

impl Machine {
    fn start() -> Self {
        let directory = TemporaryDirectory::create();
        let script = "mount -t tmpfs -o size=96m none \"$1\" && echo mounted && exec sleep 100000";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(directory.path());
        let keeper = Process::start(&mut command);
        assert!(keeper.stdout_line("mounted").is_some(), "{}", keeper.stderr());
        let address = "127.0.0.1:0".parse().expect("an address");
        let mut machine = Self { directory, keeper, address, database: Mutex::new(None) };
        machine.bring_up();
        machine
    }

    fn bring_up(&mut self) {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.id())).arg(program());
        command.arg("db").arg("--dir").arg(self.directory.path().join("data"));
        command.args(["--listen", &self.address.to_string()]);
        command.args(["--sync", "always", "--memory", "64MiB"]);
        let process = Process::start(&mut command);
        let Some(line) = process.stderr_line(" keeps ") else {
            panic!("enroute db does not start:\n{}", process.stderr());
        };
        let address = line.split("://").nth(1).and_then(|rest| rest.split(' ').next());
        self.address = address.and_then(|address| address.parse().ok()).expect("an address");
        *self.database.lock().expect("not poisoned") = Some(process);
    }

    fn with_database(&self, act: impl FnOnce(&Process)) {
        if let Some(process) = &*self.database.lock().expect("not poisoned") {
            act(process);
        }
    }

    fn ballast(&self) -> PathBuf {
        let directory = self.directory.path().display();
        format!("/proc/{}/root{directory}/ballast", self.keeper.id()).into()
    }

    /// Does it for so long.
    fn suffer(&self, fault: Fault, time: Duration) {
        match fault {
            Fault::Kill => drop(self.database.lock().expect("not poisoned").take()),
            Fault::Stop => {
                self.with_database(|process| process.signal("STOP"));
                thread::sleep(time);
                self.with_database(|process| process.signal("CONT"));
            }
            Fault::FullDisk => {
                let mut file = File::create(self.ballast()).expect("a file");
                // It ends with an error: there is no more room.
                let began = Instant::now();
                while began.elapsed() < time {
                    if file.write_all(&[1; 64 << 10]).is_err() {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                drop(file);
                fs::remove_file(self.ballast()).expect("it is there");
            }
            Fault::LessMemory => {
                let rescale = |memory: &str| {
                    let Some(mut connection) = connect(self.address) else { return };
                    let _ = redis::cmd("RESCALE").arg(memory).exec(&mut connection);
                };
                rescale("32MiB");
                thread::sleep(time);
                rescale("64MiB");
            }
        }
    }
}

fn connect(address: SocketAddr) -> Option<Connection> {
    redis::Client::open(format!("redis://{address}/")).ok()?.get_connection().ok()
}

type Value = Option<Vec<u8>>;

/// What one client knows of its keys.
#[derive(Default)]
struct Known {
    /// The last acknowledged value; none if the key was acknowledged to be gone.
    acknowledged: HashMap<String, Value>,
    /// What was said since and neither acknowledged nor refused.
    doubtful: HashMap<String, Vec<Value>>,
}

/// Writes until the end.
fn write(machine: &Machine, client: usize, seed: u64, known: &mut Known, load: &Load) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut connection = None;
    while !load.ends.load(SeqCst) {
        let Some(open) = connection.take().or_else(|| connect(machine.address)) else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        let mut open: Connection = open;
        let key = format!("{client}:{}", random.random_range(0..KEYS));
        let length = if random.random_range(0..10) == 0 { 60_000 } else { 400 };
        let value: Value = (random.random_range(0..8) > 0).then(|| {
            (0..random.random_range(1..length)).map(|_| random.random_range(0..=255)).collect()
        });
        let answer: redis::RedisResult<redis::Value> = match &value {
            Some(value) => redis::cmd("SET").arg(&key).arg(value).query(&mut open),
            None => redis::cmd("DEL").arg(&key).query(&mut open),
        };
        match answer {
            Ok(_) => {
                known.doubtful.remove(&key);
                known.acknowledged.insert(key, value);
                load.acknowledged.fetch_add(1, SeqCst);
                connection = Some(open);
            }
            Err(error) if error.code().is_some() => {
                assert!(error.to_string().contains("disk full"), "refused: {error}");
                load.refused.fetch_add(1, SeqCst);
                connection = Some(open);
            }
            Err(_) => known.doubtful.entry(key).or_default().push(value),
        }
    }
}

#[derive(Default)]
struct Load {
    ends: AtomicBool,
    acknowledged: AtomicU64,
    refused: AtomicU64,
}

/// Is everything as it was acknowledged? What is found settles what was doubtful.
fn check(machine: &Machine, known: &mut Known) {
    let mut connection = connect(machine.address).expect("the database is back");
    let keys: BTreeSet<String> =
        known.acknowledged.keys().chain(known.doubtful.keys()).cloned().collect();
    for key in keys {
        let found: Value = redis::cmd("GET").arg(&key).query(&mut connection).expect("an answer");
        let acknowledged = known.acknowledged.get(&key).cloned().flatten();
        let doubtful = known.doubtful.remove(&key).unwrap_or_default();
        let is_known = found == acknowledged || doubtful.contains(&found);
        let length = |value: &Value| value.as_ref().map(Vec::len);
        assert!(
            is_known,
            "{key}: found {:?} bytes, acknowledged {:?}, doubtful {:?}",
            length(&found),
            length(&acknowledged),
            doubtful.iter().map(length).collect::<Vec<_>>()
        );
        known.acknowledged.insert(key, found);
    }
}

/// Rounds of two faults, so many at least and for so long.
fn suffer(seed: u64, rounds: usize, time: Duration) {
    if !rustix::process::geteuid().is_root() {
        return absent("a small file system of its own needs root").unwrap_or(());
    }
    let mut random = Pcg64Mcg::seed_from_u64(faults::seed(seed));
    let mut machine = Machine::start();
    let mut known: Vec<Known> = (0..CLIENTS).map(|_| Known::default()).collect();
    let (mut acknowledged, mut refused, mut round, began) = (0, 0, 0, Instant::now());
    while round < rounds || began.elapsed() < time {
        let seeds: Vec<u64> = known.iter().map(|_| random.random()).collect();
        let load = Load::default();
        thread::scope(|scope| {
            for (client, (known, seed)) in known.iter_mut().zip(seeds).enumerate() {
                let (machine, load) = (&machine, &load);
                scope.spawn(move || write(machine, client, seed, known, load));
            }
            let waited = Instant::now();
            while load.acknowledged.load(SeqCst) < 20 && waited.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(1));
            }
            let suffer = |fault, time| machine.suffer(fault, time);
            faults::two_at_once(&FAULTS, round, &mut random, suffer);
            load.ends.store(true, SeqCst);
        });
        if machine.database.lock().expect("not poisoned").is_none() {
            machine.bring_up();
        }
        known.iter_mut().for_each(|known| check(&machine, known));
        acknowledged += load.acknowledged.load(SeqCst);
        refused += load.refused.load(SeqCst);
        round += 1;
        if round % 50 == 0 {
            eprintln!("{round} rounds, {acknowledged} acknowledged, {refused} refused");
        }
    }
    eprintln!("{round} rounds, {acknowledged} acknowledged, {refused} refused, nothing lost");
    assert!(acknowledged >= 20 * round as u64, "only {acknowledged} were acknowledged");
}

#[test]
fn in_every_pair_of_them() {
    suffer(1, faults::rounds(FAULTS.len()), Duration::ZERO);
}

#[test]
#[ignore = "an hour: make soak"]
fn for_an_hour() {
    suffer(RandomState::new().hash_one(0_u8), 12, Duration::from_secs(3_600));
}
