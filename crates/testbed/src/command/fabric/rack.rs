//! `enroute fabric rack`: NetCache's rack, the second topology.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use ::fabric::rack::{Rack, RackMetrics, SEARCH_RUNS};
use anyhow::{bail, ensure};
use clap::Args;
use notation::parse_duration;
use serde_json::{Value, json};

use super::super::Stop;

use crate::{
    fabric::experiment::progress_line,
    report::{Progress, Table},
};

const EXAMPLES: &str = "\
EXAMPLES:
  Throughput of 128 servers under Zipf 0.99, with the hottest 10,000 items cached, and without:
    enroute fabric rack
    enroute fabric rack --cached 0

  10 % writes, with the same skew as reads:
    enroute fabric rack --writes 0.1 --write-skew 0.99

  Loss and latency at 2 billion queries per second:
    enroute fabric rack --qps 2000000000

  The result as JSON on standard output:
    enroute fabric rack --skew 0.95 --json

`enroute switch rack` runs the same rack with the XDP program.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Number of servers; each key belongs to one
    #[arg(long, value_name = "COUNT", default_value_t = Rack::default().servers)]
    servers: u32,

    /// Capacity of one server, in queries per second
    #[arg(long, value_name = "COUNT", default_value_t = Rack::default().server_qps)]
    server_qps: u64,

    /// Queue length of a server, in queries; further ones are dropped
    #[arg(long, value_name = "COUNT", default_value_t = Rack::default().server_queue)]
    server_queue: u32,

    /// Time from the switch to a server and through it, without queueing
    #[arg(long, value_name = "TIME", default_value = "7us", value_parser = parse_duration)]
    server_latency: Duration,

    /// Time from a server back to the switch; until then the switch does not answer reads of a
    /// written item
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = parse_duration)]
    update_latency: Duration,

    /// Number of hottest items in the switch; 0 disables the cache
    #[arg(long, value_name = "COUNT", default_value_t = Rack::default().cached)]
    cached: u64,

    /// Number of keys
    #[arg(long, value_name = "COUNT", default_value_t = Rack::default().keys)]
    keys: u64,

    /// Zipf exponent of the popularity of reads; 0 is uniform
    #[arg(long, value_name = "NUMBER", default_value_t = Rack::default().skew)]
    skew: f64,

    /// Share of writes, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = Rack::default().writes)]
    writes: f64,

    /// Zipf exponent of the popularity of writes; 0 is uniform
    #[arg(long, value_name = "NUMBER", default_value_t = Rack::default().write_skew)]
    write_skew: f64,

    /// Queries per second of all clients [default: the rate with 0.5 % loss, by a search of
    /// thirteen runs]
    #[arg(long, value_name = "COUNT")]
    qps: Option<u64>,

    /// Number of queries of a run; choose it much larger than all queues together
    #[arg(long, value_name = "COUNT", default_value_t = 400_000)]
    queries: u64,

    /// Seed of the random numbers; the same seed gives the same result
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn rack(&self) -> Rack {
        Rack {
            servers: self.servers,
            server_qps: self.server_qps,
            server_queue: self.server_queue,
            server_latency_ns: self.server_latency.as_nanos() as u64,
            update_ns: self.update_latency.as_nanos() as u64,
            cached: self.cached,
            keys: self.keys,
            skew: self.skew,
            writes: self.writes,
            write_skew: self.write_skew,
        }
    }
}

#[allow(clippy::print_stdout, reason = "the result is the output")]
pub(super) fn run(arguments: &Arguments, stop: Stop) -> anyhow::Result<()> {
    ensure!(arguments.queries > 0, "--queries: expected at least 1, got 0");
    let rack = arguments.rack();
    let (qps, metrics) = match arguments.qps {
        Some(qps) => (qps, rack.run(qps, arguments.queries, arguments.seed)?),
        None => searched(&rack, arguments, stop)?,
    };
    let result = result(&rack, arguments, qps, &metrics);
    if arguments.json {
        println!("{result}");
    } else {
        println!("{}", table(&result));
    }
    Ok(())
}

/// Searches the throughput with a progress bar; Ctrl-C ends it.
fn searched(rack: &Rack, arguments: &Arguments, stop: Stop) -> anyhow::Result<(u64, RackMetrics)> {
    let stop = stop()?;
    let (began, mut progress) = (Instant::now(), Progress::stderr());
    let found = rack.throughput(arguments.queries, arguments.seed, |over| {
        let elapsed = began.elapsed();
        let what = format!("{over} of {SEARCH_RUNS} rates tried");
        let share = f64::from(over) / f64::from(SEARCH_RUNS);
        progress.show(&[progress_line(&what, share, elapsed)], elapsed);
        !stop.load(Relaxed)
    })?;
    match found {
        Some(found) => Ok(found),
        None => bail!("stopped before the end; no result is printed"),
    }
}

/// Configuration and result of the run; rates and shares have the names of `enroute switch rack`.
fn result(rack: &Rack, arguments: &Arguments, qps: u64, metrics: &RackMetrics) -> Value {
    let answers = metrics.answers().max(1) as f64;
    let throughput_qps = qps as f64 * (1.0 - metrics.loss());
    let switch_qps = throughput_qps * metrics.switch_answers as f64 / answers;
    let most = metrics.server_answers.iter().max().copied().unwrap_or_default();
    let of_servers = (metrics.answers() - metrics.switch_answers).max(1) as f64;
    json!({
        "config": {
            "servers": rack.servers,
            "server_qps": rack.server_qps,
            "server_queue": rack.server_queue,
            "server_latency_ns": rack.server_latency_ns,
            "update_ns": rack.update_ns,
            "cached": rack.cached,
            "keys": rack.keys,
            "skew": rack.skew,
            "writes": rack.writes,
            "write_skew": rack.write_skew,
            "queries": arguments.queries,
            "seed": arguments.seed,
        },
        "asked_qps": qps,
        "throughput_qps": throughput_qps,
        "switch_qps": switch_qps,
        "servers_qps": throughput_qps - switch_qps,
        "loss": metrics.loss(),
        "latency_us": metrics.latency_ns as f64 / answers / 1e3,
        "invalidated": metrics.invalidated,
        "busiest_server_over_mean": most as f64 * f64::from(rack.servers) / of_servers,
    })
}

fn table(result: &Value) -> Table<2> {
    let mut table = Table::new(["what", "value"]);
    for (what, name, unit) in [
        ("asked, M queries a second", "asked_qps", 1e6),
        ("answered, M queries a second", "throughput_qps", 1e6),
        ("  by the switch", "switch_qps", 1e6),
        ("  by the servers", "servers_qps", 1e6),
        ("lost %", "loss", 0.01),
        ("mean latency us", "latency_us", 1.0),
        ("writes that invalidated a cached item", "invalidated", 1.0),
        ("busiest server over the mean", "busiest_server_over_mean", 1.0),
    ] {
        table.row([json!(what), json!(result[name].as_f64().unwrap_or_default() / unit)]);
    }
    table
}
