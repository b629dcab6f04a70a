//! The paper's scenario B: an origin 164 ms away, and a cache of which the hundred keys need 10,
//! 30, 70 or all 100 per cent.
//!
//! A single client is idle for most of a run, since nearly every read waits for the origin. Several
//! replicas therefore run at once, each with its own cache, client and sequence of keys. They share
//! only the link and the origin, which are nearly idle, and together make enough reads for a figure
//! whose random error is below the margin of the goal.

use std::{collections::BTreeSet, net::SocketAddr};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::mongo::{collection, insert, read, runtime};
use crate::{
    figure::{Figure, Goal, median},
    process::Cores,
    run::Run,
};

const KEYS: i32 = 100;
const RTT_MS: f64 = 164.0;
const CAPACITIES: [usize; 4] = [10, 30, 70, 100];

/// The reads of one replica, in milliseconds.
#[derive(Debug, Default, Serialize)]
struct Replica {
    reads: Vec<f64>,
    /// The number of reads until the cache's capacity in distinct keys had been read, and that
    /// number of keys.
    filled: (usize, usize),
}

pub(super) fn run(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let (replicas, reads) = if run.short { (16, 300) } else { (32, 500) };
    let runtime = runtime()?;
    let origin = run.servers.mongo()?;
    runtime.block_on(async { insert(&collection(origin.address).await?, KEYS).await })?;
    let link = run.servers.link(origin.address, "164ms")?;

    let mut figures = Vec::new();
    for (index, capacity) in CAPACITIES.into_iter().enumerate() {
        let name = format!("scenario-b-{capacity}");
        run.show(&name, 0.25 * index as f64);
        let items = capacity.to_string();
        let options = ["--workers", "1", "--capacity", &items, "--ttl", "3600s"];
        let caches = (0..replicas)
            .map(|_| run.servers.cache("mongodb", link.address, &options, Cores::Any))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let addresses: Vec<SocketAddr> = caches.iter().map(|cache| cache.address).collect();
        let seed = 1 + index as u64;
        // Beside them, and so under the same conditions, as many without a cache, for about as
        // long.
        let past = vec![link.address; replicas];
        let past_reads = (reads * (100 - capacity) / 100).max(60);
        let (cached, direct) = runtime.block_on(async {
            tokio::join!(
                replicate(&addresses, reads, capacity, seed),
                replicate(&past, past_reads, 0, seed + 10)
            )
        });
        let (cached, direct) = (cached?, direct?);
        run.keep(&name, &cached)?;
        run.keep(&format!("{name}-direct"), &direct)?;
        figures.push(figure(&name, capacity, &cached, mean(&direct)));
    }
    Ok(figures)
}

/// Reads uniformly drawn keys at every address at once.
async fn replicate(
    addresses: &[SocketAddr],
    reads: usize,
    capacity: usize,
    seed: u64,
) -> anyhow::Result<Vec<Replica>> {
    let tasks: Vec<_> = addresses
        .iter()
        .enumerate()
        .map(|(index, &address)| {
            tokio::spawn(replica(address, reads, capacity, seed * 1_000 + index as u64))
        })
        .collect();
    let mut replicas = Vec::new();
    for task in tasks {
        replicas.push(task.await??);
    }
    Ok(replicas)
}

async fn replica(
    address: SocketAddr,
    reads: usize,
    capacity: usize,
    seed: u64,
) -> anyhow::Result<Replica> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let collection = collection(address).await?;
    let mut taken = Vec::with_capacity(reads);
    let mut seen = BTreeSet::new();
    let mut filled = (0, 0);
    for _ in 0..reads {
        let key = random.random_range(1..=KEYS);
        taken.push(read(&collection, key).await? as f64 / 1e6);
        if seen.len() < capacity {
            seen.insert(key);
            filled = (taken.len(), seen.len());
        }
    }
    Ok(Replica { reads: taken, filled })
}

fn figure(name: &str, capacity: usize, replicas: &[Replica], direct_ms: f64) -> Figure {
    let all = || replicas.iter().flat_map(|replica| &replica.reads).copied();
    // A read that takes less than half the round trip is a hit.
    let hits: Vec<f64> = all().filter(|&taken| taken < RTT_MS / 2.0).collect();
    let hit_ms = median(hits.iter().copied());
    // Until it is full, a cache misses each key it has not seen; then all it has no room for.
    let share = 1.0 - capacity as f64 / f64::from(KEYS);
    let (mut reads, mut misses) = (0.0, 0.0);
    for replica in replicas {
        let (until_full, first) = replica.filled;
        reads += replica.reads.len() as f64;
        misses += first as f64 + (replica.reads.len() - until_full) as f64 * share;
    }
    let hits_of_ideal = (reads - misses) * if hit_ms.is_nan() { 0.0 } else { hit_ms };
    let ideal_ms = (misses * RTT_MS + hits_of_ideal) / reads;
    let mean_ms = mean(replicas);
    let ideal = "ideal: one round trip for each unavoidable miss, the hit p50 for the rest";
    let mut figure =
        Figure::compared(name, (mean_ms, ideal_ms), "ms, mean", ideal, Goal::RatioMax(1.03));
    let worse = mean_ms / direct_ms;
    figure.met &= worse <= 1.01;
    figure.goal.push_str(", ≤ 1.01 × no cache");
    figure.note(format!(
        "{} replicas of {} reads; misses {:.1} %, ideally {:.1} %; hit p50 {hit_ms:.3} ms; {worse:.3} × no \
         cache ({direct_ms:.1} ms)",
        replicas.len(),
        reads as usize / replicas.len(),
        (1.0 - hits.len() as f64 / reads) * 100.0,
        misses / reads * 100.0
    ))
}

fn mean(replicas: &[Replica]) -> f64 {
    let reads: usize = replicas.iter().map(|replica| replica.reads.len()).sum();
    replicas.iter().flat_map(|replica| &replica.reads).sum::<f64>() / reads as f64
}
