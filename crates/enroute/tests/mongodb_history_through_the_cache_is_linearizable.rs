//! Many MongoDB clients, few documents, a path that breaks: whatever drivers are told through the
//! cache could have come from one copy of the data.

mod support;

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::ClientOptions;
use mongodb::sync::{Client, Collection};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use support::enroute::{Cache, program};
use support::history::{self, Operation, Outcome, Recorder, Verdict, What};
use support::origins::Mongo;
use support::process::free_address;
use testbed::link::{Relay, RelayConfig};

const CLIENTS: usize = 8;
const KEYS: usize = 20;

#[test]
fn mongodb_history_through_the_cache_is_linearizable() {
    history::are_linearizable(150, |seed| run(&program(), 3_000, seed));
}

#[test]
#[ignore = "slow: make soak"]
fn mongodb_history_of_200_000_operations_is_linearizable() {
    history::are_linearizable(10_000, |seed| {
        // More are begun: a read that is never answered is not recorded.
        let (verdict, hits) = run(&program(), 220_000, seed)?;
        assert!(verdict.operations >= 200_000, "{}", verdict.text);
        Some((verdict, hits))
    });
}

/// The same test must see a cache whose leases accept every late reply.
#[test]
#[ignore = "needs a broken build: make soak"]
fn a_cache_of_mongodb_without_leases_is_found_out() {
    let program = env::var("ENROUTE_BROKEN").expect("ENROUTE_BROKEN names the broken build");
    let is_found = |seed| {
        let seen = run(Path::new(&program), 100_000, seed);
        // Nothing is there to run it with.
        seen.is_none_or(|(verdict, _)| !verdict.linearizable)
    };
    assert!(history::seeds().any(is_found), "linearizable every time");
}

/// What the checker says, and how often the cache answered.
fn run(program: &Path, operations: usize, seed: u64) -> Option<(Verdict, u64)> {
    history::checker()?;
    let origin = Mongo::start_java()?;
    let mut config = RelayConfig::new(origin.address());
    config.listen = free_address();
    config.up.jitter = Duration::from_millis(1);
    config.down.jitter = Duration::from_millis(1);
    config.handshake = false;
    config.seed = seed;
    // Longer than any write is under way here after its connection was lost.
    let options = "workers = 2\n[storage]\nquarantine = \"3s\"\n";
    let cache = Cache::run(program, &[("mongodb", config.listen, "")], options);

    let start = Instant::now();
    let left = AtomicUsize::new(operations);
    let over = AtomicBool::new(false);
    let history: Vec<Operation> = thread::scope(|scope| {
        let trouble = scope.spawn(|| make_trouble(&config, &over));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (address, left) = (cache.address(), &left);
                scope.spawn(move || work(number, address, seed, start, left))
            })
            .collect();
        let history = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        let breaks = trouble.join().unwrap();
        eprintln!("seed {seed}: {breaks} breaks in {:?}", start.elapsed());
        history
    });
    let statistics = cache.statistics();
    let verdict = history::check(&history)?;
    eprintln!("{}\n{statistics:?}", verdict.text);
    Some((verdict, statistics["hits"] as u64))
}

fn work(
    number: usize,
    address: SocketAddr,
    seed: u64,
    start: Instant,
    left: &AtomicUsize,
) -> Vec<Operation> {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ (number as u64) << 32);
    let mut recorder = Recorder::new(number, start);
    let mut value = number as u64 * 1_000_000_000;
    let users = users(address);
    let take = |left: usize| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        value += 1;
        let key = random.random_range(0..KEYS);
        let filter = doc! { "_id": format!("k{key}") };
        match random.random_range(0..100) {
            0..70 => recorder.record(key, || {
                let found = users.find_one(filter).run().ok()?;
                let value = found.map(|found| found.get_i64("v").expect("a number") as u64);
                Some((What::Read(value), Outcome::Succeeded))
            }),
            70..93 => recorder.record(key, || {
                let mut whole = filter.clone();
                whole.insert("v", value as i64);
                let written = users.replace_one(filter, whole).upsert(true).run();
                Some((What::Write(value), outcome(&written)))
            }),
            _ => recorder
                .record(key, || Some((What::Delete, outcome(&users.delete_one(filter).run())))),
        };
    }
    recorder.finish()
}

fn users(address: SocketAddr) -> Collection<Document> {
    let url = format!("mongodb://{address}/?directConnection=true&retryWrites=false");
    let options = ClientOptions::parse(url).run().expect("a URL");
    let client = Client::with_options(options).expect("good options");
    client.database("shop").collection("users")
}

/// What is known of a write: an answer, even no, says all; a lost connection says nothing.
fn outcome<T>(written: &Result<T, Error>) -> Outcome {
    match written.as_ref().map_err(|error| &*error.kind) {
        Ok(_) => Outcome::Succeeded,
        Err(ErrorKind::Command(_) | ErrorKind::Write(_)) => Outcome::Failed,
        Err(_) => Outcome::Unknown,
    }
}

/// Takes the path away with all its connections, brings it back, delays it: says how often.
fn make_trouble(config: &RelayConfig, over: &AtomicBool) -> usize {
    let mut random = Pcg64Mcg::seed_from_u64(!config.seed);
    let sleep = |limit: u64, random: &mut Pcg64Mcg| {
        thread::sleep(Duration::from_millis(random.random_range(0..limit)));
    };
    let mut breaks = 0;
    while !over.load(Ordering::Relaxed) {
        let relay = Relay::start(config.clone()).expect("the same relay");
        sleep(1_000, &mut random);
        let delay = Duration::from_micros(random.random_range(0..2_000));
        relay.set_delay(delay, delay);
        sleep(1_000, &mut random);
        relay.stop();
        sleep(30, &mut random);
        breaks += 1;
    }
    breaks
}
