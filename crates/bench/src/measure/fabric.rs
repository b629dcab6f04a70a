//! `enroute fabric`: packets a core simulates, beside ns-3; two cores beside one; memory; and what
//! a hop costs in a large fabric. Processor time is the whole program's, from start to end; beside
//! ns-3, which times its simulation only, ours is the simulation's, with its building.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::Deserialize;

use crate::{
    figure::{Figure, Goal, Reading, Rounds},
    process::end_with_us,
    run::{Run, Side},
};

/// Interval at which running programs are polled for their end.
const LOOK: Duration = Duration::from_millis(20);

/// Two racks joined by one spine.
const DUMBBELL: &str = "\
pods = 1
racks_per_pod = 2
servers_per_rack = 16
spines_per_pod = 1
cores = 0
vms_per_server = 80
";

/// The fields of a result that are used.
#[derive(Debug, Deserialize)]
pub(super) struct Result {
    pub(super) packets_sent: f64,
    packet_hops_simulated: f64,
}

/// Output of ns-3.
#[derive(Debug, Deserialize)]
struct Peer {
    packets: f64,
    rows: f64,
    delivered: f64,
    cpu_s: f64,
}

/// A program that has ended.
pub(super) struct Ended {
    output: String,
    /// On standard error.
    said: String,
    pub(super) cpu_s: f64,
    pub(super) wall_s: f64,
    peak_bytes: f64,
}

/// Packets for each second of one core: Direct, and SwitchV2P.
pub(super) fn packets(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let trace = draw(run, "hadoop", "ft8-10k", if run.short { 0.05 } else { 0.2 })?;
    // One scheme on each side: both are ours.
    let rounds = run.interleave("packets-per-cpu-s", |side, _| {
        let scheme = if side == Side::Ours { "direct" } else { "switchv2p" };
        let (result, ended) = simulate(run, scheme, "ft8-10k", &trace)?;
        Ok(Reading::new(result.packets_sent / ended.cpu_s).with("cpu_s", ended.cpu_s))
    })?;
    let (direct, switchv2p) = rounds.medians();
    let note = "20,000 flows like Hadoop's on FT8-10K, cache 50 %; the reference: 14,828 and 3,608";
    let unit = "packets per CPU second";
    Ok(vec![
        Figure::at_least("packets-per-cpu-s-direct", direct, unit, 1e6).note(note.to_owned()),
        Figure::at_least("packets-per-cpu-s-switchv2p", switchv2p, unit, 6e5).note(note.to_owned()),
    ])
}

/// UDP bursts over one bottleneck.
pub(super) fn dumbbell(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let file = run.scratch().join("dumbbell.toml");
    fs::write(&file, DUMBBELL)?;
    let topology = file.to_string_lossy().into_owned();
    let trace = draw(run, "microbursts", &topology, if run.short { 0.1 } else { 0.5 })?;
    let shape = ["1", "2", "1", "0", "16", "80", "udp"];
    beside_ns3(run, "vs-ns3-dumbbell", &topology, &shape, &trace)
        .map(|figure| vec![figure.note("UDP bursts between 32 servers, two racks, Direct".into())])
}

/// TCP flows over a fat tree.
pub(super) fn fat_tree(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let trace = draw(run, "hadoop", "ft8-10k", if run.short { 0.003 } else { 0.01 })?;
    let shape = ["8", "4", "4", "16", "4", "80", "tcp"];
    beside_ns3(run, "vs-ns3-fat-tree", "ft8-10k", &shape, &trace)
        .map(|figure| vec![figure.note("TCP flows like Hadoop's on FT8-10K, Direct".into())])
}

/// The same flows over the same fabric, here and in ns-3.
fn beside_ns3(
    run: &Run,
    name: &str,
    topology: &str,
    shape: &[&str],
    trace: &Path,
) -> anyhow::Result<Figure> {
    let peer = build_peer(run)?;
    let rounds = run.interleave(name, |side, _| {
        if side == Side::Ours {
            let (result, ended) = simulate(run, "direct", topology, trace)?;
            let rate = said_per_s(&ended.said, "packets")?;
            return Ok(Reading::new(rate).with("packets", result.packets_sent));
        }
        let ended = ended(run, Command::new(&peer).args(shape).arg(trace))?;
        let said: Peer = serde_json::from_str(&ended.output).context("what ns-3 said")?;
        ensure!(said.delivered == said.rows, "ns-3 delivered {} of {}", said.delivered, said.rows);
        Ok(Reading::new(said.packets / said.cpu_s).with("packets", said.packets))
    })?;
    let unit = "packets per CPU second";
    Ok(Figure::compared(name, rounds.medians(), unit, "ns-3 (Debian)", Goal::RatioMin(50.0)))
}

/// A sweep on two cores, and on one.
pub(super) fn two_cores(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "sweep-two-cores";
    let file = run.scratch().join("sweep.toml");
    let share = if run.short { 0.03 } else { 0.1 };
    fs::write(
        &file,
        format!(
            "schemes = [\"switchv2p\"]\ntraces = [\"hadoop\"]\nshare = {share}\n\
             seeds = [1, 2, 3, 4, 5, 6, 7, 8]\n"
        ),
    )?;
    let rounds = run.interleave(name, |side, round| {
        let jobs = if side == Side::Ours { "2" } else { "1" };
        let results = run.scratch().join(format!("sweep-{jobs}-{round}"));
        let mut command = run.servers.enroute();
        command.args(["fabric", "sweep", "--jobs", jobs, "--output"]).arg(&results).arg(&file);
        Ok(Reading::new(8.0 / ended(run, &mut command)?.wall_s))
    })?;
    let unit = "runs per second";
    let figure = Figure::compared(name, rounds.medians(), unit, "one core", Goal::RatioMin(1.9));
    Ok(vec![figure.note("eight runs of the same size; wall time, so a quiet machine".into())])
}

/// One run on two threads, and on one.
pub(super) fn two_threads(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let shares = if run.short { [0.03, 0.02] } else { [0.2, 0.2] };
    let cases = [("ft8-10k", "hadoop"), ("ft16-400k", "rpc")];
    let compare = |((topology, workload), share)| {
        let name = format!("run-two-threads-{topology}");
        let trace = draw(run, workload, topology, share)?;
        let rounds = run.interleave(&name, |side, _| {
            let threads = if side == Side::Ours { "2" } else { "1" };
            let options = ["--threads", threads];
            let (result, ended) = simulate_with(run, "switchv2p", topology, &trace, &options)?;
            Ok(Reading::new(result.packets_sent / ended.wall_s))
        })?;
        let (unit, goal) = ("packets per second", Goal::RatioMin(1.7));
        let figure = Figure::compared(&name, rounds.medians(), unit, "one thread", goal);
        Ok(figure.note("one run, SwitchV2P, its start included; a quiet machine".into()))
    };
    cases.into_iter().zip(shares).map(compare).collect()
}

/// Peak memory with 12,800 servers and 410,865 VMs.
pub(super) fn ft16(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let share = if run.short { 0.03 } else { 0.3 };
    let trace = draw(run, "rpc", "ft16-400k", share)?;
    let (result, ended) = simulate(run, "switchv2p", "ft16-400k", &trace)?;
    let gib = ended.peak_bytes / f64::from(1 << 30);
    run.keep("ft16-peak-gib", &Rounds { ours: vec![Reading::new(gib)], peer: Vec::new() })?;
    let note = format!(
        "{:.1} M packets of {:.0} k RPC flows, cache 50 %; once",
        result.packets_sent / 1e6,
        share * 3_500.0
    );
    Ok(vec![Figure::alone("ft16-peak-gib", gib, "GiB resident at most", 8.0).note(note)])
}

/// Measures the cost of one packet at a switch with 12,800 servers, against 128: the same flows,
/// once between all VMs of the small fabric, once between as many that are spread over the large
/// one. Starting the program and reading the trace are not included.
pub(super) fn hop_cost(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "hop-cost-12800-over-128";
    let small = draw(run, "hadoop", "ft8-10k", if run.short { 0.05 } else { 0.2 })?;
    let large = spread(&small, LARGE_VMS / SMALL_VMS)?;
    let rounds = run.interleave(name, |side, _| {
        let (topology, trace) =
            if side == Side::Ours { ("ft16-400k", &large) } else { ("ft8-10k", &small) };
        let (_, ended) = simulate(run, "switchv2p", topology, trace)?;
        Ok(Reading::new(1e9 / said_per_s(&ended.said, "packet-hops")?))
    })?;
    let goal = Goal::RatioMax(1.2);
    let figure =
        Figure::compared(name, rounds.medians(), "CPU ns per packet-hop", "128 servers", goal);
    Ok(vec![figure.note("the same 20,000 flows like Hadoop's, SwitchV2P, cache 50 %".into())])
}

/// One run of a billion packet-hops, from start to end.
pub(super) fn billion(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "billion-packet-hops-s";
    let trace = draw(run, "hadoop", "ft8-10k", if run.short { 0.1 } else { 10.5 })?;
    let (result, ended) = simulate(run, "switchv2p", "ft8-10k", &trace)?;
    let hops = result.packet_hops_simulated;
    ensure!(run.short || hops >= 1e9, "{hops} packet-hops are no billion");
    run.keep(name, &Rounds { ours: vec![Reading::new(ended.wall_s)], peer: Vec::new() })?;
    let gib = ended.peak_bytes / f64::from(1 << 30);
    let note = format!(
        "{:.2} billion packet-hops, {:.0} M packets, SwitchV2P, {:.1} CPU s, at most {gib:.2} GiB; once",
        hops / 1e9,
        result.packets_sent / 1e6,
        ended.cpu_s
    );
    Ok(vec![Figure::alone(name, ended.wall_s, "seconds on the wall", 3_600.0).note(note)])
}

/// The paper's eight schemes; the Controller needs a build with a solver.
const SCHEMES: &str = "\"nocache\", \"locallearning\", \"gwcache\", \"bluebird\", \"ondemand\", \
                       \"direct\", \"switchv2p\"";

/// A trace as long as the paper's Hadoop trace, in every scheme, on all cores.
pub(super) fn all_schemes(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "hadoop-all-schemes-s";
    let trace = draw(run, "hadoop", "ft8-10k", if run.short { 0.01 } else { 1.0 })?;
    let solver = has_solver(run)?;
    let controller = if solver { ", \"controller\"" } else { "" };
    let file = run.scratch().join("all-schemes.toml");
    let trace = trace.file_name().context("a file")?.to_string_lossy().into_owned();
    fs::write(&file, format!("schemes = [{SCHEMES}{controller}]\ntraces = [\"{trace}\"]\n"))?;
    let results = run.scratch().join("all-schemes");
    // Nothing is resumed.
    let _ = fs::remove_dir_all(&results);
    let mut command = run.servers.enroute();
    command.args(["fabric", "sweep", "--output"]).arg(&results).arg(&file);
    let ended = ended(run, &mut command)?;
    run.keep(name, &Rounds { ours: vec![Reading::new(ended.wall_s)], peer: Vec::new() })?;
    let schemes = if solver { "eight" } else { "seven (the Controller needs --features highs)" };
    let note = format!("{schemes} schemes, some 99,000 flows, cache 50 %; once");
    Ok(vec![Figure::alone(name, ended.wall_s, "seconds on the wall", 300.0).note(note)])
}

/// Whether this build solves the Controller's programs: it says so before it runs anything.
fn has_solver(run: &Run) -> anyhow::Result<bool> {
    let mut command = run.servers.enroute();
    command.args(["fabric", "run", "--json", "--scheme", "controller", "--cache", "0"]);
    command.args(["--trace", "hadoop", "--share", "0.0001"]).stdin(Stdio::null());
    Ok(command.output().context("cannot start enroute")?.status.success())
}

/// VMs of FT8-10K and FT16-400K.
const SMALL_VMS: u32 = 10_240;
const LARGE_VMS: u32 = 410_865;

/// The same trace between VMs `factor` times as far from one another.
fn spread(trace: &Path, factor: u32) -> anyhow::Result<PathBuf> {
    let spread = trace.with_extension("spread.csv");
    let mut text = String::new();
    for line in fs::read_to_string(trace)?.lines() {
        let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
        if let [source, destination, ..] = &mut fields[..] {
            for vm in [source, destination] {
                *vm = (vm.parse::<u32>()? * factor).to_string();
            }
        }
        text += &fields.join(",");
        text.push('\n');
    }
    fs::write(&spread, text)?;
    Ok(spread)
}

/// Parses the cost that `enroute fabric run` prints at the end: "1.23 s of one core, 4 packets and
/// 5 packet-hops a second".
fn said_per_s(said: &str, what: &str) -> anyhow::Result<f64> {
    let cost = said.lines().rfind(|line| line.ends_with(" packet-hops a second"));
    let words: Vec<&str> = cost.context("no cost was printed")?.split(' ').collect();
    let place = words.iter().position(|word| *word == what).context("no such cost was printed")?;
    let rate = place.checked_sub(1).map_or("nothing", |before| words[before]);
    rate.parse::<f64>().with_context(|| format!("a number of {what}, not {rate}"))
}

/// Draws a workload into a file.
pub(super) fn draw(run: &Run, name: &str, topology: &str, share: f64) -> anyhow::Result<PathBuf> {
    let stem = Path::new(topology).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let trace = run.scratch().join(format!("{name}-{stem}-{share}.csv"));
    if !trace.exists() {
        let mut command = run.servers.enroute();
        command.args(["fabric", "generate", name, "--topology", topology, "--share"]);
        command.arg(share.to_string()).arg("--output").arg(&trace);
        ended(run, &mut command)?;
    }
    Ok(trace)
}

/// One run of ours.
pub(super) fn simulate(
    run: &Run,
    scheme: &str,
    topology: &str,
    trace: &Path,
) -> anyhow::Result<(Result, Ended)> {
    simulate_with(run, scheme, topology, trace, &[])
}

fn simulate_with(
    run: &Run,
    scheme: &str,
    topology: &str,
    trace: &Path,
    options: &[&str],
) -> anyhow::Result<(Result, Ended)> {
    let mut command = run.servers.enroute();
    command.args(["fabric", "run", "--json", "--scheme", scheme, "--topology", topology]);
    let ended = ended(run, command.args(options).arg("--trace").arg(trace))?;
    let result = serde_json::from_str(&ended.output).context("what enroute said")?;
    Ok((result, ended))
}

/// Compiles the peer, unless it is newer than its source.
fn build_peer(run: &Run) -> anyhow::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("ns3/peer.cc");
    let peer = run.scratch().join("ns3-peer");
    if !peer.exists() {
        run.show("the ns-3 peer is compiled", 0.0);
        let libraries = ["core", "network", "internet", "point-to-point"];
        let mut command = Command::new("g++");
        command.args(["-O3", "-std=c++17", "-o"]).arg(&peer).arg(&source);
        command.args(libraries.map(|library| format!("-lns3-{library}")));
        let done = ended(run, &mut command);
        done.context("cannot compile the peer; `make deps` installs ns-3, g++ is yours to choose")?;
    }
    Ok(peer)
}

/// Runs a program to its end.
fn ended(run: &Run, command: &mut Command) -> anyhow::Result<Ended> {
    let said = run.scratch().join("logs").join("fabric.log");
    let output = run.scratch().join("logs").join("fabric.out");
    command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(File::create(&said)?);
    end_with_us(command);
    let began = Instant::now();
    let mut child =
        command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let id = child.id();
    let pid = Pid::from_raw(id.cast_signed()).context("a process id")?;
    let mut peak_bytes = 0.0;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // It stays a zombie until its times are read.
    while waitid(WaitId::Pid(pid), options)?.is_none() {
        peak_bytes = peak(id).unwrap_or(peak_bytes);
        thread::sleep(LOOK);
    }
    let wall_s = began.elapsed().as_secs_f64();
    // In nanoseconds, of the first thread; what has a second one is measured by the wall.
    let times = fs::read_to_string(format!("/proc/{id}/schedstat"))?;
    let cpu_ns: f64 = times
        .split(' ')
        .next()
        .unwrap_or_default()
        .parse()
        .context("the kernel reports no CPU time")?;
    let status = child.wait()?;
    let said = fs::read_to_string(&said).unwrap_or_default();
    if !status.success() {
        bail!("{:?} ended ({status}); its output:\n{said}", command.get_program());
    }
    let output = fs::read_to_string(&output)?;
    Ok(Ended { output, said, cpu_s: cpu_ns / 1e9, wall_s, peak_bytes })
}

/// The most memory a process had resident, in bytes.
fn peak(id: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
}
