//! Reads by `_id` through the official Rust driver, beside mongo-java-server asked directly.

use std::{net::SocketAddr, time::Instant};

use anyhow::{Context, ensure};
use bson::{Bson, Document, doc};
use mongodb::{Client, Collection, options::ClientOptions};

use super::redis::percentiles;
use crate::{
    figure::{Figure, Goal, Reading, Rounds},
    process::{self, Cores, SERVER, Server},
    run::{Run, Side},
};

/// Documents that are read again and again.
pub(super) const FEW: i32 = 100;

/// Everything a measurement with the driver needs to run.
pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// The collection at `address`, over one connection that is made already.
pub(super) async fn collection(address: SocketAddr) -> anyhow::Result<Collection<Document>> {
    // The monitor's own requests would be measured, too, if its interval were not increased.
    let url = format!(
        "mongodb://{address}/?directConnection=true&maxPoolSize=1&serverMonitoringMode=poll\
         &heartbeatFrequencyMS=600000"
    );
    let client = Client::with_options(ClientOptions::parse(url).await?)?;
    let database = client.database("bench");
    database.run_command(doc! { "ping": 1 }).await.context("no MongoDB server answers")?;
    Ok(database.collection("items"))
}

/// Inserts documents `1..=count` of about 200 bytes.
pub(super) async fn insert(collection: &Collection<Document>, count: i32) -> anyhow::Result<()> {
    let value = "v".repeat(150);
    let documents: Vec<Document> =
        (1..=count).map(|key| doc! { "_id": key.to_string(), "value": &value }).collect();
    for some in documents.chunks(1_000) {
        collection.insert_many(some).await?;
    }
    Ok(())
}

/// Returns the duration of a read of the document `key`, in nanoseconds; the document must exist.
pub(super) async fn read(collection: &Collection<Document>, key: i32) -> anyhow::Result<u64> {
    let key = key.to_string();
    let began = Instant::now();
    let found = collection.find_one(doc! { "_id": &key }).await?;
    let taken = began.elapsed().as_nanos() as u64;
    let found = found.as_ref().and_then(|document| document.get("_id"));
    ensure!(found == Some(&Bson::String(key.clone())), "asked for {key}, found {found:?}");
    Ok(taken)
}

async fn read_all(
    collection: &Collection<Document>,
    keys: impl Iterator<Item = i32>,
) -> anyhow::Result<Reading> {
    let mut taken = Vec::new();
    for key in keys {
        taken.push(read(collection, key).await?);
    }
    taken.sort_unstable();
    Ok(percentiles(&taken))
}

pub(super) fn hit_and_miss(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let count = if run.short { 1_000 } else { 3_000 };
    let before_mongo = |suffix| compare(run, suffix, &run.servers.mongo()?, count, WARM_UP);
    // On one core nothing but work is measured; apart, the placement of wake-ups on cores decides.
    let fast = process::on(SERVER, || before_mongo(""))??;
    let free = before_mongo("-free")?;
    // FerretDB searches all its documents: few, then.
    let slow = compare(run, "-ferretdb", &run.servers.ferretdb()?, 200, 500)?;
    let peer = "mongo-java-server";
    let hit =
        Figure::compared("mongo-hit-p50", fast.hits.medians(), "µs", peer, Goal::RatioMax(0.35));
    let miss =
        Figure::compared("mongo-miss-p50", fast.misses.medians(), "µs", peer, Goal::RatioMax(1.10));
    let driver = "official Rust driver, find by _id, about 200 bytes, one connection, everything on \
                  one core; origin warm in memory; all include the driver's own time";
    let beside = |free: &Rounds, slow: &Rounds, least: &Rounds| {
        let line = |(ours, theirs): (f64, f64)| {
            format!("{ours:.1} against {theirs:.1} µs, ratio {:.3}", ours / theirs)
        };
        format!(
            "beside the least a cache can do: {}; nothing pinned: {}; nothing pinned, before \
             FerretDB: {}",
            line(least.medians()),
            line(free.medians()),
            line(slow.medians())
        )
    };
    Ok(vec![
        hit.note(format!("{driver}; {}", beside(&free.hits, &slow.hits, &fast.hits_and_least))),
        miss.note(format!(
            "{driver}; every read of a key never read before, {count} a round; {}",
            beside(&free.misses, &slow.misses, &fast.misses_and_least)
        )),
    ])
}

/// Reads until a server in Java has compiled what it runs.
const WARM_UP: i32 = 30_000;

/// The cache beside the origin itself, and beside the recorder of [`crate::stub`]: what the client,
/// the origin and one hop more take by themselves.
struct Comparison {
    hits: Rounds,
    hits_and_least: Rounds,
    misses: Rounds,
    misses_and_least: Rounds,
}

fn compare(
    run: &Run,
    suffix: &str,
    origin: &Server,
    count: i32,
    warm_up: i32,
) -> anyhow::Result<Comparison> {
    let runtime = runtime()?;
    let options = ["--workers", "1", "--ttl", "3600s"];
    let cache = run.servers.cache("mongodb", origin.address, &options, Cores::Any)?;
    let least = run.servers.stub(&["recorder", &origin.address.to_string()], Cores::Any)?;
    let direct = runtime.block_on(collection(origin.address))?;
    let cached = runtime.block_on(collection(cache.address))?;
    let recorded = runtime.block_on(collection(least.address))?;
    run.show("documents are inserted, and the origin warms up", 0.0);
    runtime.block_on(async {
        insert(&direct, FEW + 2 * run.rounds as i32 * count).await?;
        read_all(&direct, (0..warm_up).map(|read| read % FEW + 1)).await?;
        read_all(&recorded, 1..=FEW).await?;
        read_all(&cached, 1..=FEW).await
    })?;
    let hits = |name: &str, peer: &Collection<Document>| {
        run.interleave(&format!("mongo-hit-p50{name}{suffix}"), |side, _| {
            let keys = (0..count).map(|read| read % FEW + 1);
            runtime.block_on(read_all(if side == Side::Ours { &cached } else { peer }, keys))
        })
    };
    // No key is read twice through the cache.
    let misses = |name: &str, peer: &Collection<Document>, first_round: u64| {
        run.interleave(&format!("mongo-miss-p50{name}{suffix}"), |side, round| {
            let first = FEW + 1 + (first_round + round) as i32 * count;
            let keys = first..first + count;
            runtime.block_on(read_all(if side == Side::Ours { &cached } else { peer }, keys))
        })
    };
    Ok(Comparison {
        hits: hits("", &direct)?,
        hits_and_least: hits("-least", &recorded)?,
        misses: misses("", &direct, 0)?,
        misses_and_least: misses("-least", &recorded, run.rounds as u64)?,
    })
}
