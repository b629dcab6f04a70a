//! `enroute state placer`.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};

use clap::{Args, builder::NonEmptyStringValueParser};
use notation::parse_duration;
use state::{initiator, placement::MoveCost, slot::Slot};

use crate::{
    admin::Counted,
    cli::{admin::Admin, signal::EndSignal},
    state::{
        default_placer,
        placer::{Config, Goal, Placer},
    },
};

const EXAMPLES: &str = "\
EXAMPLES:
  Two placers; one leads, the other takes over when the first fails:
    enroute state placer --cluster 10.0.0.1:6379 &
    enroute state placer --cluster 10.0.0.2:6379 &

  Log what would move without moving it:
    enroute state placer --cluster 10.0.0.1:6379 --dry-run

  Slots that are never moved:
    enroute state placer --cluster 10.0.0.1:6379 --pin '{billing}' --pin 866

  Move no slots to a node that will be removed:
    enroute state placer --cluster 10.0.0.1:6379 --exclude 10.0.0.3:6379";

/// Run a placer: move slots to the nodes where their accesses wait least
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    nodes: super::Nodes,

    /// Name of the placer, unique in the cluster [default: host name and process id]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Goal of the placement. `latency`: slots move to the nodes where their accesses wait least.
    /// `load`: few slots move, so that no node has more than 1.1 times the mean load; --threshold,
    /// --dwell, --move-cost and --load-max have no effect
    #[arg(long, value_name = "latency|load", default_value = "latency",
        value_parser = ["latency", "load"])]
    goal: String,

    /// Interval between placement reviews
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    period: Duration,

    /// Half-life of the access-rate average; a longer one ignores more noise and detects slow
    /// changes later. Sudden changes are detected by the next reports in either case
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    half_life: Duration,

    /// Review a slot when its accesses have changed by more than this percentage since its last
    /// review; 0 reviews it on every change
    #[arg(long, value_name = "PERCENT", default_value_t = 20)]
    threshold: u32,

    /// Time for which an access pattern is expected to last. A move must save more than it costs
    /// within this time; a shorter one moves fewer slots
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    dwell: Duration,

    /// Cost of a move, as the total time that accesses wait for it; a higher one moves fewer slots
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
    move_cost: Duration,

    /// Minimum time between two moves of a slot; doubled each time the slot soon moves back, up to
    /// 1 h
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    cool_down: Duration,

    /// Maximum number of moves in 10 s; 0 moves nothing
    #[arg(long, value_name = "COUNT", default_value_t = initiator::Config::default().moves_max)]
    moves_max: usize,

    /// Maximum planned load of a node, in accesses per second [default: unlimited]
    #[arg(long, value_name = "COUNT")]
    load_max: Option<f64>,

    /// Never move this slot, given by its number or a key in it. Repeatable
    #[arg(long, value_name = "SLOT|KEY", value_parser = NonEmptyStringValueParser::new())]
    pin: Vec<String>,

    /// Move no slot to this node. Repeatable
    #[arg(long, value_name = "HOST:PORT")]
    exclude: Vec<String>,

    /// Copies that agents keep of slots that several hosts read: `off` keeps none, so that only
    /// placement shortens accesses
    #[arg(long, value_name = "auto|off", default_value = "auto", value_parser = ["auto", "off"])]
    copies: String,

    /// Log what would move, and move nothing
    #[arg(long)]
    dry_run: bool,

    /// Address of the admin endpoint, HTTP: statistics and metrics. It has no authentication: use a
    /// loopback address [default: no admin endpoint]
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "HOST:PORT")]
    admin: Option<SocketAddr>,
}

/// What a byte adds to the cost of a move, in microseconds: what MIGRATE takes on one machine.
const PER_BYTE_US: f64 = 0.01;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let access = arguments.nodes.access()?;
    let pins: BTreeSet<Slot> = arguments.pin.iter().map(|what| super::slot(what)).collect();
    let named = |name: &String| Ok((name.clone(), super::resolve("--exclude", name)?));
    let excluded = arguments.exclude.iter().map(named).collect::<anyhow::Result<Vec<_>>>()?;
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
        goal: if arguments.goal == "load" { Goal::Load } else { Goal::Latency },
        name: arguments.name.clone().unwrap_or_else(default_placer),
        period: arguments.period,
        half_life: arguments.half_life,
        initiator,
        moving,
        load_max: arguments.load_max.unwrap_or(f64::INFINITY),
        pins,
        excluded: BTreeSet::new(),
        copies: arguments.copies == "auto",
        dry_run: arguments.dry_run,
    };
    let end = EndSignal::flag()?;
    let admin = Admin::at(arguments.admin)?;
    eprintln!("placer {} started, waiting for reports of agents", config.name);
    let placer = Placer::new(&access, config, excluded);
    let reports = Arc::new(Counted(placer.reports()));
    let _admin = admin.map(|admin| admin.serve(reports)).transpose()?;
    placer.run(&end);
    Ok(())
}
