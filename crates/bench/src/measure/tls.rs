//! What TLS costs the cache: processor time of a hit with TLS on both sides beside a plain one, and
//! handshakes per second beside a rustls server that only echoes.
//!
//! `redis-benchmark` and `openssl s_time` are the clients: each has TLS of its own, so no part of
//! the figures is work of this program.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, ensure};

use super::edge::certificates;
use crate::{
    figure::{Figure, Goal, Reading},
    process::{self, CLIENT, SERVER, Server, free_address},
    run::{Run, Side},
};

/// Clients at once, each with one connection after another.
const CLIENTS: usize = 8;

/// A cache with TLS to clients and to its origin.
pub(super) struct Stage {
    pub(super) directory: PathBuf,
    pub(super) cache: Server,
    redis: Server,
}

impl Stage {
    pub(super) fn set(run: &Run) -> anyhow::Result<Self> {
        let directory = run.servers.directory("tls")?;
        certificates(&directory)?;
        let path = |file: &str| directory.join(file).display().to_string();
        let [authority, certificate, key] = ["ca.pem", "localhost.pem", "localhost.key"].map(path);
        let encrypted = free_address()?;
        let port = encrypted.port().to_string();
        let redis = run.servers.redis_with(
            &[
                ["--tls-port", &port],
                ["--tls-auth-clients", "no"],
                ["--tls-cert-file", &certificate],
                ["--tls-key-file", &key],
                ["--tls-ca-cert-file", &authority],
            ]
            .concat(),
            CLIENT,
        )?;
        let options = [
            ["--workers", "1"],
            ["--ttl", "3600s"],
            ["--tls-cert", &certificate],
            ["--tls-key", &key],
            ["--origin-tls-ca", &authority],
            ["--origin-tls-name", "localhost"],
        ];
        let cache = run.servers.cache("rediss", encrypted, &options.concat(), SERVER)?;
        Ok(Self { directory, cache, redis })
    }
}

pub(super) fn hit(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "tls-hit-cpu";
    let stage = Stage::set(run)?;
    let options = ["--workers", "1", "--ttl", "3600s"];
    let plain = run.servers.cache("redis", stage.redis.address, &options, SERVER)?;
    let sides = |side| match side {
        Side::Ours => (&stage.cache, TLS),
        Side::Peer => (&plain, &[][..]),
    };
    let requests: usize = if run.short { 200_000 } else { 500_000 };
    for side in [Side::Ours, Side::Peer] {
        let (server, tls) = sides(side);
        benchmark(&stage.directory, server, tls, "set", 1)?;
    }
    let rounds = run.interleave(name, |side, _| {
        let (server, tls) = sides(side);
        hits(&stage.directory, server, tls, requests)
    })?;
    let (encrypted, unencrypted) = rounds.medians_of("hits_per_second");
    let note = format!(
        "redis-benchmark, 50 connections, one key of 64 B, no pipeline; {encrypted:.0} against \
         {unencrypted:.0} hits/s; the handshakes of the connections are included"
    );
    let (unit, peer, goal) = ("µs CPU a hit", "the same without TLS", Goal::RatioMax(2.0));
    Ok(vec![Figure::compared(name, rounds.medians(), unit, peer, goal).note(note)])
}

/// Processor time of a hit.
pub(super) fn hits(
    directory: &Path,
    server: &Server,
    tls: &[&str],
    requests: usize,
) -> anyhow::Result<Reading> {
    let (before, began) = (server.cpu_us()?, Instant::now());
    benchmark(directory, server, tls, "get", requests)?;
    let used = server.cpu_us()? - before;
    let per_second = requests as f64 / began.elapsed().as_secs_f64();
    Ok(Reading::new(used / requests as f64).with("hits_per_second", per_second))
}

/// Options of redis-benchmark for the cache of [`Stage`].
pub(super) const TLS: &[&str] = &["--tls", "--cacert", "ca.pem"];

/// `requests` of redis-benchmark, on a core of its own.
pub(super) fn benchmark(
    directory: &Path,
    server: &Server,
    tls: &[&str],
    test: &str,
    requests: usize,
) -> anyhow::Result<()> {
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &server.address.port().to_string()]);
    command.args(["-t", test, "-d", "64", "-c", "50", "-n", &requests.to_string(), "-q"]);
    command.args(tls).current_dir(directory).stdin(Stdio::null());
    let ended = process::on(CLIENT, || command.output())?.context("redis-benchmark")?;
    let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    ensure!(ended.status.success() && !said.contains("rror"), "redis-benchmark failed: {said}");
    Ok(())
}

pub(super) fn handshakes(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "tls-handshakes";
    let stage = Stage::set(run)?;
    let path = |file: &str| stage.directory.join(file).display().to_string();
    let files = [path("localhost.pem"), path("localhost.key")];
    let bare = run.servers.stub(&["tls-echo", &files[0], &files[1]], SERVER)?;
    let rounds = run.interleave(name, |side, _| {
        let server = if side == Side::Ours { &stage.cache } else { &bare };
        shake_hands(server, run.round().as_secs().max(1))
    })?;
    let (ours_us, bare_us) = rounds.medians_of("server_us");
    let note = format!(
        "full handshakes of TLS 1.3 with P-256, {CLIENTS} clients of openssl s_time; server CPU for \
         one: {ours_us:.0} against {bare_us:.0} µs"
    );
    let (unit, peer, goal) = ("handshakes/s", "a rustls echo server", Goal::RatioMin(0.9));
    Ok(vec![Figure::compared(name, rounds.medians(), unit, peer, goal).note(note)])
}

/// Full handshakes a second over `seconds`, as the clients count them.
fn shake_hands(server: &Server, seconds: u64) -> anyhow::Result<Reading> {
    let (before, began) = (server.cpu_us()?, Instant::now());
    let clients: Vec<_> = process::on(CLIENT, || {
        let start = |_| {
            let mut command = Command::new("openssl");
            command.args(["s_time", "-new", "-tls1_3", "-time", &seconds.to_string()]);
            command.args(["-connect", &server.address.to_string()]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
        };
        (0..CLIENTS).map(start).collect::<Result<_, _>>()
    })?
    .context("cannot start openssl s_time")?;
    let mut count = 0.0;
    for client in clients {
        let ended = client.wait_with_output()?;
        let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        ensure!(ended.status.success(), "openssl s_time failed: {said}");
        // "1234 connections in 2 real seconds, 0 bytes read per connection".
        let line = said.lines().find(|line| line.contains("real seconds"));
        let made = line.and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
        count += made.with_context(|| format!("openssl s_time counts no connections: {said}"))?;
    }
    let elapsed = began.elapsed().as_secs_f64();
    let used = server.cpu_us()? - before;
    Ok(Reading::new(count / elapsed).with("server_us", used / count))
}
