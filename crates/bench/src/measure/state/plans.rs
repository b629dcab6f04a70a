//! The placer's decisions by themselves: how long a plan takes, and how much longer a simulated
//! cluster waits under them than it has to. Both run an example of the crate `state`.

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    figure::{Figure, median},
    run::Run,
};

/// The plan of 16,384 slots for 1,000 hosts.
pub(in crate::measure) fn plan(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "plan-16384x1000-ms";
    let text =
        run.output("plan", run.servers.example("state", "plan")?.arg(run.rounds.to_string()))?;
    let readings: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    run.keep(name, &readings)?;
    let value = median(readings.into_iter());
    Ok(vec![
        Figure::alone(name, value, "ms", 1_000.0)
            .note("1,000 nodes, each slot used by one to four hosts".into()),
    ])
}

/// Output of the example `simulation` for one scenario.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    scenario: String,
    functions: u64,
    slots: u64,
    seconds: u64,
    ratio: f64,
    moves_per_hour: f64,
    moves_of_one_slot: u64,
}

/// A simulated hour of 1,000 hosts and 100,000 functions beside the best placement of every minute.
pub(in crate::measure) fn over_optimum(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let name = "delay-over-optimum";
    let length = if run.short { "short" } else { "long" };
    let text = run.output("simulation", run.servers.example("state", "simulation")?.arg(length))?;
    let outcomes: Vec<Outcome> =
        text.lines().map(serde_json::from_str).collect::<Result<_, _>>().context(text.clone())?;
    run.keep(name, &outcomes)?;
    let goal = outcomes.iter().filter(|outcome| outcome.scenario != "adversarial");
    let worst = goal.map(|outcome| outcome.ratio).fold(0.0, f64::max);
    ensure!(worst >= 1.0, "better than the best there is: {text}");
    let each: Vec<String> = outcomes
        .iter()
        .map(|outcome| {
            format!(
                "{} {:.3} with {:.0} moves an hour, {} of one slot at most",
                outcome.scenario, outcome.ratio, outcome.moves_per_hour, outcome.moves_of_one_slot
            )
        })
        .collect();
    let of = outcomes.first().context("no scenario")?;
    let note = format!(
        "{} functions on {} slots, {} s, the best placement of every minute with hindsight, free moves and \
         no limits; the worse of diurnal and mixed: {}",
        of.functions,
        of.slots,
        of.seconds,
        each.join("; ")
    );
    Ok(vec![Figure::alone(name, worst, "x", 1.05).note(note)])
}
