//! This build beside that of an earlier commit: does a change cost anything?
//!
//! Compared is the processor time that a server takes for one operation, which other work on the
//! machine changes less than it does throughput. A round starts the servers of both builds anew,
//! since addresses and seeds that a process draws at its start cost it up to some per cent, and
//! measures in the order base, this, this, base, so that a steady drift of the machine favours
//! neither. The next round starts and measures in the opposite order: the build that was always
//! started first cost 1 % more than itself. A round gives one ratio; a line of the table has the
//! median with its confidence interval.

use std::{fmt, path::Path};

use anyhow::bail;
use serde::Serialize;

use crate::{
    figure::{Reading, Rounds, median},
    run::{Run, Side},
};

mod workloads;

use workloads::{Measure, Workload};

/// A build costs no more than another if it takes at most this much more.
const MARGIN: f64 = 0.02;
/// The interval misses the median in at most this share of comparisons.
const RISK: f64 = 0.05;
/// Orders of the builds within one round, in turn.
const ORDERS: [[Side; 4]; 2] = [
    [Side::Peer, Side::Ours, Side::Ours, Side::Peer],
    [Side::Ours, Side::Peer, Side::Peer, Side::Ours],
];
/// Readings in one round.
const TURNS: usize = ORDERS[0].len();

/// The verdict on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    /// The whole interval is at most [`MARGIN`] above 1.
    Within,
    /// The same, and all of it is more than [`MARGIN`] below 1.
    Less,
    /// The whole interval is more than [`MARGIN`] above 1.
    More,
    /// The interval holds both, or there are too few rounds for one.
    Undecided,
}

/// Ratios of this build to the base, a round each.
#[derive(Debug, Serialize)]
struct Ratios {
    median: f64,
    quartiles: [f64; 2],
    /// Holds the median with 95 % confidence; none with fewer than six rounds.
    interval: Option<[f64; 2]>,
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Line {
    name: String,
    unit: String,
    /// Medians of the processor time of an operation.
    base: f64,
    this: f64,
    cost: Ratios,
    throughput: Ratios,
    verdict: Verdict,
}

/// Names of all lines.
pub(crate) fn lines() -> impl Iterator<Item = &'static str> {
    workloads::ALL.iter().flat_map(|workload| workload.lines).copied()
}

/// Compares on the lines that are `wanted` and returns the table; `programs` holds `enroute` and
/// `examples/` of the base. What the base does not have is a line that says so.
pub(crate) fn compare(
    run: &Run,
    programs: &Path,
    wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<String> {
    let base = run.with_programs(programs)?;
    let of_line = |workload: &Workload| {
        workload.lines.iter().filter(|name| wanted(name)).count() as f64
            * run.rounds as f64
            * (TURNS as f64 * run.round().as_secs_f64() + 1.0)
    };
    let seconds = workloads::ALL.iter().map(of_line).sum();
    let (mut table, mut lines) = (head(), Vec::new());
    for workload in workloads::ALL {
        if !workload.lines.iter().any(|name| wanted(name)) {
            continue;
        }
        run.begin(workload.lines.join(", "), of_line(workload), seconds);
        for (name, measured) in rounds(run, &base, workload, &wanted)? {
            match measured {
                Some(rounds) => {
                    let line = Line::new(name, workload.unit, &rounds);
                    table.push_str(&line.to_string());
                    lines.push(line);
                }
                None => table.push_str(&format!("{name:<26} not in BASE\n")),
            }
        }
        run.publish(&lines)?;
    }
    Ok(table)
}

/// All rounds of a workload, by line; none of a line that the base cannot be measured on.
fn rounds(
    run: &Run,
    base: &Run,
    workload: &Workload,
    wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<Vec<(&'static str, Option<Rounds>)>> {
    let names = workload.lines.iter().copied().enumerate().filter(|(_, name)| wanted(name));
    let mut lines: Vec<(usize, &str, Option<Rounds>)> =
        names.map(|(place, name)| (place, name, Some(Rounds::default()))).collect();
    for round in 0..run.rounds {
        let order = ORDERS[round % ORDERS.len()];
        let early = (order[0] == Side::Ours).then(|| (workload.start)(base));
        let mut ours = (workload.start)(run)?;
        let mut theirs: Measure<'_> = match early.unwrap_or_else(|| (workload.start)(base)) {
            Ok(theirs) => theirs,
            Err(error) if round == 0 => {
                lines.iter_mut().for_each(|(_, name, rounds)| miss(run, name, rounds, &error));
                break;
            }
            Err(error) => return Err(error),
        };
        for (place, name, kept) in &mut lines {
            let Some(rounds) = kept else { continue };
            let mut failure = None;
            for (turn, side) in (0..).zip(order) {
                let seed = round as u64 * TURNS as u64 + turn;
                match side {
                    Side::Ours => rounds.ours.push(ours(*place, seed)?),
                    Side::Peer => match theirs(*place, seed) {
                        Ok(reading) => rounds.peer.push(reading),
                        Err(error) => failure = Some(error),
                    },
                }
                // A run that is stopped keeps what it has measured.
                run.keep(name, rounds)?;
            }
            match failure {
                Some(error) if round == 0 => miss(run, name, kept, &error),
                Some(error) => return Err(error),
                None => {
                    let said = format!("{name}, round {}: {:.3}", round + 1, last_ratio(rounds));
                    run.show(&said, (round + 1) as f64 / run.rounds as f64);
                }
            }
        }
    }
    Ok(lines.into_iter().map(|(_, name, rounds)| (name, rounds)).collect())
}

/// This build was measured, but the base cannot be.
fn miss(run: &Run, name: &str, rounds: &mut Option<Rounds>, error: &anyhow::Error) {
    run.show(&format!("{name} is not in BASE: {error:#}"), 1.0);
    *rounds = None;
}

fn last_ratio(rounds: &Rounds) -> f64 {
    ratios(rounds, |reading| reading.value).last().copied().unwrap_or(f64::NAN)
}

/// The ratio of this build to the base in each complete round.
fn ratios(rounds: &Rounds, value: impl Fn(&Reading) -> f64) -> Vec<f64> {
    let sum = |readings: &[Reading]| readings.iter().map(&value).sum::<f64>();
    let each = TURNS / 2;
    let pairs = rounds.ours.chunks_exact(each).zip(rounds.peer.chunks_exact(each));
    pairs.map(|(ours, peer)| sum(ours) / sum(peer)).collect()
}

impl Line {
    fn new(name: &str, unit: &str, rounds: &Rounds) -> Self {
        let (this, base) = rounds.medians();
        let cost = Ratios::of(ratios(rounds, |reading| reading.value));
        let throughput = Ratios::of(ratios(rounds, |reading| reading.others["per_second"]));
        let verdict = cost.verdict();
        Self { name: name.into(), unit: unit.into(), base, this, cost, throughput, verdict }
    }
}

impl Ratios {
    fn of(mut ratios: Vec<f64>) -> Self {
        ratios.sort_by(f64::total_cmp);
        let count = ratios.len();
        let upper = median(ratios[count / 2..].iter().copied());
        let lower = median(ratios[..count.div_ceil(2)].iter().copied());
        let interval = rank(count).map(|rank| [ratios[rank], ratios[count - 1 - rank]]);
        Self { median: median(ratios.iter().copied()), quartiles: [lower, upper], interval }
    }

    fn verdict(&self) -> Verdict {
        match self.interval {
            Some([low, _]) if low > 1.0 + MARGIN => Verdict::More,
            Some([_, high]) if high < 1.0 - MARGIN => Verdict::Less,
            Some([_, high]) if high <= 1.0 + MARGIN => Verdict::Within,
            _ => Verdict::Undecided,
        }
    }
}

/// How many of `count` sorted values lie below the interval, and as many above: each is below the
/// median as often as a coin falls on one side.
fn rank(count: usize) -> Option<usize> {
    let (mut chance, mut below) = (0.5_f64.powi(count as i32), 0.0);
    for rank in 0..count {
        below += chance;
        if 2.0 * below > RISK {
            return rank.checked_sub(1);
        }
        chance *= (count - rank) as f64 / (rank + 1) as f64;
    }
    None
}

fn head() -> String {
    format!(
        "{:<26} {:>10} {:>10}  {:>6}  {:<14} {:<14} {:>10}  verdict\n",
        "line", "base", "this", "cost", "quartiles", "95 %", "throughput"
    )
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, unit, base, this, cost, throughput, verdict } = self;
        let range = |[low, high]: [f64; 2]| format!("{low:.3} – {high:.3}");
        let (quartiles, interval) =
            (range(cost.quartiles), cost.interval.map_or("–".to_owned(), range));
        writeln!(
            out,
            "{name:<26} {base:>7.2} {unit} {this:>7.2} {unit}  {:>6.3}  {quartiles:<14} {interval:<14} {:>10.3}  {verdict}",
            cost.median, throughput.median
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = MARGIN * 100.0;
        match self {
            Self::Within => write!(out, "within {percent} %"),
            Self::Less => write!(out, "costs less"),
            Self::More => write!(out, "OUTSIDE: costs more"),
            Self::Undecided => write!(out, "undecided"),
        }
    }
}

/// The lines of `--only`, or all.
pub(crate) fn choose(only: &[String]) -> anyhow::Result<impl Fn(&str) -> bool + '_> {
    let wanted =
        move |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
    if !lines().any(wanted) {
        bail!("--only names no line; there are: {}", lines().collect::<Vec<_>>().join(", "));
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        // Tables of the binomial distribution: number of values outside the interval at each end.
        let known = [(5, None), (6, Some(0)), (8, Some(0)), (9, Some(1)), (12, Some(2))];
        for (count, left_out) in known {
            assert_eq!(rank(count), left_out, "{count}");
        }
        assert_eq!(rank(100), Some(39));
    }

    #[test]
    fn a_round_is_two_readings_of_each() {
        let readings = |values: &[f64]| values.iter().copied().map(Reading::new).collect();
        let rounds = Rounds { ours: readings(&[2.0, 4.0, 9.0]), peer: readings(&[1.0, 2.0, 1.0]) };
        assert_eq!(ratios(&rounds, |reading| reading.value), [2.0]);
    }

    #[test]
    fn a_line_is_decided_where_the_interval_is_on_one_side() {
        let verdict = |ratios: &[f64]| Ratios::of(ratios.to_vec()).verdict();
        let around = |middle: f64| [-1.0, -0.6, -0.2, 0.2, 0.6, 1.0].map(|by| middle + by / 100.0);
        assert_eq!(verdict(&around(1.0)), Verdict::Within);
        assert_eq!(verdict(&around(0.985)), Verdict::Within);
        assert_eq!(verdict(&around(0.95)), Verdict::Less);
        assert_eq!(verdict(&around(1.02)), Verdict::Undecided);
        assert_eq!(verdict(&around(1.04)), Verdict::More);
        assert_eq!(verdict(&[1.5; 5]), Verdict::Undecided, "too few rounds");
    }
}
