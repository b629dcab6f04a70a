//! The data plane: what a packet costs in the kernel beside the smallest possible responder, what a
//! flood over a veth pair gets beside memcached, and what NetCache's rack gains.

use std::{collections::BTreeMap, process::Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::{
    figure::{Figure, Goal, median},
    run::Run,
};

#[derive(Debug, Deserialize)]
struct Reading {
    name: String,
    values: Vec<f64>,
}

/// Reported results of a rack.
#[derive(Debug, Deserialize)]
struct Outcome {
    throughput_qps: f64,
    switch_qps: f64,
    loss: f64,
    rejected: bool,
    recovery_s: Vec<f64>,
}

fn said(run: &Run, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = run
        .servers
        .enroute()
        .arg("switch")
        .args(arguments)
        .stderr(Stdio::inherit())
        .stdout(Stdio::piped())
        .output()
        .context("cannot run enroute")?;
    if !output.status.success() {
        bail!("enroute switch {} failed; it needs root, and clang", arguments.join(" "));
    }
    Ok(output.stdout)
}

/// Medians of what `enroute switch measure` says, by name: of a process for each round, as
/// processes of one kind differ, and so that a run that is stopped keeps its rounds.
pub(super) fn measured(run: &Run, what: &str) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for round in 0..run.rounds {
        run.show(&format!("round {}", round + 1), round as f64 / run.rounds as f64);
        let text = said(run, &["measure", what, "--rounds", "1"])?;
        let readings: Vec<Reading> = serde_json::from_slice(&text)?;
        for reading in readings {
            all.entry(reading.name).or_default().extend(reading.values);
        }
        run.keep(&format!("switch-{what}"), &all)?;
    }
    Ok(all.into_iter().map(|(name, values)| (name, median(values.into_iter()))).collect())
}

pub(super) fn of(readings: &BTreeMap<String, f64>, name: &str) -> anyhow::Result<f64> {
    readings.get(name).copied().with_context(|| format!("no reading of {name}"))
}

/// Nanoseconds a packet, by `BPF_PROG_TEST_RUN`.
pub(super) fn packets(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let ns = measured(run, "packets")?;
    let against = |figure: &str, ours: &str, peer: &str, goal| -> anyhow::Result<Figure> {
        let note = "medians, what measuring costs taken off both".to_owned();
        Ok(Figure::compared(figure, (of(&ns, ours)?, of(&ns, peer)?), "ns", peer, goal).note(note))
    };
    let small = of(&ns, "smallest hit 128 B")?;
    let large = of(&ns, "smallest hit 128 B of 1048576 keys")?;
    Ok(vec![
        against("hit-ns-over-floor", "hit 128 B", "smallest hit 128 B", Goal::RatioMax(1.5))?,
        Figure::alone("miss-ns-added", of(&ns, "miss")?, "ns", 60.0)
            .note(format!("the smallest responder adds {:.0}", of(&ns, "smallest miss")?)),
        against("hit-ns-1024B-over-16B", "hit 1024 B", "hit 16 B", Goal::RatioMax(2.0))?,
        against(
            "hit-ns-1M-over-1k",
            "hit 128 B of 1048576 keys",
            "hit 128 B",
            Goal::RatioMax(1.5),
        )?
        .note(format!(
            "uniform keys; the smallest responder's ratio is {:.1} ({large:.0} over {small:.0})",
            large / small
        )),
        against(
            "hit-ns-registers-over-slots",
            "hit 128 B in registers",
            "hit 128 B",
            Goal::RatioMax(1.2),
        )?,
        against(
            "hit-ns-registers-over-slots-1M",
            "hit 128 B of 1048576 keys in registers",
            "hit 128 B of 1048576 keys",
            Goal::RatioMax(1.2),
        )?,
        Figure::alone("put-ns-added", of(&ns, "put of a cached key")?, "ns", 120.0),
    ])
}

/// Answers a second to the same flood.
pub(super) fn veth(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let rates = measured(run, "veth")?;
    let both = (of(&rates, "gets")?, of(&rates, "memcached")?);
    let per_cpu = (of(&rates, "gets, of a CPU second")?, of(&rates, "memcached, of a CPU second")?);
    let (figure, figure_per_cpu) =
        ("veth-gets-vs-memcached-udp", "veth-gets-per-cpu-s-vs-memcached-udp");
    let least = of(&rates, "smallest responder")?;
    let note = format!(
        "a flood on one core; program or memcached on the other; best rate each; the smallest \
         responder there could be answers {:.1} times as many as memcached",
        least / both.1
    );
    Ok(vec![
        Figure::compared(figure, both, "1/s", "memcached over UDP", Goal::RatioMin(8.0)).note(note),
        Figure::compared(figure_per_cpu, per_cpu, "1/s", "memcached over UDP", Goal::RatioMin(8.0))
            .note("the same, of a CPU second spent behind the veth pair".into()),
    ])
}

/// memcached's answers to what is not cached.
pub(super) fn misses(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let rates = measured(run, "misses")?;
    let both = (of(&rates, "misses")?, of(&rates, "without the program")?);
    let idle = of(&rates, "an idle program")?;
    let figure = "veth-misses-vs-direct";
    let note = format!(
        "32 gets under way from sockets; a program that does nothing at the same veth pair leaves {:.3}",
        idle / both.1
    );
    Ok(vec![
        Figure::compared(figure, both, "1/s", "without the program", Goal::RatioMin(0.97))
            .note(note),
    ])
}

/// The cache at the clients' node, memcached behind a link.
pub(super) fn link(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let times = measured(run, "link")?;
    let both = (of(&times, "get over the link, cached")?, of(&times, "get over the link")?);
    Ok(vec![Figure::compared("link-300us-p50", both, "us", "no cache", Goal::RatioMax(0.2))])
}

/// Seconds until clients have found their rate, also where one hot server decides.
const SETTLE_S: &str = "12";

/// Maximum number of attempts: a run that loses too much is invalid and repeated.
const ATTEMPTS: usize = 3;

fn rack(run: &Run, arguments: &[&str]) -> anyhow::Result<Outcome> {
    let command = arguments.join(" ");
    for attempt in 1..=ATTEMPTS {
        let text = said(run, &[&["rack"][..], arguments].concat())?;
        let outcome: Outcome = serde_json::from_slice(&text)?;
        run.keep(
            &format!("rack {command} attempt {attempt}"),
            &serde_json::from_slice::<serde_json::Value>(&text)?,
        )?;
        if !outcome.rejected {
            return Ok(outcome);
        }
        eprintln!("rack {command}: {:.3} lost, attempt {attempt} of {ATTEMPTS}", outcome.loss);
    }
    bail!("rack {command}: too much was lost in each of {ATTEMPTS} runs; is the machine busy?")
}

/// The rack's throughput with and without 10,000 cached items (Figure 10 a).
pub(super) fn racks(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (number, (skew, times)) in [("0.9", 3.6), ("0.95", 6.5), ("0.99", 10.0)].iter().enumerate()
    {
        run.show(&format!("skew {skew}"), number as f64 / 3.0);
        let with = rack(run, &["--skew", skew, "--settle", SETTLE_S])?;
        let without = rack(run, &["--skew", skew, "--settle", SETTLE_S, "--cached", "0"])?;
        let both = (with.throughput_qps, without.throughput_qps);
        let name = format!("rack-zipf-{skew}");
        let share = with.switch_qps / with.throughput_qps;
        let note = format!("the paper's ratio is {times}; the switch answers {share:.2} of all");
        figures.push(
            Figure::compared(&name, both, "1/s", "no cache", Goal::RatioMin(*times)).note(note),
        );
    }
    Ok(figures)
}

/// Measures for how long throughput is reduced after 200 cold keys became the hottest (Figure 11
/// a).
pub(super) fn hot_in(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let outcome = rack(run, &["--change", "hot-in", "--settle", SETTLE_S, "--seconds", "50"])?;
    let recovery = median(outcome.recovery_s.iter().copied());
    Ok(vec![
        Figure::alone("hot-in-recovery-s", recovery, "s", 3.0)
            .note(format!("to 90 % of before; each: {:?}", outcome.recovery_s)),
    ])
}
