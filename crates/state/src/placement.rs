//! State placement (AnnaBellaDB §II): computes which node should own which slot.
//!
//! The plan minimises the waiting time of all accesses per second: for every slot and host rate ×
//! delay, for writes also the delay to the node's replicas, and the cost of each move, spread over
//! the time in which it is expected to be recovered. Each node has a limit of bytes and of
//! accesses. The problem is a generalised assignment (the paper's own formulation is quadratic), so
//! this is a heuristic: slots are assigned in the order of the extra cost of their second choice,
//! then exchanged while that reduces the cost; if capacity is short, three orders are tried. The
//! tests compare it with all assignments of small problems, and with HiGHS.

use planner::{Order, Planner};

use crate::{Host, Node, accesses::Rate, delays::Matrix, slot::Slot};

mod planner;

/// One slot in use.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// The slot.
    pub slot: Slot,
    /// Its node now.
    pub owner: Node,
    /// Its memory at its node, in bytes.
    pub bytes: u64,
    /// Rates of the hosts that use it.
    pub accesses: Vec<(Host, Rate)>,
    /// It is not moved.
    pub pinned: bool,
}

/// Capacity of one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Maximum bytes of all its slots.
    pub bytes: u64,
    /// Maximum accesses per second.
    pub accesses: f64,
    /// Additional latency of a write there, until its replicas have it, in microseconds.
    pub replication_us: f32,
}

/// Cost of a move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MoveCost {
    /// Fixed cost of a move, in microseconds of waiting.
    pub fixed_us: f64,
    /// Cost per byte, in microseconds.
    pub per_byte_us: f64,
    /// Expected time for which the present use of a slot lasts, in seconds: the time in which the
    /// cost of a move must be recovered.
    pub dwell_s: f64,
}

impl MoveCost {
    /// Returns the cost of moving `bytes`, per second of the dwell time, in microseconds.
    #[must_use]
    pub fn a_second(&self, bytes: u64) -> f64 {
        (self.fixed_us + self.per_byte_us * bytes as f64) / self.dwell_s.max(f64::MIN_POSITIVE)
    }
}

/// Input of a plan.
#[derive(Debug)]
pub struct Problem<'a> {
    /// Delay of every host to every node.
    pub delays: &'a Matrix,
    /// Capacity of the nodes, by their number.
    pub nodes: &'a [Capacity],
    /// The slots.
    pub demands: &'a [Demand],
    /// The cost of a move.
    pub moving: MoveCost,
}

/// The planned node of each slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// A node for each demand, in their order.
    pub owners: Vec<Node>,
    /// Waiting time of all accesses if nothing moves, in microseconds per second; moves not
    /// included.
    pub before_us: f64,
    /// The same under the plan.
    pub after_us: f64,
    /// Indices of demands that fit on no node; they stay where they are.
    pub homeless: Vec<usize>,
}

/// Maximum slots × nodes for which other orders are tried: planning must not take long, and with
/// many slots a single one has little effect.
const ORDERS_PAIRS_MAX: usize = 1 << 20;
/// Maximum number of exchange passes over all slots.
const EXCHANGES: usize = 8;

impl Problem<'_> {
    /// Computes the waiting time of the accesses of `demand` at each node, in microseconds per
    /// second: infinite where a delay is not known. `costs` is overwritten.
    pub fn waits(&self, demand: &Demand, costs: &mut Vec<f32>) {
        costs.clear();
        costs.resize(self.nodes.len(), 0.0);
        let mut writes = 0.0;
        for &(host, rate) in &demand.accesses {
            let accesses = rate.accesses() as f32;
            writes += rate.writes as f32;
            for (cost, delay) in costs.iter_mut().zip(self.delays.from(host)) {
                *cost += accesses * delay;
            }
        }
        for (cost, node) in costs.iter_mut().zip(self.nodes) {
            *cost += writes * node.replication_us;
        }
    }

    /// Nodes with capacity that some host has measured.
    pub fn places(&self) -> impl Iterator<Item = Node> {
        let hosts = 0..self.delays.hosts();
        let nodes = self.nodes.iter().enumerate().map(|(node, room)| (Node(node as u16), room));
        nodes
            .filter(|(_, room)| room.bytes > 0 && room.accesses > 0.0)
            .map(|(node, _)| node)
            .filter(move |&node| {
                hosts.clone().any(|host| self.delays.between(Host(host as u16), node).is_finite())
            })
    }

    /// Returns their waiting time at one node.
    pub fn wait_at(&self, demand: &Demand, node: Node) -> f32 {
        let mut writes = 0.0;
        let mut wait = 0.0;
        for &(host, rate) in &demand.accesses {
            writes += rate.writes as f32;
            wait += rate.accesses() as f32 * self.delays.between(host, node);
        }
        wait + writes * self.nodes.get(node.index()).map_or(0.0, |node| node.replication_us)
    }

    /// The same including the cost of the move.
    fn prices(&self, demand: &Demand, costs: &mut Vec<f32>) {
        self.waits(demand, costs);
        let price = self.moving.a_second(demand.bytes) as f32;
        for (node, cost) in costs.iter_mut().enumerate() {
            if node != demand.owner.index() {
                *cost += price;
            }
        }
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let mut best: Option<Planner<'_>> = None;
        for order in [Order::Regret, Order::RegretByLoad, Order::RegretByBytes] {
            let mut planner = Planner::new(self, order);
            planner.place_all();
            for _ in 0..EXCHANGES {
                if !planner.exchange() {
                    break;
                }
            }
            let large = self.demands.len() * self.nodes.len() > ORDERS_PAIRS_MAX;
            let done = large || planner.is_wished();
            if best.as_ref().is_none_or(|best| planner.price() < best.price()) {
                best = Some(planner);
            }
            // No plan is better than one in which each slot has the place that it would have alone.
            if done {
                break;
            }
        }
        best.unwrap_or_else(|| Planner::new(self, Order::Regret)).finish()
    }
}

#[cfg(test)]
mod tests;
