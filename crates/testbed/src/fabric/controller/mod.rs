//! The Controller (Appendix A): at intervals it reads the number of packets between each pair of
//! VMs, decides which switch stores which mapping, and fills the caches accordingly. Traffic is
//! paused during a solve, as in the paper.
//!
//! The paper's program minimises Σ L·T over the mappings K stored in switches, at most M in each.
//! Here it is written as a maximum of the savings relative to the path through the gateway, which
//! has the same solutions: a packet that passes switch s before the gateway may use a mapping
//! stored there, and saves the rest of the path to the gateway, its delay, and the path back.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use ::fabric::{Config, Placement, Simulation, topology::Topology};

#[cfg(feature = "highs")]
mod solver;

/// Whether this build includes a solver.
pub const SOLVER: bool = cfg!(feature = "highs");

#[cfg(not(feature = "highs"))]
mod solver {
    use super::{Choice, Program};

    /// Never called: a run with this scheme is rejected before, see [`super::SOLVER`].
    pub(super) fn solve(_: &Program) -> anyhow::Result<Choice> {
        anyhow::bail!("this build does not include a solver; build with --features highs")
    }
}

/// One solve.
#[derive(Debug, Clone, PartialEq)]
pub struct Solve {
    /// Simulated time of the solve, in ns.
    pub at_ns: u64,
    /// Size of the integer program.
    pub variables: usize,
    /// Number of mappings stored.
    pub entries: usize,
    /// Bound of the distance from the optimum: 0.01 is 1 %.
    pub gap: f64,
    /// Duration of the solve.
    pub time: Duration,
}

/// Fills the caches of a run.
#[derive(Debug)]
pub(super) struct Controller {
    topology: Topology,
    /// Number of entries of each switch.
    capacities: Vec<usize>,
    interval_ns: u64,
    next_ns: u64,
    solves: Vec<Solve>,
}

/// The mappings that may be stored, and the saving of each.
#[derive(Debug, Default, PartialEq)]
struct Program {
    /// Mappings that may be stored: in which switch, of which VM.
    stores: Vec<(u32, u32)>,
    /// Possible uses: the demand, the store, and the saving.
    uses: Vec<Use>,
    /// Demands: packets of one path to one VM. Each uses at most one store.
    demands: usize,
    /// Maximum number of mappings of each switch, where it is below the number of possible ones.
    capacities: BTreeMap<u32, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Use {
    demand: usize,
    store: usize,
    saving: f64,
}

/// A solution: the chosen stores, and the bound of its distance from the optimum.
struct Choice {
    stores: Vec<usize>,
    gap: f64,
}

impl Controller {
    pub(super) fn new(topology: &Topology, config: &Config, interval_us: f64) -> Self {
        let interval_ns = ((interval_us * 1e3) as u64).max(1);
        let entries = topology.entries_by_switch(config.cache_entries, |_| true);
        Self {
            topology: topology.clone(),
            capacities: entries.into_iter().map(|entries| entries as usize).collect(),
            interval_ns,
            next_ns: interval_ns,
            solves: Vec::new(),
        }
    }

    /// Time of the next solve, in ns.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Solves and fills the caches.
    pub(super) fn step(&mut self, simulation: &mut Simulation, now_ns: u64) -> anyhow::Result<()> {
        self.next_ns = now_ns + self.interval_ns;
        let traffic = simulation.take_traffic();
        if traffic.is_empty() {
            return Ok(());
        }
        let way = |source, gateway| simulation.gateway_path(source, gateway);
        let program = self.program(&traffic, way);
        let began = Instant::now();
        let choice = solver::solve(&program)?;
        let mut placements: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for &store in &choice.stores {
            let (switch, vm) = program.stores[store];
            placements.entry(switch).or_default().push(vm);
        }
        self.solves.push(Solve {
            at_ns: now_ns,
            variables: program.stores.len() + program.uses.len(),
            entries: choice.stores.len(),
            gap: choice.gap,
            time: began.elapsed(),
        });
        let placements: Vec<Placement> =
            placements.into_iter().map(|(switch, vms)| Placement { switch, vms }).collect();
        Ok(simulation.place(&placements)?)
    }

    pub(super) fn into_solves(self) -> Vec<Solve> {
        self.solves
    }

    /// `traffic`: source VM, destination VM, gateway's node, packets; `way`: the switches on the
    /// path from a VM to a gateway.
    fn program(
        &self,
        traffic: &[(u32, u32, u32, u64)],
        mut way: impl FnMut(u32, u32) -> Vec<u32>,
    ) -> Program {
        // Packets on the same path to the same VM are one demand.
        let mut demands: BTreeMap<(Vec<u32>, u32), u64> = BTreeMap::new();
        for &(source, destination, gateway, packets) in traffic {
            *demands.entry((way(source, gateway), destination)).or_default() += packets;
        }
        let mut program = Program { demands: demands.len(), ..Program::default() };
        let mut stores = HashMap::new();
        for (demand, ((way, vm), packets)) in demands.into_iter().enumerate() {
            let server = self.topology.placement[vm as usize];
            // A hop takes 1 µs, as in the paper, so the delay of the gateway is counted in µs.
            let delay = self.topology.gateway_delay_ns as f64 / 1e3;
            let Some(&last) = way.last() else { continue };
            let by_gateway = way.len() as f64 + delay + 1.0 + self.hops_left(last, server);
            for (index, &switch) in way.iter().enumerate() {
                if self.capacities[switch as usize] == 0 {
                    continue;
                }
                let by_switch = (index + 1) as f64 + self.hops_left(switch, server);
                let store = *stores.entry((switch, vm)).or_insert_with(|| {
                    program.stores.push((switch, vm));
                    program.stores.len() - 1
                });
                let saving = (by_gateway - by_switch) * packets as f64;
                program.uses.push(Use { demand, store, saving });
            }
        }
        let mut wanted: BTreeMap<u32, usize> = BTreeMap::new();
        for &(switch, _) in &program.stores {
            *wanted.entry(switch).or_default() += 1;
        }
        program.capacities = wanted
            .into_iter()
            .map(|(switch, wanted)| (switch, self.capacities[switch as usize], wanted))
            .filter(|&(_, capacity, wanted)| capacity < wanted)
            .map(|(switch, capacity, _)| (switch, capacity))
            .collect();
        program
    }

    /// Switches a packet passes after `switch` on its way to `server`.
    fn hops_left(&self, switch: u32, server: u32) -> f64 {
        let topology = &self.topology;
        let rack = server / topology.servers_per_rack;
        let pod = rack / topology.racks_per_pod;
        let (first_spine, first_tor) = (topology.cores, topology.cores + topology.spines());
        if switch < first_spine {
            2.0
        } else if switch < first_tor {
            let of_pod = (switch - first_spine) / topology.spines_per_pod;
            if of_pod == pod { 1.0 } else { 3.0 }
        } else if switch - first_tor == rack {
            0.0
        } else if (switch - first_tor) / topology.racks_per_pod == pod {
            2.0
        } else {
            4.0
        }
    }
}

#[cfg(test)]
mod tests;
