//! Many Redis clients on few keys while the path to the origin breaks and the origin is killed: what they
//! were told.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use enroute::link::{Relay, RelayConfig, RelayHandle};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::database::Database;
use super::history::{Operation, Outcome, Recorder, What};
use super::origins::Redis;
use super::process::PATIENCE;

const CLIENTS: usize = 16;
const KEYS: usize = 50;

/// What is killed. What it has answered is to survive that.
pub trait Origin: Send {
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

/// A path to `origin` that may break.
pub fn path_to(origin: &impl Origin, seed: u64) -> RelayHandle {
    let mut config = RelayConfig::new(origin.address()).round_trip(Duration::from_micros(200));
    config.up.jitter = Duration::from_millis(1);
    config.down.jitter = Duration::from_millis(1);
    config.handshake = false;
    config.seed = seed;
    Relay::start(config).expect("a relay")
}

/// Clients of `address` ask for so many operations together, while `relay` and `origin` are in trouble.
pub fn record(
    address: SocketAddr,
    origin: &mut impl Origin,
    relay: &RelayHandle,
    operations: usize,
    seed: u64,
) -> Vec<Operation> {
    let start = Instant::now();
    let left = AtomicUsize::new(operations);
    let over = AtomicBool::new(false);
    let url = format!("redis://{address}/");
    thread::scope(|scope| {
        let trouble = scope.spawn(|| make_trouble(origin, relay, &over, seed));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| Client::new(number, &url, seed, start))
            .map(|client| scope.spawn(|| client.run(&left)))
            .collect();
        let history = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        let (cuts, restarts) = trouble.join().unwrap();
        eprintln!("seed {seed}: {cuts} cuts, {restarts} restarts in {:?}", start.elapsed());
        history
    })
}

/// Clients of `address` ask for one thing after the other, with a pause after each, until `trouble` is over.
pub fn record_during(
    address: SocketAddr,
    seed: u64,
    pause: Duration,
    trouble: impl FnOnce(),
) -> Vec<Operation> {
    let start = Instant::now();
    let left = AtomicUsize::new(usize::MAX);
    let url = format!("redis://{address}/");
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| Client { pause, ..Client::new(number, &url, seed, start) })
            .map(|client| scope.spawn(|| client.run(&left)))
            .collect();
        trouble();
        left.store(0, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

struct Client {
    number: usize,
    url: String,
    random: Pcg64Mcg,
    connection: Option<redis::Connection>,
    pause: Duration,
    recorder: Recorder,
}

impl Client {
    fn new(number: usize, url: &str, seed: u64, start: Instant) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed ^ (number as u64) << 32);
        let recorder = Recorder::new(number, start);
        let (url, pause) = (url.to_owned(), Duration::ZERO);
        Self { number, url, random, connection: None, pause, recorder }
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
            if !self.pause.is_zero() {
                thread::sleep(self.pause);
            }
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
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
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
