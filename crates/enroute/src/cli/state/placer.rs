//! `enroute state placer`.

use std::{collections::BTreeSet, time::Duration};

use clap::Args;
use state::{initiator, placement::MoveCost, slot::Slot};

use crate::{
    cli::signal::EndSignal,
    link::parse_duration,
    state::{
        default_placer,
        placer::{Config, Placer},
    },
};

const EXAMPLES: &str = "\
EXAMPLES:
  One leads, the other takes over when it is gone:
    enroute state placer --cluster 10.0.0.1:6379 &
    enroute state placer --cluster 10.0.0.2:6379 &

  What it would do, without doing it:
    enroute state placer --cluster 10.0.0.1:6379 --dry-run

  Keys that stay where they are:
    enroute state placer --cluster 10.0.0.1:6379 --pin '{billing}' --pin 866

  A node about to be taken away gets nothing more:
    enroute state placer --cluster 10.0.0.1:6379 --exclude 10.0.0.3:6379";

/// Move slots to the nodes where their accesses wait least
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    nodes: super::Nodes,

    /// Its name among placers [default: the machine's, and the process's number]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Between two reviews
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    period: Duration,

    /// After so long a slow change in who uses a slot has come through by half; a sudden one is seen at once
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    half_life: Duration,

    /// A slot is looked at again when this share of its accesses, in percent, is new or gone
    #[arg(long, value_name = "PERCENT", default_value_t = 20)]
    threshold: u32,

    /// How long a slot is expected to be used as it is now: in that time a move has to pay
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    dwell: Duration,

    /// What a move costs, as time that accesses wait for it
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
    move_cost: Duration,

    /// A slot that has moved stays for so long; for twice as long each time it goes back
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    cool_down: Duration,

    /// Moves at most in ten seconds
    #[arg(long, value_name = "COUNT", default_value_t = initiator::Config::default().moves_max)]
    moves_max: usize,

    /// Accesses a second that slots are planned to bring to a node at most [default: no limit]
    #[arg(long, value_name = "COUNT")]
    load_max: Option<f64>,

    /// A slot that stays where it is, by its number or by a key in it; may be given several times
    #[arg(long, value_name = "SLOT|KEY")]
    pin: Vec<String>,

    /// A node that no slot moves to; may be given several times
    #[arg(long, value_name = "HOST:PORT")]
    exclude: Vec<String>,

    /// Say what would move, and move nothing
    #[arg(long)]
    dry_run: bool,
}

/// What a byte adds to the cost of a move, in microseconds: what MIGRATE takes on one machine.
const PER_BYTE_US: f64 = 0.01;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let access = arguments.nodes.access()?;
    let pins: BTreeSet<Slot> = arguments.pin.iter().map(|what| super::slot(what)).collect();
    let excluded = arguments.exclude.iter().map(|name| super::resolve("--exclude", name));
    let excluded = excluded.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect();
    let initiator = initiator::Config {
        threshold: f64::from(arguments.threshold) / 100.0,
        cool_down: arguments.cool_down,
        moves_max: arguments.moves_max,
        ..initiator::Config::default()
    };
    let moving = MoveCost {
        fixed_us: arguments.move_cost.as_secs_f64() * 1e6,
        per_byte_us: PER_BYTE_US,
        dwell_s: arguments.dwell.as_secs_f64(),
    };
    let config = Config {
        name: arguments.name.clone().unwrap_or_else(default_placer),
        period: arguments.period,
        half_life: arguments.half_life,
        initiator,
        moving,
        load_max: arguments.load_max.unwrap_or(f64::INFINITY),
        pins,
        excluded,
        dry_run: arguments.dry_run,
    };
    let end = EndSignal::flag()?;
    eprintln!("placer {} listens to what agents report", config.name);
    Placer::new(&access, config).run(&end);
    Ok(())
}
