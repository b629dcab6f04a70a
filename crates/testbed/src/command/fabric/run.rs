//! `enroute fabric run`: one experiment.

use std::{
    iter,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::bail;
use clap::Args;
use notation::parse_duration;
use serde_json::json;

use super::{super::Stop, setting};

use crate::{
    fabric::{
        experiment::{Experiment, Outcome, progress_line},
        memory,
        results::{Journal, Record, write_all},
        series,
    },
    report::{Progress, Table},
};

const EXAMPLES: &str = "\
EXAMPLES:
  The Hadoop trace of the SwitchV2P paper, with caches for half of all addresses:
    enroute fabric run --scheme switchv2p --topology ft8-10k --trace hadoop.csv.gz --cache 50%

  The same by the authors' published code, without one of its quirks:
    enroute fabric run --trace hadoop.csv.gz --model published --quirk one-shot-vector=off

  Table 4: 64 senders, one receiver that moves (the trace does not state its protocol):
    enroute fabric run --trace incast.csv.gz --protocol udp --cache 960 --migrate 5200:68@500us

  Counters of gateways and switches, every 5 us:
    enroute fabric run --trace incast --series incast.jsonl --every 5us

  One run on two cores, with the same result:
    enroute fabric run --topology ft16-400k --trace rpc --threads 2

  The result as JSON on standard output:
    enroute fabric run --trace microbursts --share 0.1 --json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    setting: setting::Arguments,

    /// Threads that simulate the run together, 1 or 2: results do not depend on their number, but
    /// each needs a core of its own. 2 is refused with --model published and with --series
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    threads: usize,

    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,

    /// Append the result to this file of JSON lines, and rewrite FILE.csv beside it
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the run over time to this file: one JSON line per interval, with cumulative totals
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,

    /// Interval of --series, in simulated time; at most 65,536 lines are written
    #[arg(long, default_value = "10us", value_name = "TIME", value_parser = parse_duration)]
    every: Duration,
}

#[allow(clippy::print_stdout, reason = "the result is the output")]
pub(super) fn run(arguments: &Arguments, stop: Stop) -> anyhow::Result<()> {
    let mut experiment = arguments.setting.experiment()?;
    if arguments.series.is_some() {
        experiment.config.sample_interval_ns = (arguments.every.as_nanos() as u64).max(1);
    }
    experiment.divide(arguments.threads)?;
    memory::check(iter::once(&experiment), 1)?;
    let journal = arguments.output.as_ref().map(|path| Journal::open(path)).transpose()?;
    let outcome = watched(&experiment, stop)?;
    let record = Record::new(&experiment, &outcome);
    if let (Some((mut journal, mut records)), Some(path)) = (journal, &arguments.output) {
        journal.add(&record)?;
        records.push(record.clone());
        write_all(&records.iter().collect::<Vec<_>>(), path, &path.with_extension("csv"))?;
    }
    if let Some(path) = &arguments.series {
        series::write(&outcome.metrics.samples, path)?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string(&record)?);
    } else {
        println!("{}", table(&record));
    }
    for solve in &outcome.solves {
        eprintln!(
            "controller at {} µs: {} variables, {} entries, gap {:.2} %, {:.0} ms",
            solve.at_ns / 1_000,
            solve.variables,
            solve.entries,
            solve.gap * 100.0,
            solve.time.as_secs_f64() * 1e3
        );
    }
    let cost = outcome.cost;
    eprintln!(
        "{:.2} s of {}, {:.0} packets and {:.0} packet-hops a second",
        cost.cpu_s,
        match arguments.threads {
            1 => "one core".to_owned(),
            threads => format!("{threads} cores in {:.2} s", cost.wall_s),
        },
        cost.packets_per_cpu_s,
        cost.packet_hops_per_cpu_s
    );
    Ok(())
}

/// Runs it with a progress bar; Ctrl-C ends it.
pub(super) fn watched(experiment: &Experiment, stop: Stop) -> anyhow::Result<Outcome> {
    let stop = stop()?;
    let (began, mut progress) = (Instant::now(), Progress::stderr());
    let rows = experiment.workload.flows.len().max(1) as f64;
    let outcome = experiment.run(&stop, |so_far| {
        let elapsed = began.elapsed();
        let rate = so_far.events as f64 / elapsed.as_secs_f64().max(1e-3) / 1e6;
        let what = format!("{:.3} ms simulated  {rate:.1} M events/s", so_far.now_ns as f64 / 1e6);
        let share = so_far.flows_started as f64 / rows;
        progress.show(&[progress_line(&what, share, elapsed)], elapsed);
    })?;
    match outcome {
        Some(outcome) => Ok(outcome),
        None => bail!("stopped before the end; no result is written"),
    }
}

fn table(record: &Record) -> Table<2> {
    let results = &record.results;
    let mut table = Table::new(["what", "value"]);
    for (what, value) in [
        ("packets sent", json!(results.packets_sent)),
        ("packets dropped", json!(results.packets_dropped)),
        ("packets in flight", json!(results.packets_in_flight)),
        ("gateway packets", json!(results.gateway_packets)),
        ("hit rate %", json!(results.hit_rate * 100.0)),
        ("flows", json!(results.flows)),
        ("flows completed", json!(results.flows_completed)),
        ("flow completion time us", json!(results.fct_us)),
        ("  median us", json!(results.fct_us_p50)),
        ("  99th percentile us", json!(results.fct_us_p99)),
        ("first packet latency us", json!(results.first_packet_latency_us)),
        ("packet latency us", json!(results.packet_latency_us)),
        ("switches passed by a packet", json!(results.packet_hops)),
        ("hits at cores", json!(results.core.hits)),
        ("hits at spines", json!(results.spine.hits)),
        ("hits at ToRs", json!(results.tor.hits)),
        ("learning packets", json!(results.learning_packets)),
        ("invalidation packets", json!(results.invalidation_packets)),
        ("misdelivered packets", json!(results.misdelivered)),
    ] {
        table.row([json!(what), value]);
    }
    table
}
