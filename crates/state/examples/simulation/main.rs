//! The real planner at work on a simulated cluster: 1,000 hosts with a node each in forty data
//! centres around the earth, 100,000 network functions, ten minutes of their day: everywhere on
//! earth another part of it. Twice a second agents report what was counted, with the noise of
//! counting; `accesses`, `placement` and `initiator` decide as the placer has them decide; moves
//! take effect a period later and cost what the planner thinks they cost. Beside it stands the best
//! placement of every window, found with hindsight, free to move and without limits of capacity:
//! nothing can wait less unless it moves within a window.
//!
//! Prints one JSON object a scenario. `make bench-state` runs it; `simulation short mixed` is for
//! trying, `fast` has the sun go round in an hour.
#![allow(clippy::print_stdout, reason = "it is what it is run for")]
#![allow(
    clippy::indexing_slicing,
    reason = "numbers of hosts and slots come from the world itself"
)]

use std::thread;

mod course;
mod world;

use course::{Course, Outcome};
use world::{Size, World};

/// The behaviour of the functions of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    /// All follow the sun.
    Diurnal,
    /// One group of functions in ten does what is hardest to follow, the others follow the sun.
    Mixed,
    /// All do what is hardest to follow; a quarter know where their state is, and go elsewhere.
    Adversarial,
}

impl Scenario {
    const ALL: [Self; 3] = [Self::Diurnal, Self::Mixed, Self::Adversarial];

    fn name(self) -> &'static str {
        match self {
            Self::Diurnal => "diurnal",
            Self::Mixed => "mixed",
            Self::Adversarial => "adversarial",
        }
    }

    /// Which share of the groups is hard to follow.
    fn hard(self) -> f64 {
        match self {
            Self::Diurnal => 0.0,
            Self::Mixed => 0.1,
            Self::Adversarial => 1.0,
        }
    }
}

fn main() {
    let mut size = Size::default();
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.iter().any(|word| word == "short") {
        size = Size { sites: 20, hosts: 200, functions: 20_000, slots: 3_277, ..size };
    }
    if wanted.iter().any(|word| word == "fast") {
        size.day = 3_600;
    }
    let mut scenarios = Scenario::ALL.to_vec();
    if scenarios.iter().any(|scenario| wanted.iter().any(|word| word == scenario.name())) {
        scenarios.retain(|scenario| wanted.iter().any(|word| word == scenario.name()));
    }
    thread::scope(|scope| {
        for scenario in scenarios {
            scope.spawn(move || println!("{}", line(scenario, &simulate(size, scenario))));
        }
    });
}

fn simulate(size: Size, scenario: Scenario) -> Outcome {
    let world = World::new(size, scenario.hard(), 1);
    Course::new(&world, 2).run()
}

fn line(scenario: Scenario, outcome: &Outcome) -> String {
    let Outcome {
        seconds, functions, waited_s, moving_s, best_s, moves, moves_of_one, slots, ..
    } = outcome;
    let kinds: Vec<String> = outcome
        .ratios()
        .into_iter()
        .map(|(kind, ratio)| format!("\"{kind}\":{ratio:.4}"))
        .collect();
    format!(
        "{{\"scenario\":\"{}\",\"functions\":{functions},\"slots\":{slots},\"seconds\":{seconds},\
         \"ratio\":{:.5},\"waited_s\":{waited_s:.0},\"moving_s\":{moving_s:.0},\"best_s\":{best_s:.0},\
         \"moves_per_hour\":{:.0},\"moves_of_one_slot\":{moves_of_one},\"of_kind\":{{{}}}}}",
        scenario.name(),
        outcome.ratio(),
        *moves as f64 * 3600.0 / *seconds as f64,
        kinds.join(",")
    )
}

#[cfg(test)]
mod tests;
