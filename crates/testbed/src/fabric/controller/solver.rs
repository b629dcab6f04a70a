//! Solves a [`Program`] by HiGHS, in a build with the feature `highs`.

use anyhow::ensure;
use highs::{HighsModelStatus, RowProblem, Sense};

use super::{Choice, Program};

/// Accepted gap: 0.5 %, far less than the change of the traffic between two solves.
const GAP: f64 = 0.005;

/// Limit of branch and bound, which then reports the gap. It is in nodes, not seconds, so that the
/// result does not depend on the speed of the machine.
const NODES_MAX: i32 = 10_000;

pub(super) fn solve(program: &Program) -> anyhow::Result<Choice> {
    if program.stores.is_empty() {
        return Ok(Choice { stores: Vec::new(), gap: 0.0 });
    }
    let mut problem = RowProblem::default();
    let stores: Vec<_> =
        program.stores.iter().map(|_| problem.add_integer_column(0.0, 0..=1)).collect();
    let uses: Vec<_> =
        program.uses.iter().map(|each| problem.add_column(each.saving, 0..=1)).collect();
    let mut of_demand = vec![Vec::new(); program.demands];
    for (each, &used) in program.uses.iter().zip(&uses) {
        problem.add_row(..=0, [(used, 1.0), (stores[each.store], -1.0)]);
        of_demand[each.demand].push((used, 1.0));
    }
    for uses in of_demand {
        problem.add_row(..=1, uses);
    }
    for (&switch, &capacity) in &program.capacities {
        let here = program.stores.iter().zip(&stores).filter(|((at, _), _)| *at == switch);
        problem.add_row(..=capacity as f64, here.map(|(_, &store)| (store, 1.0)));
    }
    let mut model = problem.optimise(Sense::Maximise);
    model.make_quiet();
    model.set_option("mip_rel_gap", GAP);
    model.set_option("mip_max_nodes", NODES_MAX);
    // One thread and one seed: the same answer each time.
    model.set_option("threads", 1);
    model.set_option("random_seed", 0);
    let solved = model.solve();
    let status = solved.status();
    ensure!(
        matches!(status, HighsModelStatus::Optimal | HighsModelStatus::ReachedSolutionLimit),
        "the integer program of the controller has no solution: HiGHS returned {status:?}"
    );
    let values = solved.get_solution();
    let gap = solved.mip_gap();
    let values = values.columns().iter().take(program.stores.len()).enumerate();
    let stores = values.filter(|(_, value)| **value > 0.5).map(|(store, _)| store).collect();
    Ok(Choice { stores, gap: if gap.is_finite() { gap.max(0.0) } else { 0.0 } })
}
