//! The options that define a run.

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use notation::parse_duration;

use crate::fabric::{
    experiment::Experiment,
    setting::{CONTROLLER_INTERVAL_US, Options, Setting},
};

#[derive(Debug, Args)]
#[group(id = "setting")]
pub(super) struct Arguments {
    /// Scheme of address resolution: nocache, locallearning, gwcache, bluebird, ondemand, direct,
    /// controller, switchv2p, or switchv2p-no-invalidations, switchv2p-tor-only, …;
    /// docs/guide/fabric.md lists all
    #[arg(long, default_value = "switchv2p", value_name = "NAME")]
    scheme: String,

    /// Topology: ft8-10k, ft16-400k or a TOML file
    #[arg(long, default_value = "ft8-10k", value_name = "NAME")]
    topology: String,

    /// Trace file (.csv or .csv.gz), or workload to generate: hadoop, websearch, rpc, microbursts,
    /// video, incast
    #[arg(long, value_name = "FILE")]
    trace: String,

    /// Cache memory of all switches together: a percentage of all addresses, or a number of entries
    #[arg(long, default_value = "50%", value_name = "SIZE")]
    cache: String,

    /// Rules of the switches: those of the paper's text, or of the authors' published code
    #[arg(long, default_value = "paper", value_name = "paper|published")]
    model: String,

    /// Set one quirk of the published code differently from --model; a wrong name prints the list.
    /// Repeatable
    #[arg(long, value_name = "NAME=on|off", value_parser = parse_quirk)]
    quirk: Vec<(String, bool)>,

    /// Meaning of a row of the trace, if the trace does not state it: a TCP flow or a UDP datagram
    #[arg(long, default_value = "tcp", value_name = "tcp|udp")]
    protocol: String,

    /// Congestion control of TCP: cubic or dctcp
    #[arg(long, default_value = "cubic", value_name = "NAME")]
    transport: String,

    /// Move a VM to another server at this simulated time, for example 5200:68@500us. Repeatable
    #[arg(long, value_name = "VM:SERVER@TIME")]
    migrate: Vec<String>,

    /// Probability of a learning packet for each packet that a gateway ToR sees [default: 0.005]
    #[arg(long, value_name = "P")]
    learn_probability: Option<f64>,

    /// Interval at which the controller solves its integer program, in simulated time; scheme
    /// controller only [default: 150us]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    controller_interval: Option<Duration>,

    /// Length of a generated workload, as a factor of the paper's
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    share: f64,

    /// Seed of the random numbers; the same seed gives the same result
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
}

fn parse_quirk(text: &str) -> Result<(String, bool), String> {
    match text.split_once('=') {
        Some((name, "on")) => Ok((name.to_owned(), true)),
        Some((name, "off")) => Ok((name.to_owned(), false)),
        _ => Err(format!("`{text}` is not a quirk; write for example one-shot-vector=on")),
    }
}

impl Arguments {
    /// Reads and checks all options.
    pub(super) fn experiment(&self) -> anyhow::Result<Experiment> {
        let interval = self.controller_interval;
        let setting = Setting {
            scheme: self.scheme.clone(),
            cache: self.cache.clone(),
            model: self.model.clone(),
            quirks: self.quirk.iter().cloned().collect::<BTreeMap<_, _>>(),
            transport: self.transport.clone(),
            migrations: self.migrate.clone(),
            learn_probability: self.learn_probability,
            controller_interval_us: interval
                .map_or(CONTROLLER_INTERVAL_US, |interval| interval.as_secs_f64() * 1e6),
            seed: self.seed,
        };
        let options = Options {
            topology: self.topology.clone(),
            trace: self.trace.clone(),
            protocol: self.protocol.clone(),
            share: self.share,
            setting,
        };
        options.experiment()
    }
}
