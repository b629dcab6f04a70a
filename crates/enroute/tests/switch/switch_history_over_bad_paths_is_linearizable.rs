//! The attached program, its controller, a server and clients, each a separate process or thread,
//! in network namespaces: paths lose, duplicate and reorder packets, controller and server are
//! killed and restarted, and there are more hot keys than entries; or two of these faults at once.
//! The history of the clients is linearizable.

#[path = "../rack/trouble.rs"]
mod trouble;

use std::{
    path::Path,
    sync::{
        RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use crate::rack::{
    Rack,
    asking::{Asking, Memcache, NetCache},
    paths::FAR_SERVER,
};
use crate::support::{
    directory::TemporaryDirectory,
    history::{self, Outcome, Recorder, Verdict, What},
    seeds,
};
use enroute::switch::saved;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use switch::{plane::DataPlane, saved::Saved};
use testbed::link::PathConfig;
use trouble::{Server, Trouble};

const CLIENTS: usize = 16;
/// More keys than entries.
const KEYS: usize = 48;
const JITTER: Duration = Duration::from_millis(3);
/// One in this many clients only reads: writes may wait seconds for a server that was killed.
const READERS: usize = 4;
/// Minimum rate of the program's replies; with fewer, a history proves nothing about the program.
const HITS_MIN_PER_SECOND: u64 = 20;
/// Number of operations of the long histories of each protocol, and the duration of one of them.
const OPERATIONS_MIN: usize = 200_000;
const NETCACHE: [Server; 2] = [Server::Database, Server::Agent];
const MEMCACHED: [Server; 1] = [Server::Memcached];
const LONG: Duration = Duration::from_secs(120);
/// Total time of two faults at once in `make soak`, in runs of this length.
const HOUR: Duration = Duration::from_secs(3600);
const SOAKED: Duration = Duration::from_secs(60);

/// The disturbance of a history.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// One fault after the other.
    Faults,
    /// Two at a time.
    Pairs,
    /// The program serves overwritten values.
    Broken,
}

#[test]
fn netcache_history_of_the_database_is_linearizable() {
    are_linearizable(Server::Database, Duration::from_secs(6), Trial::Faults);
}

#[test]
fn netcache_history_of_the_agent_is_linearizable() {
    are_linearizable(Server::Agent, Duration::from_secs(4), Trial::Faults);
}

#[test]
fn memcached_history_is_linearizable() {
    are_linearizable(Server::Memcached, Duration::from_secs(6), Trial::Faults);
}

/// Entries are made valid again after writes: the test must detect that.
#[test]
fn a_program_that_serves_what_was_written_over_is_found_out() {
    for server in [Server::Agent, Server::Memcached] {
        let is_found = |seed| {
            let seen = run(server, Duration::from_secs(3), seed, Trial::Broken);
            // Without the tools to run it, nothing can be detected.
            seen.is_none_or(|(verdict, _)| !verdict.linearizable)
        };
        assert!(history::seeds().any(is_found), "linearizable every time");
    }
}

/// The agent loses its values when it is killed, so it is only stopped.
#[test]
fn two_faults_at_once_leave_histories_linearizable() {
    for (server, seconds) in [(Server::Database, 14), (Server::Memcached, 12), (Server::Agent, 6)] {
        are_linearizable(server, Duration::from_secs(seconds), Trial::Pairs);
    }
}

#[test]
#[ignore = "an hour: make soak"]
fn two_faults_at_once_for_an_hour() {
    seeds::each("switch_two_faults", seeds::fresh_for(HOUR), |seed| {
        for server in [Server::Database, Server::Memcached, Server::Agent] {
            let (verdict, _) = run(server, SOAKED, seed, Trial::Pairs)?;
            assert!(verdict.linearizable, "seed {seed}: {}", verdict.text);
        }
        Some(())
    });
}

#[test]
#[ignore = "half an hour: make soak"]
fn netcache_histories_of_200_000_operations_are_linearizable() {
    make_long_histories(&NETCACHE, Trial::Faults);
}

#[test]
#[ignore = "half an hour: make soak"]
fn memcached_histories_of_200_000_operations_are_linearizable() {
    make_long_histories(&MEMCACHED, Trial::Faults);
}

#[test]
#[ignore = "minutes: make soak"]
fn a_broken_netcache_program_is_found_out_in_200_000_operations() {
    make_long_histories(&NETCACHE, Trial::Broken);
}

#[test]
#[ignore = "minutes: make soak"]
fn a_broken_memcached_program_is_found_out_in_200_000_operations() {
    make_long_histories(&MEMCACHED, Trial::Broken);
}

fn make_long_histories(servers: &[Server], trial: Trial) {
    let (mut operations, mut seed) = (0, history::seeds().start);
    while operations < OPERATIONS_MIN {
        let server = servers[seed as usize % servers.len()];
        let Some((verdict, hits)) = run(server, LONG, seed, trial) else { return };
        assert_eq!(verdict.linearizable, trial != Trial::Broken, "{seed}: {}", verdict.text);
        assert!(hits > HITS_MIN_PER_SECOND, "seed {seed}: {hits} hits");
        operations += verdict.operations;
        seed += 1;
    }
}

fn are_linearizable(server: Server, span: Duration, trial: Trial) {
    // With two faults at once there are fewer operations.
    let share = if trial == Trial::Pairs { 10 } else { 1 };
    let hits_min = HITS_MIN_PER_SECOND * span.as_secs() / share;
    history::are_linearizable(hits_min, |seed| run(server, span, seed, trial));
}

/// Returns the checker's verdict, and the number of the program's replies.
fn run(server: Server, span: Duration, seed: u64, trial: Trial) -> Option<(Verdict, u64)> {
    history::checker()?;
    let mut rack = Rack::build()?;
    let bad = PathConfig {
        jitter: JITTER,
        loss: 0.02,
        reorder: true,
        duplicate: 0.03,
        ..PathConfig::default()
    };
    // A request that memcached receives 50 ms after a write must not overtake the write (decision
    // 0033).
    let to_servers = PathConfig { reorder: server != Server::Memcached, ..bad.clone() };
    rack.lengthen(bad, to_servers, seed);
    let files = TemporaryDirectory::create();
    let mut trouble = Trouble::new(&mut rack, server, files.path(), seed, span)?;
    let begin = Instant::now();
    let (over, quiet) = (AtomicBool::new(false), RwLock::new(()));
    let namespace = rack.file("x");
    let history = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (namespace, over, quiet) = (&namespace, &over, &quiet);
                let recorder = Recorder::new(number, begin);
                scope.spawn(move || {
                    crate::rack::enter(namespace);
                    let random = Pcg64Mcg::seed_from_u64(seed ^ (number as u64 + 1) << 32);
                    if server == Server::Memcached {
                        ask(number, Memcache::at(FAR_SERVER), recorder, random, over, quiet)
                    } else {
                        ask(number, NetCache::at(FAR_SERVER), recorder, random, over, quiet)
                    }
                })
            })
            .collect();
        let _broken = (trial == Trial::Broken).then(|| {
            let plane = opened(&rack.pins);
            let over = &over;
            scope.spawn(move || serve_what_was_written_over(&plane, over))
        });
        let mut recorder = Recorder::new(CLIENTS, begin);
        while begin.elapsed() < span {
            match trial {
                Trial::Faults => trouble.make(&mut rack, &quiet, &mut recorder),
                Trial::Pairs => trouble.make_two(&mut rack),
                Trial::Broken => {}
            }
            thread::sleep(Duration::from_millis(trouble.random.random_range(0..300)));
        }
        over.store(true, Relaxed);
        let asked = clients.into_iter().flat_map(|client| client.join().expect("a client ends"));
        asked.chain(recorder.finish()).collect::<Vec<_>>()
    });
    let hits = rack.count("hit");
    println!("seed {seed}: {hits} hits; controller, server, cuts, delays: {:?}", trouble.counts);
    println!("pairs: {:?}", trouble.pairs);
    let verdict = history::check(&history)?;
    println!("{}", verdict.text);
    Some((verdict, hits))
}

/// Reads, writes and deletes until the end; no operation is in progress while `quiet` is held.
fn ask(
    number: usize,
    mut asking: impl Asking,
    mut recorder: Recorder,
    mut random: Pcg64Mcg,
    over: &AtomicBool,
    quiet: &RwLock<()>,
) -> Vec<history::Operation> {
    let mut value = (number as u64) << 32;
    let reads_percent = if number.is_multiple_of(READERS) { 100 } else { 80 };
    while !over.load(Relaxed) {
        // Lets a thread that waits for `quiet` run.
        thread::yield_now();
        let _busy = quiet.read().expect("no thread panicked");
        // Half of the operations are on a sixth of the keys: races and hot keys need contention.
        let keys = if random.random_bool(0.5) { KEYS / 6 } else { KEYS };
        let key = random.random_range(0..keys);
        value += 1;
        let what = match random.random_range(0..100) {
            percent if percent < reads_percent => What::Read(None),
            ..99 => What::Write(value),
            _ => What::Delete,
        };
        recorder.record(key, || match (asking.ask(key, what), what) {
            (Some(answer), _) => Some((answer, Outcome::Succeeded)),
            (None, What::Read(_)) => None,
            (None, _) => Some((what, Outcome::Unknown)),
        });
    }
    recorder.finish()
}

fn opened(pins: &Path) -> DataPlane {
    let saved: Saved =
        saved(pins, "attach", Saved::is_of_this_build).expect("the program is attached");
    let config = saved.config(pins.into());
    DataPlane::open(config).expect("its maps")
}

/// Undoes the effect of writes in the program.
fn serve_what_was_written_over(plane: &DataPlane, over: &AtomicBool) {
    while !over.load(Relaxed) {
        for place in plane.lookup.places() {
            let entry = &plane.entries[place as usize];
            // A key that never had a value remains without one.
            if entry.valid_version.load(Relaxed) != 0 {
                entry.valid_version.store(entry.version.load(Relaxed), Relaxed);
            }
        }
        thread::yield_now();
    }
}
