//! Hits of DynamoDB clients, whose signatures are verified, beside DynamoDB Local.

use std::{net::SocketAddr, time::Instant};

use anyhow::ensure;

use super::redis::percentiles;
use crate::{
    dynamodb::{Client, request},
    figure::{Figure, Goal, Reading, median},
    process::{self, CLIENT, SERVER, Server},
    run::{Run, Side},
};

const KEYS: usize = 100;
const CONNECTIONS: usize = 50;

const TABLE: &str = r#"{"TableName":"items","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],
    "AttributeDefinitions":[{"AttributeName":"id","AttributeType":"N"}],"BillingMode":"PAY_PER_REQUEST"}"#;

/// A cache before DynamoDB Local, with one worker, and reads of items that it has.
struct Stage {
    origin: Server,
    cache: Server,
    reads: Vec<Vec<u8>>,
}

impl Stage {
    fn set(run: &Run) -> anyhow::Result<Self> {
        let origin = run.servers.dynamodb(SERVER)?;
        let mut direct = Client::connect(origin.address)?;
        let mut ask = |operation: &str, body: &str| {
            direct.send(&request(operation, body)?)?;
            direct.receive().map(|_| ())
        };
        ask("CreateTable", TABLE)?;
        let mut reads = Vec::new();
        for key in 0..KEYS {
            let (id, value) = (format!(r#""id":{{"N":"{key}"}}"#), "x".repeat(64));
            let item = format!(r#"{{"TableName":"items","Item":{{{id},"v":{{"S":"{value}"}}}}}}"#);
            ask("PutItem", &item)?;
            reads.push(request("GetItem", &format!(r#"{{"TableName":"items","Key":{{{id}}}}}"#))?);
        }
        let cache = run.servers.dynamodb_cache(origin.address, &["--workers", "1"], SERVER)?;
        Ok(Self { origin, cache, reads })
    }

    /// Reads all items.
    fn warm(&self, server: SocketAddr) -> anyhow::Result<()> {
        let mut client = Client::connect(server)?;
        for read in &self.reads {
            client.send(read)?;
            client.receive()?;
        }
        Ok(())
    }

    /// Round trips of `count` reads over one connection, in nanoseconds, sorted.
    fn round_trips(&self, server: SocketAddr, count: usize) -> anyhow::Result<Vec<u64>> {
        self.warm(server)?;
        let (mut client, mut taken) = (Client::connect(server)?, Vec::new());
        for read in self.reads.iter().cycle().take(count) {
            let began = Instant::now();
            client.send(read)?;
            let (head, _) = client.receive()?;
            let is_hit = is_hit(head);
            taken.push(began.elapsed().as_nanos() as u64);
            ensure!(is_hit == (server == self.cache.address), "answered by another: {head}");
        }
        taken.sort_unstable();
        Ok(taken)
    }

    /// Hits that the processor time of the cache allows in a second, over many connections.
    fn hits(&self, run: &Run) -> anyhow::Result<Reading> {
        let address = self.cache.address;
        self.warm(address)?;
        let connect = |_| Client::connect(address);
        let mut clients = (0..CONNECTIONS).map(connect).collect::<anyhow::Result<Vec<_>>>()?;
        let (before, began, mut count) = (self.cache.cpu_us()?, Instant::now(), 0.0);
        while began.elapsed() < run.round() {
            for (client, read) in clients.iter_mut().zip(self.reads.iter().cycle()) {
                client.send(read)?;
            }
            for client in &mut clients {
                ensure!(is_hit(client.receive()?.0), "a read was no hit");
                count += 1.0;
            }
        }
        let per_second = count / began.elapsed().as_secs_f64();
        let server_us = (self.cache.cpu_us()? - before) / count;
        let reading = Reading::new(1e6 / server_us);
        Ok(reading.with("server_us", server_us).with("hits_per_second", per_second))
    }
}

/// Whether the cache has answered: the origin names its server.
fn is_hit(head: &str) -> bool {
    !head.lines().any(|line| line.to_ascii_lowercase().starts_with("server:"))
}

pub(super) fn hit(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let (name, stage) = ("dynamodb-hit-p50", Stage::set(run)?);
    let count = if run.short { 2_000 } else { 10_000 };
    // Waking a processor that sleeps takes longer than a hit.
    let client_on = |name: &str, core| {
        run.interleave(name, |side, _| {
            let server = if side == Side::Ours { &stage.cache } else { &stage.origin };
            let taken = process::on(core, || stage.round_trips(server.address, count))??;
            Ok(percentiles(&taken))
        })
    };
    let together = client_on(name, SERVER)?;
    let (apart, direct_apart) = client_on("dynamodb-hit-p50-apart", CLIENT)?.medians();
    let peer = "DynamoDB Local";
    let figure = Figure::compared(name, together.medians(), "µs", peer, Goal::RatioMax(0.1));
    let note = format!(
        "GetItem, one connection, 64 B, each signature verified; servers and client on one core; \
         client on the other: {apart:.1} against {direct_apart:.1} µs, ratio {:.3}",
        apart / direct_apart
    );
    Ok(vec![figure.note(note)])
}

pub(super) fn hits_per_core(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let (name, stage) = ("dynamodb-hits-per-core", Stage::set(run)?);
    let mut readings = Vec::new();
    for _ in 0..run.rounds {
        readings.push(process::on(CLIENT, || stage.hits(run))??);
        run.keep(name, &readings)?;
    }
    let of = |name| median(readings.iter().filter_map(|one| one.others.get(name).copied()));
    let note = format!(
        "GetItem, {CONNECTIONS} connections, 64 B, each signature verified: {:.2} µs of processor \
         time a hit; with the client on the other core {:.0} hits/s",
        of("server_us"),
        of("hits_per_second")
    );
    let value = median(readings.iter().map(|reading| reading.value));
    let unit = "hits/s that one core's processor time allows";
    Ok(vec![Figure::at_least(name, value, unit, 40_000.0).note(note)])
}
