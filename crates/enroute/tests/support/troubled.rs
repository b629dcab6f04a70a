//! A cache, its origin and the path between them, with two faults at a time that are drawn from a
//! seed, while clients read and write through the cache. Clock steps are not included: the cache
//! reads no clock that can be set.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use testbed::link::{Relay, RelayConfig, RelayHandle};

use super::cgroup::Cgroup;
use super::directory::TemporaryDirectory;
use super::enroute::{Cache, program};
use super::faults::{self, two_at_once};
use super::history::{self, GoesOn, KILLS, Operation, Recorder, Verdict};
use super::origins::{DynamoDb, Memcached, Mongo, Redis};
use super::process::Process;
use super::{dynamodb_history, memcached_history, mongodb_history, seeds};

/// Longer than two faults together keep a write in flight after its connection was lost.
const OPTIONS: &str = "workers = 2\n[storage]\nquarantine = \"5s\"\n";

#[derive(Debug, Clone, Copy)]
pub enum Fault {
    OriginStopped,
    /// Killed and restarted: what was not on disk is lost.
    OriginKilled,
    Cut,
    CacheStopped,
    LessMemory,
    /// Only for Redis.
    FeedCut,
}

/// Faults for origins without a feed.
pub const WITHOUT_FEED: [Fault; 5] =
    [Fault::OriginStopped, Fault::OriginKilled, Fault::Cut, Fault::CacheStopped, Fault::LessMemory];

/// An origin that is killed.
pub trait Origin: Send {
    const SCHEME: &'static str;
    /// Number of keys that it loses when it is killed.
    const LOST: usize = 0;
    /// Time without faults after each pair, for one that takes long to start.
    const CALM: Duration = Duration::ZERO;

    /// Options of the listener; the files that they name are in the directory.
    fn listener(_: &TemporaryDirectory) -> String {
        String::new()
    }

    fn address(&self) -> SocketAddr;
    fn running(&self) -> Option<&Process>;
    fn bring_down(&mut self);
    fn bring_up(&mut self);

    /// Waits until the origin answers a new client of the cache. From then on the cache has none of
    /// the lost data.
    fn until_answered(cache: SocketAddr);
}

macro_rules! origins {
    ($($server:ty { $($items:tt)* } $answered:expr;)+) => {$(
        impl Origin for $server {
            $($items)*

            fn address(&self) -> SocketAddr {
                self.address()
            }

            fn running(&self) -> Option<&Process> {
                self.running()
            }

            fn bring_down(&mut self) {
                self.bring_down();
            }

            fn bring_up(&mut self) {
                self.bring_up();
            }

            fn until_answered(cache: SocketAddr) {
                $answered(cache);
            }
        }
    )+};
}

origins! {
    Redis {
        const SCHEME: &'static str = "redis";
        fn listener(_: &TemporaryDirectory) -> String {
            "feed = {}".to_owned()
        }
    } |_| ();
    Memcached {
        const SCHEME: &'static str = "memcached";
        const LOST: usize = memcached_history::KEYS;
    } memcached_history::until_answered;
    Mongo {
        const SCHEME: &'static str = "mongodb";
        const LOST: usize = mongodb_history::KEYS;
    } mongodb_history::until_answered;
    DynamoDb {
        const SCHEME: &'static str = "dynamodb";
        const LOST: usize = dynamodb_history::KEYS;
        const CALM: Duration = Duration::from_secs(2);
        fn listener(directory: &TemporaryDirectory) -> String {
            dynamodb_history::access_key(directory)
        }
    } dynamodb_history::create_tables;
}

/// A cache with its environment.
pub struct Troubled<O> {
    origin: Mutex<O>,
    relay: RelayHandle,
    cache: Cache,
    group: Option<Cgroup>,
    seed: u64,
    _directory: TemporaryDirectory,
}

impl<O: Origin> Troubled<O> {
    pub fn start(program: &Path, origin: O, seed: u64) -> Self {
        let mut config = RelayConfig::new(origin.address());
        config.up.jitter = Duration::from_millis(1);
        config.down.jitter = Duration::from_millis(1);
        config.handshake = false;
        config.seed = seed;
        let relay = Relay::start(config).expect("a relay");
        let directory = TemporaryDirectory::create();
        let options = O::listener(&directory);
        let listener = (O::SCHEME, relay.local_addr(), &*options);
        let cache = Cache::run(program, &[listener], OPTIONS);
        let group = Cgroup::make("cache");
        if let Some(group) = &group {
            group.take(cache.process().id());
        }
        Self { origin: Mutex::new(origin), relay, cache, group, seed, _directory: directory }
    }

    /// Runs every pair of `faults` while `work` runs clients of an address, with the seed and the
    /// start of the history. Each client pauses for `pause` after each operation, so that the
    /// history can be checked. Returns the verdict on it.
    pub fn history(
        &self,
        faults: &[Fault],
        hits_min: f64,
        pause: Duration,
        work: impl FnOnce(SocketAddr, u64, Instant, GoesOn<'_>) -> Vec<Operation> + Send,
    ) -> Option<Verdict> {
        let (start, mut random) = (Instant::now(), Pcg64Mcg::seed_from_u64(self.seed));
        let kills = Mutex::new(Recorder::new(KILLS, start));
        let trouble = || {
            let enough = || self.cache.hits() >= hits_min;
            for round in faults::rounds_until(faults::rounds(faults.len()), enough) {
                two_at_once(faults, round, &mut random, |fault, lasts| {
                    self.suffer(fault, lasts, &kills);
                });
                thread::sleep(O::CALM);
            }
        };
        let (address, seed) = (self.cache.address(), self.seed);
        let mut history =
            history::record_during(pause, trouble, |goes_on| work(address, seed, start, goes_on));
        history.extend(kills.into_inner().expect("not poisoned").finish());
        let statistics = self.cache.statistics();
        let verdict = history::check(&history)?;
        eprintln!("{}\n{statistics:?}", verdict.text);
        assert!(statistics["hits"] >= hits_min, "only {} hits", statistics["hits"]);
        Some(verdict)
    }

    /// Applies the fault for this time.
    fn suffer(&self, fault: Fault, lasts: Duration, kills: &Mutex<Recorder>) {
        let origin = || self.origin.lock().expect("not poisoned");
        let tell = |signal| origin().running().map_or((), |process| process.signal(signal));
        match fault {
            Fault::OriginStopped => {
                tell("STOP");
                thread::sleep(lasts);
                tell("CONT");
            }
            Fault::OriginKilled => {
                kills.lock().expect("not poisoned").record_deletes(0..O::LOST, || {
                    origin().bring_down();
                    thread::sleep(lasts);
                    origin().bring_up();
                    O::until_answered(self.cache.address());
                });
            }
            Fault::Cut => {
                self.relay.cut();
                thread::sleep(lasts);
                self.relay.restore();
            }
            Fault::CacheStopped => {
                self.cache.process().stop();
                thread::sleep(lasts);
                self.cache.process().signal("CONT");
            }
            Fault::LessMemory => match &self.group {
                Some(group) => group.press(lasts),
                None => thread::sleep(lasts),
            },
            Fault::FeedCut => {
                let (address, began) = (origin().address(), Instant::now());
                while began.elapsed() < lasts {
                    // It may be stopped or down.
                    let _ = cut_feed(address);
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
}

/// The `history` of each of these seeds is linearizable.
pub fn are_linearizable(
    test: &str,
    seeds: impl IntoIterator<Item = u64>,
    history: impl Fn(&Path, u64) -> Option<Verdict>,
) {
    seeds::each(test, seeds, |seed| {
        let verdict = history(&program(), seed)?;
        assert!(verdict.linearizable, "SEED={seed}: {}", verdict.text);
        Some(())
    });
}

/// Makes the origin close the feed connection.
fn cut_feed(origin: SocketAddr) -> Option<()> {
    let limit = Duration::from_millis(200);
    let mut stream = TcpStream::connect_timeout(&origin, limit).ok()?;
    stream.set_read_timeout(Some(limit)).ok()?;
    stream.write_all(b"CLIENT LIST\r\n").ok()?;
    let (mut told, mut buffer) = (String::new(), [0; 16 << 10]);
    while !told.ends_with("\n\r\n") {
        let read = stream.read(&mut buffer).ok().filter(|&read| read > 0)?;
        told += &String::from_utf8_lossy(&buffer[..read]);
    }
    let is_feed = |line: &&str| line.contains("flags=t") || line.contains("flags=B");
    let mut words = told.lines().find(is_feed)?.split(' ');
    let id = words.find_map(|word| word.split_once("id=").map(|(_, id)| id))?;
    stream.write_all(format!("CLIENT KILL ID {id}\r\n").as_bytes()).ok()?;
    stream.read(&mut buffer).ok().map(drop)
}
