//! The history of many memcached clients on few keys while the path to the origin breaks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use testbed::link::{Relay, RelayConfig, RelayHandle};

use super::history::{self, GoesOn, Operation, Outcome, Recorder, What};
use super::process::PATIENCE;

const CLIENTS: usize = 16;
pub const KEYS: usize = 50;
const BUSY_KEYS: usize = 10;
/// Pause before another attempt to connect to an address without a listener.
const PAUSE: Duration = Duration::from_millis(2);

/// A path to the origin that may break.
pub fn path_to(origin: SocketAddr, seed: u64) -> RelayHandle {
    let mut config = RelayConfig::new(origin).round_trip(Duration::from_micros(200));
    config.up.jitter = Duration::from_millis(1);
    config.down.jitter = Duration::from_millis(1);
    config.handshake = false;
    config.seed = seed;
    Relay::start(config).expect("a relay")
}

/// The history of `work`, whose clients make `operations` requests in total, while `relay` has
/// faults.
pub fn record(
    relay: &RelayHandle,
    operations: usize,
    seed: u64,
    work: impl FnOnce(Instant, GoesOn<'_>) -> Vec<Operation>,
) -> Vec<Operation> {
    let start = Instant::now();
    let trouble = |over: &AtomicBool| make_trouble(relay, over, seed);
    let (history, cuts) = history::record(operations, trouble, |goes_on| work(start, goes_on));
    eprintln!("seed {seed}: {cuts} cuts in {:?}", start.elapsed());
    history
}

/// Clients of `address` send one request after another while it `goes_on`.
pub fn work(address: SocketAddr, seed: u64, start: Instant, goes_on: GoesOn<'_>) -> Vec<Operation> {
    history::of_clients(CLIENTS, |number| Client::new(number, address, seed, start).run(goes_on))
}

/// Waits until the origin answers a new client of the cache at `address`.
pub fn until_answered(address: SocketAddr) {
    let answer = || {
        let mut connection = connect(address)?;
        connection.get_mut().write_all(b"version\r\n").ok()?;
        reply(&mut connection, false)
    };
    let began = Instant::now();
    while !answer().is_some_and(|(line, _)| line.starts_with("VERSION ")) {
        assert!(began.elapsed() < PATIENCE, "the origin is not reached again");
        thread::sleep(PAUSE);
    }
}

fn make_trouble(relay: &RelayHandle, over: &AtomicBool, seed: u64) -> usize {
    let mut random = Pcg64Mcg::seed_from_u64(!seed);
    let mut cuts = 0;
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(random.random_range(0..400)));
        if random.random_bool(0.5) {
            let mut delay = || Duration::from_micros(random.random_range(0..3_000));
            relay.set_delay(delay(), delay());
        } else {
            relay.cut();
            thread::sleep(Duration::from_millis(random.random_range(0..50)));
            relay.restore();
            cuts += 1;
        }
    }
    cuts
}

struct Client {
    number: usize,
    address: SocketAddr,
    random: Pcg64Mcg,
    connection: Option<BufReader<TcpStream>>,
    recorder: Recorder,
}

impl Client {
    fn new(number: usize, address: SocketAddr, seed: u64, start: Instant) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed ^ (number as u64) << 32);
        Self { number, address, random, connection: None, recorder: Recorder::new(number, start) }
    }

    fn run(mut self, goes_on: GoesOn<'_>) -> Vec<Operation> {
        let mut value = self.number as u64 * 1_000_000_000;
        while goes_on() {
            value += 1;
            let what = match self.random.random_range(0..100) {
                0..70 => What::Read(None),
                70..93 => What::Write(value),
                _ => What::Delete,
            };
            let keys = if self.random.random_bool(0.5) { BUSY_KEYS } else { KEYS };
            let key = self.random.random_range(0..keys);
            let form = self.random.random_range(0..3);
            self.operate(key, what, form);
        }
        self.recorder.finish()
    }

    fn operate(&mut self, key: usize, what: What, form: u32) {
        let (address, connection) = (self.address, &mut self.connection);
        self.recorder.record(key, || {
            let Some(mut used) = connection.take().or_else(|| connect(address)) else {
                thread::sleep(PAUSE);
                return None;
            };
            let unknown = (!matches!(what, What::Read(_))).then_some((what, Outcome::Unknown));
            let request = request(key, what, form);
            let sent = used.get_mut().write_all(request.as_bytes());
            let fenced = request.ends_with("mn\r\n");
            let told = sent.ok().and_then(|()| reply(&mut used, fenced));
            let Some((line, value)) = told else { return unknown };
            if line.starts_with("SERVER_ERROR") {
                // The origin is unreachable, so the request was not sent.
                thread::sleep(PAUSE);
                return unknown;
            }
            *connection = Some(used);
            Some((
                if let What::Read(_) = what { What::Read(value) } else { what },
                Outcome::Succeeded,
            ))
        });
    }
}

fn connect(address: SocketAddr) -> Option<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_nodelay(true).ok()?;
    Some(BufReader::new(stream))
}

/// A request in one of several equivalent forms; `mn` follows one that may have no reply.
fn request(key: usize, what: What, form: u32) -> String {
    match (what, form) {
        (What::Read(_), 0) => format!("mg k{key} v\r\n"),
        (What::Read(_), 1) => format!("mg k{key} v q\r\nmn\r\n"),
        (What::Read(_), _) => format!("get k{key}\r\n"),
        (What::Write(value), 0) => format!("ms k{key} {} q\r\n{value}\r\nmn\r\n", length(value)),
        (What::Write(value), 1) => {
            format!("set k{key} 0 0 {} noreply\r\n{value}\r\nmn\r\n", length(value))
        }
        (What::Write(value), _) => format!("set k{key} 0 0 {}\r\n{value}\r\n", length(value)),
        (What::Delete, 0) => format!("md k{key}\r\n"),
        (What::Delete, 1) => format!("delete k{key} noreply\r\nmn\r\n"),
        (What::Delete, _) => format!("delete k{key}\r\n"),
    }
}

fn length(value: u64) -> usize {
    value.to_string().len()
}

/// The last line of a reply, and the value in it; `None` if it is incomplete.
fn reply(connection: &mut BufReader<TcpStream>, fenced: bool) -> Option<(String, Option<u64>)> {
    let mut value = None;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).ok().filter(|_| line.ends_with('\n'))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let (length, more) = match words[..] {
            ["VALUE", _, _, length] => (length, true),
            ["VA", length] => (length, false),
            _ => return Some((line, value)),
        };
        let mut bytes = vec![0; length.parse::<usize>().ok()? + 2];
        connection.read_exact(&mut bytes).ok()?;
        value = std::str::from_utf8(&bytes).ok()?.trim().parse().ok();
        // The reply to `mn` follows the value of a quiet `mg`.
        if !more && !fenced {
            return Some((line, value));
        }
    }
}
