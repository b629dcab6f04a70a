//! A writer goes past the cache while clients read through it: no value is read that was
//! overwritten before the bound of the feed. A feed that loses one record in a hundred is found
//! out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::directory::TemporaryDirectory;
use crate::support::dynamodb_history::{Signer, ask, connect, with_feed};
use crate::support::dynamodb_streams::{Fault, Streams};
use crate::support::enroute::Cache;
use crate::support::origins::DynamoDb;
use crate::support::process::PATIENCE;

const ITEMS: usize = 400;
const READERS: usize = 4;
/// How often all items are written. Between two rounds all become hits.
const ROUNDS: u64 = 4;
/// The bound of the feed (5 s), and what a busy machine may take.
const BOUND: Duration = Duration::from_secs(20);

const TABLE: &str = r#"{"TableName":"items","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],
    "AttributeDefinitions":[{"AttributeName":"id","AttributeType":"N"}],"BillingMode":"PAY_PER_REQUEST",
    "StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"}}"#;

/// What was written, and read too late.
#[derive(Default)]
struct History {
    /// For each value, the time in milliseconds, and 1, from which on it must not be read.
    overwritten_at: Vec<AtomicU64>,
    ends: AtomicBool,
    /// Reads of values that were overwritten more than [`BOUND`] before.
    stale: AtomicU64,
}

/// A client of the cache or of the origin.
struct Client {
    signer: Signer,
    stream: std::net::TcpStream,
}

impl Client {
    fn of(address: std::net::SocketAddr) -> Self {
        Self { signer: Signer::new(), stream: connect(address).expect("it listens") }
    }

    fn ask(&mut self, operation: &str, body: &str) -> String {
        let (status, told) =
            ask(&mut self.stream, &self.signer.sign(operation, body)).expect("a reply");
        assert_eq!(status, 200, "{told}");
        told
    }

    fn write(&mut self, item: usize, value: u64) {
        let item = format!(r#"{{"id":{{"N":"{item}"}},"v":{{"N":"{value}"}}}}"#);
        self.ask("PutItem", &format!(r#"{{"TableName":"items","Item":{item}}}"#));
    }

    fn read(&mut self, item: usize) -> u64 {
        let told = self
            .ask("GetItem", &format!(r#"{{"TableName":"items","Key":{{"id":{{"N":"{item}"}}}}}}"#));
        let (_, value) = told.split_once(r#""v":{"N":""#).expect("a value");
        value.split('"').next().and_then(|value| value.parse().ok()).expect("a number")
    }
}

/// The place of the value that `round` writes to `item`.
fn place(item: usize, round: u64) -> usize {
    item + ITEMS * round as usize
}

fn read_on(client: &mut Client, history: &History, first: usize, start: Instant) {
    let mut item = first;
    while !history.ends.load(Relaxed) {
        item = (item + READERS) % ITEMS;
        let began = start.elapsed();
        let round = client.read(item);
        let overwritten_at = history.overwritten_at[place(item, round)].load(Relaxed);
        let overwritten_at = Duration::from_millis(overwritten_at.wrapping_sub(1));
        if began > overwritten_at.saturating_add(BOUND) {
            history.stale.fetch_add(1, Relaxed);
        }
    }
}

/// Whether the values of all items become those of `round`, and hits.
fn settles(cache: &Cache, client: &mut Client, round: u64) -> bool {
    let began = Instant::now();
    let mut rest: Vec<usize> = (0..ITEMS).collect();
    while !rest.is_empty() && began.elapsed() < BOUND {
        rest.retain(|&item| client.read(item) != round);
    }
    let is_current = rest.is_empty();
    // They can be hits only after they have settled; other clients read as well.
    while is_current && began.elapsed() < PATIENCE {
        let before = cache.hits();
        for item in 0..ITEMS {
            client.read(item);
        }
        if cache.hits() >= before + ITEMS as f64 {
            return true;
        }
    }
    false
}

/// Returns the number of rounds after which all values became current, and of stale reads.
fn run(fault: Fault) -> Option<(u64, u64)> {
    let origin = DynamoDb::start()?;
    let streams = Streams::start(origin.address(), fault);
    let directory = TemporaryDirectory::create();
    let options = with_feed(&directory, Some(streams.address));
    let mut writer = Client::of(origin.address());
    writer.ask("CreateTable", TABLE);
    (0..ITEMS).for_each(|item| writer.write(item, 0));
    let cache = Cache::start_all(&[("dynamodb", origin.address(), &options)], "workers = 2\n");
    let overwritten_at = (0..place(0, ROUNDS + 1)).map(|_| AtomicU64::new(0)).collect();
    let history = History { overwritten_at, ..History::default() };
    let (start, mut client) = (Instant::now(), Client::of(cache.address()));
    let rounds = thread::scope(|scope| {
        for reader in 0..READERS {
            let (history, mut client) = (&history, Client::of(cache.address()));
            scope.spawn(move || read_on(&mut client, history, reader, start));
        }
        let mut rounds = 0;
        while rounds < ROUNDS && settles(&cache, &mut client, rounds) {
            for item in 0..ITEMS {
                writer.write(item, rounds + 1);
                let now = start.elapsed().as_millis() as u64 + 1;
                history.overwritten_at[place(item, rounds)].store(now, Relaxed);
            }
            rounds += 1;
        }
        let is_whole = rounds == ROUNDS && settles(&cache, &mut client, rounds);
        history.ends.store(true, Relaxed);
        if is_whole { rounds } else { rounds.saturating_sub(1) }
    });
    let (stale, hits) = (history.stale.load(Relaxed), cache.hits());
    eprintln!(
        "{fault:?}: {rounds} rounds, {stale} stale reads, {hits} hits, {} records lost",
        streams.dropped()
    );
    Some((rounds, stale))
}

#[test]
fn dynamodb_values_are_no_older_than_the_bound_of_the_feed() {
    let Some((rounds, stale)) = run(Fault::None) else { return };
    assert_eq!((rounds, stale), (ROUNDS, 0));
}

#[test]
fn a_feed_that_loses_one_record_in_a_hundred_is_found_out() {
    let Some((rounds, _)) = run(Fault::Drops(100)) else { return };
    assert!(rounds < ROUNDS, "all values became current, although records were lost");
}
