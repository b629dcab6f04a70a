//! Solves a [`Program`] to within [`GAP`] of the best: by HiGHS in a build with the feature `highs`,
//! otherwise by microlp, which needs nothing but Rust.

use super::{Choice, Program};

/// Close enough to the best: half a percent, far less than the traffic changes between two solves.
const GAP: f64 = 0.005;

/// Branch and bound gives up here and says how far it came. Nodes, not seconds: a slow machine must
/// find the same.
const NODES_MAX: u64 = 10_000;

pub(super) fn solve(program: &Program) -> anyhow::Result<Choice> {
    if program.stores.is_empty() {
        return Ok(Choice { stores: Vec::new(), gap: 0.0 });
    }
    backend::solve(program)
}

/// For each group, its members: `members[group]`.
fn grouped(groups: usize, members: impl Iterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let mut grouped = vec![Vec::new(); groups];
    for (group, member) in members {
        grouped[group].push(member);
    }
    grouped
}

/// The stores whose value is one.
fn chosen(values: impl Iterator<Item = f64>) -> Vec<usize> {
    values.enumerate().filter(|(_, value)| *value > 0.5).map(|(store, _)| store).collect()
}

#[cfg(not(feature = "highs"))]
mod backend {
    use anyhow::{Context, anyhow};
    use microlp::{ComparisonOp::Le, OptimizationDirection, Problem, SolveOptions};

    use super::{Choice, GAP, NODES_MAX, Program, chosen, grouped};

    pub(super) fn solve(program: &Program) -> anyhow::Result<Choice> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let stores: Vec<_> = program.stores.iter().map(|_| problem.add_binary_var(0.0)).collect();
        let uses: Vec<_> =
            program.uses.iter().map(|each| problem.add_var(each.saving, (0.0, 1.0))).collect();
        for (each, &used) in program.uses.iter().zip(&uses) {
            problem.add_constraint([(used, 1.0), (stores[each.store], -1.0)], Le, 0.0);
        }
        let of_demand = program.uses.iter().enumerate().map(|(index, each)| (each.demand, index));
        for members in grouped(program.demands, of_demand) {
            problem.add_constraint(members.iter().map(|&each| (uses[each], 1.0)), Le, 1.0);
        }
        for (&switch, &capacity) in &program.capacities {
            let here = program.stores.iter().zip(&stores).filter(|((at, _), _)| *at == switch);
            problem.add_constraint(here.map(|(_, &store)| (store, 1.0)), Le, capacity as f64);
        }
        let mut options = SolveOptions::default();
        options.mip_gap = GAP;
        options.node_limit = Some(NODES_MAX);
        let outcome = problem.solve_with(options).context("the controller's program")?;
        let solution = outcome
            .solution()
            .ok_or_else(|| anyhow!("the controller's program has no solution"))?;
        let stores = chosen(stores.iter().map(|&store| solution.var_value(store)));
        Ok(Choice { stores, gap: solution.gap().unwrap_or(0.0) })
    }
}

#[cfg(feature = "highs")]
mod backend {
    use anyhow::ensure;
    use highs::{HighsModelStatus, RowProblem, Sense};

    use super::{Choice, GAP, NODES_MAX, Program, chosen, grouped};

    pub(super) fn solve(program: &Program) -> anyhow::Result<Choice> {
        let mut problem = RowProblem::default();
        let stores: Vec<_> =
            program.stores.iter().map(|_| problem.add_integer_column(0.0, 0..=1)).collect();
        let uses: Vec<_> =
            program.uses.iter().map(|each| problem.add_column(each.saving, 0..=1)).collect();
        for (each, &used) in program.uses.iter().zip(&uses) {
            problem.add_row(..=0, [(used, 1.0), (stores[each.store], -1.0)]);
        }
        let of_demand = program.uses.iter().enumerate().map(|(index, each)| (each.demand, index));
        for members in grouped(program.demands, of_demand) {
            problem.add_row(..=1, members.iter().map(|&each| (uses[each], 1.0)));
        }
        for (&switch, &capacity) in &program.capacities {
            let here = program.stores.iter().zip(&stores).filter(|((at, _), _)| *at == switch);
            problem.add_row(..=capacity as f64, here.map(|(_, &store)| (store, 1.0)));
        }
        let mut model = problem.optimise(Sense::Maximise);
        model.make_quiet();
        model.set_option("mip_rel_gap", GAP);
        model.set_option("mip_max_nodes", NODES_MAX as i32);
        // One thread and one seed: the same answer each time.
        model.set_option("threads", 1);
        model.set_option("random_seed", 0);
        let solved = model.solve();
        let status = solved.status();
        ensure!(
            matches!(status, HighsModelStatus::Optimal | HighsModelStatus::ReachedSolutionLimit),
            "the controller's program has no solution: HiGHS says {status:?}"
        );
        let values = solved.get_solution();
        let gap = solved.mip_gap();
        let stores = chosen(values.columns().iter().copied().take(program.stores.len()));
        Ok(Choice { stores, gap: if gap.is_finite() { gap.max(0.0) } else { 0.0 } })
    }
}
