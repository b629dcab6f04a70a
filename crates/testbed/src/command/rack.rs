//! `enroute switch rack`: NetCache's rack with the real program.

use std::time::Duration;

use clap::Args;
use notation::parse_duration;

use crate::{rack, services::Switch};

#[derive(Debug, Args)]
#[allow(missing_docs, reason = "it would be shown as help")]
pub struct Arguments {
    /// Number of servers; each has its own queue
    #[arg(long, value_name = "COUNT", default_value_t = rack::Config::default().servers)]
    servers: u32,

    /// Capacity of one server, in queries per second
    #[arg(long, value_name = "COUNT", default_value_t = rack::Config::default().server_qps)]
    server_qps: u32,

    /// Number of hottest keys that are cached at the start; 0 runs without the program
    #[arg(long, value_name = "COUNT", default_value_t = rack::Config::default().cached)]
    cached: u32,

    /// Number of keys
    #[arg(long, value_name = "COUNT", default_value_t = rack::Config::default().keys)]
    keys: u64,

    /// Zipf exponent of the popularity of reads; 0 is uniform
    #[arg(long, value_name = "NUMBER", default_value_t = rack::Config::default().skew)]
    skew: f64,

    /// Share of writes, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    writes: f64,

    /// Zipf exponent of the popularity of writes; 0 is uniform
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0)]
    write_skew: f64,

    /// Interval at which the controller takes reports of hot keys; the paper's takes them every
    /// second, 0 is at once
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    reports_every: Duration,

    /// Change of the popularity during the run
    #[arg(long, value_enum, default_value_t = rack::Change::None)]
    change: rack::Change,

    /// Measured time, in seconds
    #[arg(long, value_name = "COUNT", default_value_t = rack::Config::default().seconds)]
    seconds: u32,

    /// Warm-up time, in seconds; clients use it to find a rate with little loss
    #[arg(long, value_name = "COUNT", default_value_t = rack::Config::default().settle_s)]
    settle: u32,

    /// Seed of the random queries
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

impl Arguments {
    fn config(&self) -> rack::Config {
        rack::Config {
            servers: self.servers,
            server_qps: self.server_qps,
            cached: self.cached,
            keys: self.keys,
            skew: self.skew,
            writes: self.writes,
            write_skew: self.write_skew,
            reports_every_ms: self.reports_every.as_millis() as u64,
            change: self.change,
            seconds: self.seconds,
            settle_s: self.settle,
            seed: self.seed,
            ..rack::Config::default()
        }
    }

    /// Runs the rack and prints the result as JSON.
    ///
    /// # Errors
    /// As for [`rack::run`].
    #[allow(clippy::print_stdout, reason = "the output of the command")]
    pub fn run<S: Switch>(&self) -> anyhow::Result<()> {
        let outcome = rack::run::<S>(&self.config(), |second| {
            let answered = second.switch + second.servers;
            let share = second.switch as f64 / answered.max(1) as f64;
            let loss = second.loss();
            eprintln!("{answered} answers/s, {share:.2} by the switch, {loss:.3} lost");
        })?;
        print!("{}", serde_json::to_string_pretty(&outcome)?);
        Ok(())
    }
}
