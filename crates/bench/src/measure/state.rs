//! The state layer: what the agent costs beside a direct connection, how long a plan takes, and how
//! long a function that moves from host to host is away from its state.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};

use crate::{
    figure::{Figure, Goal, Reading},
    load::{Draw, Load, Operation, Session},
    process::{self, CLIENT, Cores, SERVER, Server},
    run::{Run, Side},
};

mod hosts;
pub(super) mod plans;

use hosts::Hosts;

const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 64;
const CONNECTIONS: usize = 50;

/// One node that owns every slot.
fn lone_node(run: &Run, cores: Cores) -> anyhow::Result<Server> {
    let node = run
        .servers
        .redis_with(&["--cluster-enabled", "yes", "--cluster-config-file", "lone.conf"], cores)?;
    let mut session = Session::connect(node.address)?;
    session.command(&["CLUSTER", "RESET", "HARD"])?;
    session.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
    let began = Instant::now();
    while session.set_all(KEYS, VALUE_BYTES).is_err() {
        ensure!(began.elapsed() < Duration::from_secs(20), "the cluster does not come up");
        thread::sleep(Duration::from_millis(100));
        session = Session::connect(node.address)?;
    }
    Ok(node)
}

/// GETs at 50 connections: what one core of the agent carries beside one core of redis-server, by the
/// processor time of each, as two cores have no room for three programs.
pub(super) fn throughput(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "agent-throughput";
    let node = lone_node(run, Cores::Any)?;
    let agent = run.servers.agent(node.address, Cores::Any)?;
    let rounds = run.interleave(name, |side, round| {
        let server = if side == Side::Ours { &agent } else { &node };
        let before = server.cpu_us()?;
        let load = Load {
            address: server.address,
            connections: CONNECTIONS,
            pipeline: 1,
            keys: KEYS,
            draw: Draw::Evenly,
            value_bytes: VALUE_BYTES,
            operation: Operation::Get,
            rate: None,
            duration: run.round(),
            seed: round,
        };
        let outcome = load.run()?;
        let each = (server.cpu_us()? - before) / outcome.operations as f64;
        Ok(Reading::new(1e6 / each)
            .with("per_second", outcome.per_second())
            .with("p50_ms", outcome.within_ms(0.5)))
    })?;
    let (ours, direct) = rounds.medians_of("per_second");
    let (our_p50, direct_p50) = rounds.medians_of("p50_ms");
    let note = format!(
        "64 B, 50 connections, no pipeline; operations that a second of the server's processor time \
         allows; with client, agent and node on the same cores: {ours:.0} against {direct:.0} a \
         second, p50 {our_p50:.3} against {direct_p50:.3} ms"
    );
    let figure = Figure::compared(
        name,
        rounds.medians(),
        "GET/s of one core",
        "redis-server",
        Goal::RatioMin(0.7),
    );
    Ok(vec![figure.note(note)])
}

/// One connection, one request at a time.
pub(super) fn local(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "agent-local-p50";
    let node = lone_node(run, SERVER)?;
    let agent = run.servers.agent(node.address, SERVER)?;
    let count: u64 = if run.short { 5_000 } else { 15_000 };
    let rounds = run.interleave(name, |side, _| {
        let server = if side == Side::Ours { &agent } else { &node };
        let mut session = Session::connect(server.address)?;
        let taken =
            process::on(CLIENT, || session.round_trips(count, VALUE_BYTES, |index| index % KEYS))??;
        let middle = taken.get(taken.len() / 2).copied().context("no round trip")?;
        Ok(Reading::new(middle as f64 / 1e3))
    })?;
    let figure = Figure::compared(
        name,
        rounds.medians(),
        "µs",
        "redis-server, directly",
        Goal::RatioMax(1.15),
    );
    Ok(vec![figure.note(
        "one connection, 64 B; agent and node on one core, client on the other; a relay is a second hop".into(),
    )])
}

/// How far a round trip between two hosts is: 5 ms each way.
const RTT: Duration = Duration::from_millis(10);
/// From one burst of ten reads and a write to the next: as many accesses at each host, however long
/// they take.
const BURST_PERIOD: Duration = Duration::from_millis(200);
const READS: usize = 10;
/// Bursts in a row that are local when the state has arrived.
const LOCAL_BURSTS: usize = 3;

/// A function that moves through four hosts (the paper's Figure 5), on slots that follow and on slots
/// that stay where the hash put them.
pub(super) fn moving(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let stays = Duration::from_secs(if run.short { 15 } else { 60 });
    let hosts = Hosts::join(run, "10ms")?;
    let mut taken = (Vec::new(), Vec::new());
    let mut late = Vec::new();
    // Where the hash puts it, before anything moves.
    let direct: Vec<SocketAddr> = vec![hosts.owner(STATE)?; Hosts::COUNT];
    for (host, address) in direct.iter().enumerate() {
        run.show(&format!("hash-placed, host {}", host + 1), host as f64 / 8.0);
        let bursts = hosts.inside(host, || bursts(*address, stays))??;
        taken.1.extend(bursts.into_iter().flat_map(|(_, times)| times));
    }
    let _placer = hosts.placer(run)?;
    for host in 0..Hosts::COUNT {
        run.show(&format!("following, host {}", host + 1), 0.5 + host as f64 / 8.0);
        let bursts = hosts.inside(host, || bursts(hosts::AGENT, stays))??;
        if host > 0 {
            late.push(local_after(&bursts).as_secs_f64());
        }
        taken.0.extend(bursts.into_iter().flat_map(|(_, times)| times));
    }
    let mean = |times: &[Duration]| {
        times.iter().sum::<Duration>().as_secs_f64() * 1e6 / times.len().max(1) as f64
    };
    let means = (mean(&taken.0), mean(&taken.1));
    run.keep("moving-function", &(means, &late))?;
    let worst = late.iter().copied().fold(0.0, f64::max);
    let note = format!(
        "four hosts in network namespaces, 5 ms each way by `enroute link`; {} s at each host, 55 accesses a \
         second, ten reads to a write",
        stays.as_secs()
    );
    Ok(vec![
        Figure::compared(
            "moving-function-mean",
            means,
            "µs",
            "the hash-placed cluster",
            Goal::RatioMax(0.35),
        )
        .note(note.clone()),
        Figure::alone("local-after-move-s", worst, "s", 3.0)
            .note(format!("the worst of {late:.1?}; {note}")),
    ])
}

const STATE: &str = "{function}:state";

type Burst = (Duration, Vec<Duration>);

/// Uses the state for so long: when each burst began, and what its accesses took.
fn bursts(address: SocketAddr, lasts: Duration) -> anyhow::Result<Vec<Burst>> {
    let mut session = Session::connect(address)?;
    let (began, mut bursts) = (Instant::now(), Vec::new());
    while began.elapsed() < lasts {
        let at = began.elapsed();
        let mut times = Vec::with_capacity(READS + 1);
        for access in 0..=READS {
            let asked = Instant::now();
            if access == 0 {
                session.command(&["SET", STATE, "x"])?;
            } else {
                session.ask(&["GET", STATE], b"$1\r\nx\r\n")?;
            }
            times.push(asked.elapsed());
        }
        bursts.push((at, times));
        thread::sleep((at + BURST_PERIOD).saturating_sub(began.elapsed()));
    }
    Ok(bursts)
}

/// When accesses began to be local, and stayed so for some bursts.
fn local_after(bursts: &[Burst]) -> Duration {
    let is_local = |(_, times): &Burst| {
        let mut times = times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).is_some_and(|middle| *middle < RTT / 2)
    };
    let arrived = bursts.windows(LOCAL_BURSTS).find(|some| some.iter().all(is_local));
    let end = bursts.last().map_or(Duration::ZERO, |(at, _)| *at);
    arrived.and_then(|some| some.first()).map_or(end, |(at, _)| *at)
}
