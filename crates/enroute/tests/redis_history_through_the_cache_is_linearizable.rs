//! Many clients, few keys, a path that breaks: whatever Redis clients are told through the cache
//! could have come from one copy of the data, redis-server's or `enroute db`'s.

mod support;

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use enroute::link::{Relay, RelayConfig, RelayHandle};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use support::database::Database;
use support::enroute::{Cache, program};
use support::history::{self, Operation, Outcome, Recorder, Verdict, What};
use support::origins::Redis;

const CLIENTS: usize = 16;
const KEYS: usize = 50;
/// Longer than any write is under way here after its connection was lost, cuts included.
const OPTIONS: &str = "workers = 2\n[storage]\nquarantine = \"2s\"\n";

#[test]
fn redis_history_through_the_cache_is_linearizable() {
    history::are_linearizable(2_000, |seed| run(&program(), redis()?, 20_000, seed));
}

#[test]
fn history_before_the_elastic_database_is_linearizable() {
    let database = || Database::start_with(&["--sync", "always", "--workers", "2"]);
    history::are_linearizable(2_000, |seed| run(&program(), database(), 20_000, seed));
}

#[test]
#[ignore = "slow: make soak"]
fn redis_history_of_200_000_operations_is_linearizable() {
    history::are_linearizable(20_000, |seed| {
        // More are begun: a read that is never answered is not recorded.
        let (verdict, hits) = run(&program(), redis()?, 220_000, seed)?;
        assert!(verdict.operations >= 200_000, "{}", verdict.text);
        Some((verdict, hits))
    });
}

/// The same test must see a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_cache_without_leases_is_found_out() {
    let program = env::var("ENROUTE_BROKEN").expect("ENROUTE_BROKEN names the broken build");
    let is_found = |seed| {
        let seen = redis().and_then(|redis| run(Path::new(&program), redis, 200_000, seed));
        // Nothing is there to run it with.
        seen.is_none_or(|(verdict, _)| !verdict.linearizable)
    };
    assert!(history::seeds().any(is_found), "linearizable every time");
}

/// What the cache stands before. What it has answered survives its end.
trait Origin: Send {
    fn address(&self) -> SocketAddr;
    fn connection(&self) -> redis::Connection;
    fn bring_down(&mut self);
    fn bring_up(&mut self);
}

macro_rules! origins {
    ($($server:ty),+) => {$(
        impl Origin for $server {
            fn address(&self) -> SocketAddr {
                self.address()
            }

            fn connection(&self) -> redis::Connection {
                self.connection()
            }

            fn bring_down(&mut self) {
                self.bring_down();
            }

            fn bring_up(&mut self) {
                self.bring_up();
            }
        }
    )+};
}

origins!(Redis, Database);

fn redis() -> Option<Redis> {
    // Without fsync: only the process ends.
    Redis::start_with(&["--appendonly", "yes", "--appendfsync", "no"])
}

/// What the checker says, and how often the cache answered.
fn run(
    program: &Path,
    mut origin: impl Origin,
    operations: usize,
    seed: u64,
) -> Option<(Verdict, u64)> {
    history::checker()?;
    let mut config = RelayConfig::new(origin.address()).round_trip(Duration::from_micros(200));
    config.up.jitter = Duration::from_millis(1);
    config.down.jitter = Duration::from_millis(1);
    config.handshake = false;
    config.seed = seed;
    let relay = Relay::start(config).expect("a relay");
    let cache = Cache::run(program, &[("redis", relay.local_addr(), "")], OPTIONS);

    let start = Instant::now();
    let left = AtomicUsize::new(operations);
    let over = AtomicBool::new(false);
    let url = format!("redis://{}/", cache.address());
    let history: Vec<Operation> = thread::scope(|scope| {
        let trouble = scope.spawn(|| make_trouble(&mut origin, &relay, &over, seed));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| Client::new(number, &url, seed, start))
            .map(|client| scope.spawn(|| client.run(&left)))
            .collect();
        let history = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        let (cuts, restarts) = trouble.join().unwrap();
        eprintln!("seed {seed}: {cuts} cuts, {restarts} restarts in {:?}", start.elapsed());
        history
    });
    let statistics = cache.statistics();
    let verdict = history::check(&history)?;
    eprintln!("{}\n{statistics:?}", verdict.text);
    Some((verdict, statistics["hits"] as u64))
}

struct Client {
    number: usize,
    url: String,
    random: Pcg64Mcg,
    connection: Option<redis::Connection>,
    recorder: Recorder,
}

impl Client {
    fn new(number: usize, url: &str, seed: u64, start: Instant) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed ^ (number as u64) << 32);
        let recorder = Recorder::new(number, start);
        Self { number, url: url.to_owned(), random, connection: None, recorder }
    }

    fn run(mut self, left: &AtomicUsize) -> Vec<Operation> {
        let mut value = self.number as u64 * 1_000_000_000;
        let take = |left: usize| left.checked_sub(1);
        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            value += 1;
            let what = match self.random.random_range(0..100) {
                0..70 => What::Read(None),
                70..93 => What::Write(value),
                _ => What::Delete,
            };
            // Half of all on a fifth of the keys: races need company.
            let keys = if self.random.random_bool(0.5) { KEYS / 5 } else { KEYS };
            let key = self.random.random_range(0..keys);
            self.operate(key, what);
        }
        self.recorder.finish()
    }

    fn operate(&mut self, key: usize, what: What) {
        let leaves = self.random.random_ratio(1, 1_000);
        let (url, connection) = (&self.url, &mut self.connection);
        self.recorder.record(key, || {
            let Some(mut used) = connection.take().or_else(|| connect(url)) else {
                // The cache listens all the time; it may only be out of room for a moment.
                thread::sleep(Duration::from_millis(1));
                return None;
            };
            let unknown = (!matches!(what, What::Read(_))).then_some((what, Outcome::Unknown));
            if used.send_packed_command(&command(key, what).get_packed_command()).is_err() || leaves
            {
                return unknown;
            }
            match used.recv_response().map(redis::Value::extract_error) {
                Ok(Ok(reply)) => {
                    *connection = Some(used);
                    Some((answered(what, &reply), Outcome::Succeeded))
                }
                // An answer, and it is no: the write had no effect. That is a promise of ours too,
                // where the origin cannot be reached.
                Ok(Err(_)) => {
                    *connection = Some(used);
                    thread::sleep(Duration::from_millis(1));
                    (!matches!(what, What::Read(_))).then_some((what, Outcome::Failed))
                }
                Err(_) => unknown,
            }
        });
    }
}

fn connect(url: &str) -> Option<redis::Connection> {
    let connection = redis::Client::open(url).ok()?.get_connection().ok()?;
    connection.set_read_timeout(Some(support::process::PATIENCE)).ok()?;
    Some(connection)
}

fn command(key: usize, what: What) -> redis::Cmd {
    let (name, value) = match what {
        What::Read(_) => ("GET", None),
        What::Write(value) => ("SET", Some(value)),
        What::Delete => ("DEL", None),
    };
    let mut command = redis::cmd(name);
    command.arg(format!("key:{key}")).arg(value);
    command
}

fn answered(what: What, reply: &redis::Value) -> What {
    match what {
        What::Read(_) => {
            What::Read(redis::from_redis_value_ref(reply).expect("a number or nothing"))
        }
        other => other,
    }
}

/// Breaks the path now and then, and the origin: says how often.
fn make_trouble(
    origin: &mut impl Origin,
    relay: &RelayHandle,
    over: &AtomicBool,
    seed: u64,
) -> (usize, usize) {
    let mut random = Pcg64Mcg::seed_from_u64(!seed);
    let sleep = |limit: u64, random: &mut Pcg64Mcg| {
        thread::sleep(Duration::from_millis(random.random_range(0..limit)));
    };
    let (mut cuts, mut restarts) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        sleep(400, &mut random);
        match random.random_range(0..10) {
            0..4 => {
                let delay = || {
                    Duration::from_micros(
                        Pcg64Mcg::seed_from_u64(seed ^ cuts as u64).random_range(0..3_000),
                    )
                };
                relay.set_delay(delay(), delay());
            }
            4..6 => {
                relay.cut();
                sleep(50, &mut random);
                relay.restore();
                cuts += 1;
            }
            6..9 => {
                let kill = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").clone();
                let _: Result<i64, _> = kill.query(&mut origin.connection());
                cuts += 1;
            }
            _ => {
                origin.bring_down();
                sleep(50, &mut random);
                origin.bring_up();
                restarts += 1;
            }
        }
    }
    (cuts, restarts)
}
