//! Two things go wrong at a time, drawn from a seed that is printed, while MongoDB clients read and
//! write through the cache: the origin is stopped (SIGSTOP), the path to it is cut, the cache is
//! stopped, its memory is short. The replies to clients are nevertheless linearizable, as from one
//! copy of the data. The origin keeps its data in memory, so it is not killed; and the cache reads
//! no clock that can be set.

use std::env;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::cgroup::Cgroup;
use crate::support::enroute::{Cache, program};
use crate::support::faults::{self, two_at_once};
use crate::support::history::{self, Verdict};
use crate::support::mongodb_history::record;
use crate::support::origins::Mongo;
use crate::support::seeds;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use testbed::link::{Relay, RelayConfig, RelayHandle};

/// Longer than two faults together keep a write under way after its connection was lost.
const OPTIONS: &str = "workers = 2\n[storage]\nquarantine = \"5s\"\n";
/// Of each client, so that one run is one history that can be checked.
const PAUSE: Duration = Duration::from_millis(2);
/// Below these a run says little: a driver looks for a server that it lost every half second.
const HITS_MIN: f64 = 100.0;

#[derive(Debug, Clone, Copy)]
enum Fault {
    OriginStopped,
    Cut,
    CacheStopped,
    LessMemory,
}

const FAULTS: [Fault; 4] =
    [Fault::OriginStopped, Fault::Cut, Fault::CacheStopped, Fault::LessMemory];

/// A cache with what is around it.
struct Machine {
    origin: Mongo,
    relay: RelayHandle,
    cache: Cache,
    group: Option<Cgroup>,
}

impl Machine {
    fn start(program: &Path, seed: u64) -> Option<Self> {
        let origin = Mongo::start_java()?;
        let mut config = RelayConfig::new(origin.address());
        config.up.jitter = Duration::from_millis(1);
        config.down.jitter = Duration::from_millis(1);
        config.handshake = false;
        config.seed = seed;
        let relay = Relay::start(config).expect("a relay");
        let cache = Cache::run(program, &[("mongodb", relay.local_addr(), "")], OPTIONS);
        let group = Cgroup::make("cache");
        if let Some(group) = &group {
            group.take(cache.process().id());
        }
        Some(Self { origin, relay, cache, group })
    }

    /// Applies the fault for this time.
    fn suffer(&self, fault: Fault, lasts: Duration) {
        match fault {
            Fault::OriginStopped => {
                self.origin.process().stop();
                thread::sleep(lasts);
                self.origin.process().signal("CONT");
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
        }
    }
}

/// The history of every pair of faults; none where something is not installed.
fn history(program: &Path, seed: u64) -> Option<Verdict> {
    history::checker()?;
    let machine = Machine::start(program, seed)?;
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let (address, over) = (machine.cache.address(), AtomicBool::new(false));
    let history = thread::scope(|scope| {
        let goes_on = || !over.load(Relaxed);
        let clients = scope
            .spawn(move || record(address, seed, Instant::now(), goes_on, || thread::sleep(PAUSE)));
        let enough = || machine.cache.hits() >= HITS_MIN;
        for round in faults::rounds_until(faults::rounds(FAULTS.len()), enough) {
            two_at_once(&FAULTS, round, &mut random, |fault, lasts| machine.suffer(fault, lasts));
        }
        over.store(true, Relaxed);
        clients.join().expect("no panic")
    });
    let statistics = machine.cache.statistics();
    let verdict = history::check(&history)?;
    eprintln!("{}\n{statistics:?}", verdict.text);
    assert!(statistics["hits"] >= HITS_MIN, "only {} hits", statistics["hits"]);
    Some(verdict)
}

fn is_linearizable(seed: u64) -> Option<()> {
    let verdict = history(&program(), seed)?;
    assert!(verdict.linearizable, "SEED={seed}: {}", verdict.text);
    Some(())
}

#[test]
fn in_every_pair_of_them() {
    seeds::each("mongodb_two_faults", [1], is_linearizable);
}

#[test]
#[ignore = "an hour: make soak"]
fn for_an_hour() {
    let hour = seeds::fresh_for(Duration::from_secs(3_600));
    seeds::each("mongodb_two_faults", hour, is_linearizable);
}

/// The same test must see a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_cache_of_mongodb_without_leases_is_found_out() {
    let program = env::var("ENROUTE_BROKEN").expect("ENROUTE_BROKEN names the broken build");
    let is_found = |seed| {
        let verdict = history(Path::new(&program), seed);
        // Nothing is there to run it with.
        verdict.is_none_or(|verdict| !verdict.linearizable)
    };
    assert!(history::seeds().any(is_found), "linearizable every time");
}
