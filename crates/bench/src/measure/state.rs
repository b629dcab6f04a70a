//! The state layer: what the agent costs beside a direct connection, how long a plan takes, and
//! what network functions gain from state that follows them.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};

use crate::{
    figure::{Figure, Goal, Reading, Rounds},
    load::{Draw, Load, Operation, Session},
    process::{self, CLIENT, Cores, SERVER, Server},
    protocol::Protocol,
    run::{Run, Side},
};

mod evaluation;
mod functions;
mod hosts;
pub(super) mod plans;

pub(super) use evaluation::{mean_within, moving, throughput_of_many};
pub(crate) use functions::Scenario;

const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 64;
const CONNECTIONS: usize = 50;

/// One node that owns every slot.
pub(super) fn lone_node(run: &Run, cores: Cores) -> anyhow::Result<Server> {
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

/// GETs at 50 connections: what one core of the agent carries beside one core of redis-server, by
/// the processor time of each, as two cores have no room for three programs.
pub(super) fn throughput(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "agent-throughput";
    let node = lone_node(run, Cores::Any)?;
    let agent = run.servers.agent(node.address, &[], Cores::Any)?;
    let rounds = carried(run, name, &agent, &node)?;
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

/// The same through an agent that counts and reports, and through one that does not.
pub(super) fn monitors(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "agent-monitors";
    let node = lone_node(run, Cores::Any)?;
    let agent = run.servers.agent(node.address, &[], Cores::Any)?;
    let blind = run.servers.agent(node.address, &["--report-period", "0"], Cores::Any)?;
    let rounds = carried(run, name, &agent, &blind)?;
    let figure = Figure::compared(
        name,
        rounds.medians(),
        "GET/s of one core",
        "an agent that monitors nothing",
        Goal::RatioMin(0.98),
    );
    Ok(vec![figure.note("64 B, 50 connections, no pipeline; a report every 500 ms".into())])
}

/// Returns the number of GETs that a second of a server's processor time allows.
fn carried(run: &Run, name: &str, ours: &Server, peer: &Server) -> anyhow::Result<Rounds> {
    run.interleave(name, |side, round| {
        let server = if side == Side::Ours { ours } else { peer };
        let before = server.cpu_us()?;
        let load = Load {
            protocol: Protocol::Redis,
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
    })
}

/// One connection, one request at a time. An agent is beside its applications, so it has the
/// client's core and the node the other; and, as two cores are few, the same with agent and node on
/// one.
pub(super) fn local(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let node = lone_node(run, SERVER)?;
    let relay = ["relay", &node.address.to_string()];
    let figure = |name, agent_on, where_it_is| {
        let agent = run.servers.agent(node.address, &[], agent_on)?;
        let least = run.servers.stub(&relay, agent_on)?;
        let rounds = round_trips(run, name, &agent, &node)?;
        let (relayed, direct) =
            round_trips(run, &format!("{name}-least"), &least, &node)?.medians();
        let peer = "redis-server, directly";
        let figure = Figure::compared(name, rounds.medians(), "µs", peer, Goal::RatioMax(1.15));
        anyhow::Ok(figure.note(format!(
            "one connection, 64 B; {where_it_is}; a relay that only reads, writes and sleeps, in the agent's \
             place: {relayed:.1} against {direct:.1} µs, ratio {:.3}",
            relayed / direct
        )))
    };
    Ok(vec![
        figure("agent-local-p50", CLIENT, "agent and client on one core, the node on the other")?,
        figure(
            "agent-local-p50-beside-node",
            SERVER,
            "agent and node on one core, the client on the other",
        )?,
    ])
}

/// Round trips through `server` beside those to the node.
fn round_trips(run: &Run, name: &str, server: &Server, node: &Server) -> anyhow::Result<Rounds> {
    let count: u64 = if run.short { 5_000 } else { 15_000 };
    run.interleave(name, |side, _| {
        let server = if side == Side::Ours { server } else { node };
        let mut session = Session::connect(server.address)?;
        let taken =
            process::on(CLIENT, || session.round_trips(count, VALUE_BYTES, |index| index % KEYS))??;
        let middle = taken.get(taken.len() / 2).copied().context("no round trip")?;
        Ok(Reading::new(middle as f64 / 1e3))
    })
}
