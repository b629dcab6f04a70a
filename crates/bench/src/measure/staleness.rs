//! How long a write around the cache stays invisible to readers of the cache, whose feed reports
//! it.
//!
//! A write is repeated at the origin, and after each acknowledgement one key is read through the
//! cache until the new value comes. The write was invisible from its acknowledgement until the
//! last read that returned the old value was sent; it was not invisible at all if the first read
//! returned the new one. The key is a hit whenever it is written.

use std::{
    collections::BTreeMap,
    future::IntoFuture,
    net::SocketAddr,
    sync::mpsc::{Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bson::doc;
use mongodb::Client;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{
    mongo::{collection, runtime},
    redis::load,
};
use crate::{
    figure::Figure,
    load::{Load, Session},
    process::Cores,
    run::Run,
    stub::VALUE_BYTES,
};

/// Other keys, which are read at [`RATE`] while the loaded part runs.
const KEYS: u64 = 10_000;
/// Reads a second beside the loaded part: a third of what both cores together answer.
const RATE: f64 = 20_000.0;
/// Between writes, so that they do not follow the rhythm of anything: at most this.
const PAUSE: Duration = Duration::from_millis(4);
/// Limit for p99, in milliseconds; for MongoDB beyond the lag of its own change stream.
const GOAL_MS: f64 = 10.0;
/// Longest time until a write is seen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Milliseconds that writes were invisible, sorted, by what is shown as a line of the picture.
type Distributions = BTreeMap<&'static str, Vec<f64>>;

/// Redis with nothing else to do and beside a load, and MongoDB.
pub(super) fn run(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let writes = if run.short { 300 } else { 3_000 };
    let mut all = Distributions::new();
    redis(run, writes, &mut all)?;
    run.keep("staleness", &all)?;
    mongo(run, writes, &mut all)?;
    run.keep("staleness", &all)?;

    let p99 = |line: &str| at(&all[line], 0.99);
    let described = |line: &str| {
        let of = |share| at(&all[line], share);
        format!("{line}: p50 {:.3}, p99 {:.3}, longest {:.3}", of(0.5), of(0.99), of(1.0))
    };
    let alone = Figure::alone("staleness-redis", p99(REDIS), "ms, p99", GOAL_MS);
    let loaded = Figure::alone("staleness-redis-loaded", p99(LOADED), "ms, p99", GOAL_MS);
    let beyond = p99(MONGO) - p99(STREAM);
    let mongo = Figure::alone("staleness-mongodb", beyond, "ms, p99 beyond the stream's", GOAL_MS);
    Ok(vec![
        alone.note(format!("{writes} writes around the cache; {}", described(REDIS))),
        loaded.note(described(LOADED)),
        mongo.note(format!(
            "a scripted replica set, which reports a write at once; {}; {}",
            described(MONGO),
            described(STREAM)
        )),
    ])
}

const REDIS: &str = "Redis";
const LOADED: &str = "Redis, beside 20,000 hits/s";
const MONGO: &str = "MongoDB";
const STREAM: &str = "MongoDB's change stream itself";

/// The value at this share of sorted values.
fn at(sorted: &[f64], share: f64) -> f64 {
    sorted
        .get(((sorted.len().saturating_sub(1)) as f64 * share) as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

fn redis(run: &Run, writes: u64, all: &mut Distributions) -> anyhow::Result<()> {
    let redis = run.servers.redis(Cores::Any)?;
    Session::connect(redis.address)?.set_all(KEYS, VALUE_BYTES)?;
    let options = ["--workers", "1", "--ttl", "3600s", "--feed"];
    let cache = run.servers.cache("redis", redis.address, &options, Cores::Any)?;
    let mut writer = Session::connect(redis.address)?;
    let mut reader = Session::connect(cache.address)?;
    let mut write = |value: u64| writer.command(&["SET", "stale", &fixed(value)]);
    let mut read = || Ok(reader.value(&["GET", "stale"], VALUE_DIGITS)?.parse().ok());

    run.show(REDIS, 0.0);
    let alone = invisible(writes, &mut write, &mut read)?;
    all.insert(REDIS, alone);
    run.show(LOADED, 0.3);
    // Long enough for the writes, each of which takes a pause and some round trips.
    let duration = PAUSE * u32::try_from(writes)? / 2;
    let beside = Load { rate: Some(RATE), duration, ..load(run, cache.address, 1, VALUE_BYTES, 1) };
    Session::connect(cache.address)?.get_all(KEYS, VALUE_BYTES)?;
    let beside = thread::spawn(move || beside.run());
    let loaded = invisible(writes, &mut write, &mut read)?;
    let outcome = beside.join().map_err(|_| anyhow::anyhow!("the load panicked"))??;
    ensure!(outcome.operations > 0, "nothing was read beside the writes");
    all.insert(LOADED, loaded);
    Ok(())
}

/// All values of Redis have this length, so that a reader knows where a reply ends.
const VALUE_DIGITS: usize = 16;

fn fixed(value: u64) -> String {
    format!("{value:0VALUE_DIGITS$}")
}

/// Milliseconds that each of `count` writes was invisible, sorted.
fn invisible(
    count: u64,
    write: &mut impl FnMut(u64) -> anyhow::Result<()>,
    read: &mut impl FnMut() -> anyhow::Result<Option<u64>>,
) -> anyhow::Result<Vec<f64>> {
    let mut random = Pcg64Mcg::seed_from_u64(count);
    let mut all = Vec::new();
    write(0)?;
    for value in 0..count {
        let began = Instant::now();
        // The last write is seen, and the key is stored.
        while read()? != Some(value) {
            ensure!(began.elapsed() < PATIENCE, "write {value} is not seen");
        }
        read()?;
        thread::sleep(random.random_range(Duration::ZERO..PAUSE));
        write(value + 1)?;
        all.push(until_seen(value + 1, read)?.as_secs_f64() * 1e3);
    }
    all.sort_unstable_by(f64::total_cmp);
    Ok(all)
}

/// Reads until `value`, which has just been acknowledged, is returned; returns the time until the
/// last read that returned another one was sent.
fn until_seen(
    value: u64,
    read: &mut impl FnMut() -> anyhow::Result<Option<u64>>,
) -> anyhow::Result<Duration> {
    let acknowledged = Instant::now();
    let mut stale = Duration::ZERO;
    loop {
        let sent = acknowledged.elapsed();
        let seen = read()?;
        if seen == Some(value) {
            return Ok(stale);
        }
        let expected = value - 1;
        ensure!(seen == Some(expected), "expected {expected} or {value}, got {seen:?}");
        stale = sent;
        ensure!(sent < PATIENCE, "write {value} is not seen");
    }
}

fn mongo(run: &Run, writes: u64, all: &mut Distributions) -> anyhow::Result<()> {
    let origin = run.servers.replica()?;
    let options = ["--workers", "1", "--ttl", "3600s", "--feed"];
    let cache = run.servers.cache("mongodb", origin.address, &options, Cores::Any)?;
    let runtime = runtime()?;
    let direct = runtime.block_on(collection(origin.address))?;
    let cached = runtime.block_on(collection(cache.address))?;
    let (reporter, reports) = channel();
    let address = origin.address;
    thread::spawn(move || watch(address, &reporter));
    let next = || reports.recv_timeout(PATIENCE).context("the change stream reports nothing");
    let _opened = next()?;

    run.show(MONGO, 0.7);
    let mut acknowledged = Vec::new();
    let mut write = |value: u64| {
        let document = doc! { "value": i64::try_from(value)? };
        let replaced = direct.replace_one(doc! { "_id": "stale" }, document).upsert(true);
        runtime.block_on(replaced.into_future())?;
        acknowledged.push(Instant::now());
        Ok(())
    };
    let mut read = || {
        let found = runtime.block_on(cached.find_one(doc! { "_id": "stale" }).into_future())?;
        let value = found.as_ref().and_then(|document| document.get_i64("value").ok());
        Ok(value.and_then(|value| u64::try_from(value).ok()))
    };
    let invisible = invisible(writes, &mut write, &mut read)?;
    let mut lags = Vec::new();
    for written in acknowledged {
        lags.push(next()?.saturating_duration_since(written).as_secs_f64() * 1e3);
    }
    lags.sort_unstable_by(f64::total_cmp);
    all.insert(MONGO, invisible);
    all.insert(STREAM, lags);
    Ok(())
}

/// Sends the time at which a change stream of the whole deployment is open, and then that of each
/// of its events.
fn watch(origin: SocketAddr, reporter: &Sender<Instant>) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let url = format!("mongodb://{origin}/?directConnection=true");
        let client = Client::with_uri_str(url).await?;
        let mut events = client.watch().max_await_time(PATIENCE).await?;
        loop {
            reporter.send(Instant::now())?;
            while events.next_if_any().await?.is_none() {}
        }
    })
}
