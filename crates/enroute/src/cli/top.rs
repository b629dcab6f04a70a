//! `enroute top`: what services do now, in the terminal.

use clap::Args;

use crate::config::Time;

const EXAMPLES: &str = "\
EXAMPLES:
  A cache that was started with --admin 127.0.0.1:9900; q or Ctrl-C ends:
    enroute top

  Caches and a database side by side, every 5 s:
    enroute top 10.0.0.1:9900 10.0.0.2:9900 10.0.0.3:9901 --interval 5s

  One frame as text, for a script: what happened in the last 10 s:
    enroute top --once --interval 10s

Of a cache: hit ratio, reads per second, latency of hits and misses, why reads were no hits, the
keys read most, the staleness bound. Of a database, an edge, a key server, a state agent and a
placer: what their /stats has. The first frame shows the time since the start, later ones the last interval. It reads GET /stats of the
admin endpoint, and changes nothing.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Addresses of the admin endpoints of the services
    #[arg(value_name = "HOST:PORT", default_value = "127.0.0.1:9900")]
    services: Vec<String>,

    /// Interval between two readings, at least 100 ms
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Time,

    /// Print one frame, of one interval, and exit
    #[arg(long)]
    once: bool,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    top::run(&arguments.services, arguments.interval.duration(), arguments.once)
}
