//! `enroute-bench`: costs and gains of the parts of enroute, compared with their peers.
//!
//! A program of its own, so that what it needs (the official MongoDB driver above all) stays out of
//! `enroute`; it imports no crate of this repository and runs the binary as a user would. Peers are
//! measured in the same run, in interleaved rounds, by the same client on the same data; a figure
//! is the median of its rounds. It is not: a test. Nothing fails because a machine is slow.
//!
//! Read first: [`measure`], then [`load`], the client.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::bail;
use clap::{Args, Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

mod dynamodb;
mod figure;
mod load;
mod measure;
mod memcached;
mod process;
mod protocol;
mod resp;
mod run;
mod servers;
mod stub;

use measure::Measurement;
use run::Run;

/// Default of `--output`.
const OUTPUT: &str = "target/bench";

/// Duration of one reading of `compare`: short, because changes of the machine between the two
/// sides disturb the ratio.
const READING: Duration = Duration::from_millis(500);

const COMPARE_HELP: &str = "\
Each line has the processor time of one operation in the server, in both builds, and the ratio of this \
build to the base: its median over the rounds, its quartiles, and the interval that holds the median \
with 95 % confidence. Verdicts: \"within 2 %\", if the whole interval is at most 1.02; \"OUTSIDE: costs \
more\", if it is above; \"costs less\", if it is below 0.98; \"undecided\", if it holds 1.02 or if there \
are fewer than six rounds. More --rounds make the interval shorter. A line that the other commit does \
not have is \"not in BASE\". The switch needs root.";

#[derive(Debug, Parser)]
#[command(name = "enroute-bench", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Measures the costs and gains of enroute beside other software
#[derive(Debug, Subcommand)]
enum Command {
    /// Measure `enroute cache`; results go to target/bench/cache.json
    Cache(Choice),
    /// Compare the cost of each operation with that of another commit; results go to
    /// target/bench/compare.json
    #[command(after_help = COMPARE_HELP)]
    Compare {
        /// Directory with the other commit's `enroute` and `examples/`; crates/bench/base.sh builds
        /// it
        #[arg(long, value_name = "DIRECTORY")]
        base: PathBuf,
        #[command(flatten)]
        choice: Choice,
    },
    /// Measure `enroute db`; results go to target/bench/db.json
    Db(Choice),
    /// Measure `enroute fabric`; results go to target/bench/fabric.json
    Fabric(Choice),
    /// Measure `enroute keyserver`; results go to target/bench/keyserver.json
    Keyserver(Choice),
    /// Measure `enroute state`; results go to target/bench/state.json
    State(Choice),
    /// Measure `enroute switch`; results go to target/bench/switch.json
    Switch(Choice),
    /// Measure `enroute switch v2p`; results go to target/bench/v2p.json
    V2p(Choice),
    /// Run network functions over a state layer; prints each access as JSON, for
    /// `make lab-annabelladb`
    Functions(measure::Scenario),
    /// Run a minimal server, as a lower bound for others
    #[command(hide = true)]
    Stub {
        #[command(subcommand)]
        kind: stub::Kind,
    },
}

#[derive(Debug, Args)]
struct Choice {
    /// Measure only figures (or lines) whose name contains this. Repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Number of interleaved rounds of each measurement [default: 5, or 3 with --short; of
    /// `compare` 12, or 6]
    #[arg(long, value_name = "COUNT")]
    rounds: Option<usize>,

    /// Use shorter rounds; the figures are noisier
    #[arg(long)]
    short: bool,

    /// Directory for the results
    #[arg(long, value_name = "DIRECTORY", default_value = OUTPUT)]
    output: PathBuf,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Compare { base, choice } => compare(&base, &choice),
        Command::Cache(choice) => measure("cache", measure::CACHE, &choice),
        Command::Db(choice) => measure("db", measure::DATABASE, &choice),
        Command::Fabric(choice) => measure("fabric", measure::FABRIC, &choice),
        Command::Keyserver(choice) => measure("keyserver", measure::KEYSERVER, &choice),
        Command::State(choice) => measure("state", measure::STATE, &choice),
        Command::Switch(choice) => measure("switch", measure::SWITCH, &choice),
        Command::V2p(choice) => measure("v2p", measure::V2P, &choice),
        Command::Functions(scenario) => functions(&scenario),
        Command::Stub { kind } => stub::serve(&kind).map_err(Into::into),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("enroute-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "the table is the output of the command")]
fn measure(
    subject: &'static str,
    all: &'static [Measurement],
    arguments: &Choice,
) -> anyhow::Result<()> {
    open_files();
    let wanted = |name: &&&str| {
        arguments.only.is_empty() || arguments.only.iter().any(|part| name.contains(part.as_str()))
    };
    let chosen: Vec<&Measurement> = all
        .iter()
        .filter(|measurement| measurement.names.iter().any(|name| wanted(&name)))
        .collect();
    if chosen.is_empty() {
        let all: Vec<&str> = all.iter().flat_map(|one| one.names).copied().collect();
        bail!("--only names no figure; there are: {}", all.join(", "));
    }
    let rounds = arguments.rounds.unwrap_or(if arguments.short { 3 } else { 5 }).max(1);
    let run = Run::new(subject, &arguments.output, rounds, arguments.short)?;
    let seconds = |measurement: &Measurement| {
        measurement.seconds + measurement.rounds * rounds as f64 * run.round().as_secs_f64()
    };
    let seconds_of_all = chosen.iter().map(|measurement| seconds(measurement)).sum();
    let mut figures = Vec::new();
    for (index, measurement) in chosen.iter().enumerate() {
        let title = format!("[{}/{}] {}", index + 1, chosen.len(), measurement.names.join(", "));
        run.begin(title, seconds(measurement), seconds_of_all);
        run.show("begins", 0.0);
        match (measurement.run)(&run) {
            Ok(measured) => figures.extend(measured),
            Err(error) => {
                eprintln!("{}", figure::table(&figures));
                eprintln!("results so far: {}", run.results().display());
                return Err(error);
            }
        }
        // Written after each measurement, so that a stopped run keeps its results.
        run.publish(&figures)?;
    }
    println!("{}", figure::table(&figures));
    println!("results: {}", run.results().display());
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the table is the output of the command")]
fn compare(base: &Path, arguments: &Choice) -> anyhow::Result<()> {
    open_files();
    let wanted = measure::compare::choose(&arguments.only)?;
    let rounds = arguments.rounds.unwrap_or(if arguments.short { 6 } else { 12 }).max(1);
    let run = Run::new("compare", &arguments.output, rounds, arguments.short)?.with_round(READING);
    println!("{}", measure::compare::compare(&run, base, wanted)?);
    println!("results: {}", run.results().display());
    Ok(())
}

#[allow(clippy::print_stdout, reason = "it is the output of the command")]
fn functions(scenario: &measure::Scenario) -> anyhow::Result<()> {
    open_files();
    let run = Run::new("functions", Path::new(OUTPUT), 1, false)?;
    run.begin(format!("functions, {}", scenario.placement), scenario.seconds, scenario.seconds);
    let outcome = scenario.run(&run.servers, |share| run.show("running", share))?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// Maximum number of files that this process and those it starts may open, raised to the system's
/// limit.
fn open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if setrlimit(Resource::Nofile, raised).is_ok() {
        return limit.maximum.unwrap_or(u64::MAX);
    }
    limit.current.unwrap_or(u64::MAX)
}
