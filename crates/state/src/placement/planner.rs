//! The heuristic: slots are assigned in the order of the extra cost of their second choice, then
//! exchanged while that reduces the cost.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::{Demand, Plan, Problem};
use crate::Node;

/// Number of choices kept per slot; after these all nodes are examined again.
const CHOICES: usize = 8;

/// Order of choice when capacity is short.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    /// The largest loss by the second choice.
    Regret,
    /// The largest loss per access per second.
    RegretByLoad,
    /// The largest loss per byte.
    RegretByBytes,
}

/// A node for a slot, and the waiting time there.
#[derive(Debug, Clone, Copy)]
struct Choice {
    node: usize,
    cost: f32,
}

/// A slot moves to `node`, and the slot that it displaces, if any, to another node.
struct Exchange {
    gain: f32,
    node: usize,
    other: Option<(usize, usize)>,
}

/// A slot that waits for its place; the one with the largest loss by waiting comes first.
struct Waiting {
    regret: f32,
    demand: usize,
    choice: Choice,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.regret.total_cmp(&other.regret).then(other.demand.cmp(&self.demand))
    }
}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Waiting {}

pub(super) struct Planner<'p> {
    problem: &'p Problem<'p>,
    order: Order,
    bytes_left: Vec<i128>,
    accesses_left: Vec<f64>,
    /// Accesses per second of each demand.
    loads: Vec<f64>,
    owners: Vec<Option<usize>>,
    /// The cheapest choices of each demand, cheapest first.
    choices: Vec<Vec<Choice>>,
    costs: Vec<f32>,
}

impl<'p> Planner<'p> {
    pub(super) fn new(problem: &'p Problem<'p>, order: Order) -> Self {
        let load = |demand: &Demand| demand.accesses.iter().map(|(_, rate)| rate.accesses()).sum();
        Self {
            problem,
            order,
            bytes_left: problem.nodes.iter().map(|node| i128::from(node.bytes)).collect(),
            accesses_left: problem.nodes.iter().map(|node| node.accesses).collect(),
            loads: problem.demands.iter().map(load).collect(),
            owners: vec![None; problem.demands.len()],
            choices: Vec::with_capacity(problem.demands.len()),
            costs: Vec::new(),
        }
    }

    pub(super) fn place_all(&mut self) {
        let mut waiting = BinaryHeap::new();
        for (number, demand) in self.problem.demands.iter().enumerate() {
            let mut choices = if demand.pinned { Vec::new() } else { self.cheapest(demand) };
            // If no cost is known, the slot stays where it is.
            if choices.iter().all(|choice| !choice.cost.is_finite()) {
                choices = vec![Choice { node: demand.owner.index(), cost: 0.0 }];
                self.occupy(number, demand.owner.index());
            }
            self.choices.push(choices);
        }
        for number in 0..self.problem.demands.len() {
            if self.owners[number].is_none() {
                waiting.extend(self.next(number));
            }
        }
        while let Some(Waiting { demand, choice, .. }) = waiting.pop() {
            if self.has_room(demand, choice.node) {
                self.occupy(demand, choice.node);
            } else {
                waiting.extend(self.next(demand));
            }
        }
    }

    /// The cheapest nodes for a demand, [`CHOICES`] at most.
    fn cheapest(&mut self, demand: &Demand) -> Vec<Choice> {
        self.problem.prices(demand, &mut self.costs);
        let mut choices: Vec<Choice> = Vec::with_capacity(CHOICES + 1);
        let mut limit = f32::INFINITY;
        for (node, &cost) in self.costs.iter().enumerate() {
            // Most nodes cost more than those found before.
            if choices.len() == CHOICES && cost >= limit {
                continue;
            }
            let at = choices.partition_point(|choice| choice.cost <= cost);
            choices.insert(at, Choice { node, cost });
            choices.truncate(CHOICES);
            limit = choices.last().map_or(f32::INFINITY, |choice| choice.cost);
        }
        choices
    }

    /// All nodes for a demand, cheapest first.
    fn by_cost(&mut self, demand: &Demand) -> Vec<Choice> {
        self.problem.prices(demand, &mut self.costs);
        let costs = self.costs.iter().enumerate();
        let mut choices: Vec<Choice> = costs.map(|(node, &cost)| Choice { node, cost }).collect();
        choices.sort_unstable_by(|a, b| a.cost.total_cmp(&b.cost).then(a.node.cmp(&b.node)));
        choices
    }

    /// The cheapest node with capacity for a demand, and the extra cost of the next one.
    fn next(&mut self, number: usize) -> Option<Waiting> {
        let fits = |planner: &Self, choices: &[Choice]| {
            let mut with_room = choices
                .iter()
                .copied()
                .filter(|choice| choice.cost.is_finite() && planner.has_room(number, choice.node));
            (with_room.next(), with_room.next())
        };
        let (first, second) = match fits(self, &self.choices[number]) {
            (Some(first), Some(second)) => (Some(first), Some(second)),
            _ => {
                let all = self.by_cost(&self.problem.demands[number]);
                fits(self, &all)
            }
        };
        let choice = first?;
        let brings = match self.order {
            Order::Regret => 1.0,
            Order::RegretByLoad => self.loads[number] as f32,
            Order::RegretByBytes => self.problem.demands[number].bytes as f32,
        };
        let regret = second.map_or(f32::INFINITY, |second| second.cost - choice.cost);
        let regret = regret / brings.max(f32::MIN_POSITIVE);
        Some(Waiting { regret, demand: number, choice })
    }

    /// Moves slots that would wait less elsewhere, or exchanges them with slots that lose less,
    /// each where it gains most; returns whether any moved.
    pub(super) fn exchange(&mut self) -> bool {
        let mut residents: Vec<Vec<usize>> = vec![Vec::new(); self.problem.nodes.len()];
        for (number, owner) in self.owners.iter().enumerate() {
            if let Some(node) = owner
                && !self.problem.demands[number].pinned
            {
                residents[*node].push(number);
            }
        }
        let mut changed = false;
        for number in 0..self.owners.len() {
            let Some(now) = self.owners[number] else { continue };
            if self.problem.demands[number].pinned {
                continue;
            }
            let here = self.cost_at(number, now);
            let mut best: Option<Exchange> = None;
            for at in 0..self.choices[number].len() {
                let Choice { node, cost } = self.choices[number][at];
                if cost >= here {
                    break;
                }
                let mut consider = |exchange: Exchange| {
                    if exchange.gain > best.as_ref().map_or(0.0, |best| best.gain) {
                        best = Some(exchange);
                    }
                };
                if self.has_room(number, node) {
                    consider(Exchange { gain: here - cost, node, other: None });
                    continue;
                }
                for &other in &residents[node] {
                    if self.owners[other] == Some(node)
                        && let Some(to) = self.displaced(number, other)
                    {
                        let loss = to.cost - self.cost_at(other, node);
                        let other = Some((other, to.node));
                        consider(Exchange { gain: here - cost - loss, node, other });
                    }
                }
            }
            if let Some(Exchange { node, other, .. }) = best {
                self.leave(number);
                if let Some((other, to)) = other {
                    self.leave(other);
                    self.occupy(other, to);
                }
                self.occupy(number, node);
                changed = true;
            }
        }
        changed
    }

    /// Returns the place of `other` if `number` took its place.
    fn displaced(&mut self, number: usize, other: usize) -> Option<Choice> {
        let (node, home) = (self.owners[other]?, self.owners[number]?);
        self.leave(number);
        self.leave(other);
        let there = Choice { node: home, cost: self.cost_at(other, home) };
        let to = self.choices[other]
            .iter()
            .copied()
            .chain([there])
            .filter(|choice| choice.node != node && self.has_room(other, choice.node))
            .min_by(|a, b| a.cost.total_cmp(&b.cost))
            .filter(|_| self.has_room(number, node));
        self.occupy(number, home);
        self.occupy(other, node);
        to
    }

    fn cost_at(&self, number: usize, node: usize) -> f32 {
        if let Some(choice) = self.choices[number].iter().find(|choice| choice.node == node) {
            return choice.cost;
        }
        let demand = &self.problem.demands[number];
        let price = self.problem.moving.a_second(demand.bytes) as f32;
        let price = if node == demand.owner.index() { 0.0 } else { price };
        self.problem.wait_at(demand, Node(node as u16)) + price
    }

    /// Whether every slot is at the node with its shortest wait, or pinned.
    pub(super) fn is_wished(&self) -> bool {
        let wished = |(owner, choices): (&Option<usize>, &Vec<Choice>)| {
            owner.is_some() && *owner == choices.first().map(|choice| choice.node)
        };
        self.owners.iter().zip(&self.choices).all(wished)
    }

    /// Returns the cost of all slots at their places; one without a place costs more than all
    /// others.
    pub(super) fn price(&self) -> f64 {
        let of = |(number, owner): (usize, &Option<usize>)| {
            owner.map_or(f64::from(f32::MAX), |node| f64::from(self.cost_at(number, node)))
        };
        self.owners.iter().enumerate().map(of).sum()
    }

    fn has_room(&self, number: usize, node: usize) -> bool {
        self.bytes_left[node] >= i128::from(self.problem.demands[number].bytes)
            && self.accesses_left[node] >= self.loads[number]
    }

    fn occupy(&mut self, number: usize, node: usize) {
        self.bytes_left[node] -= i128::from(self.problem.demands[number].bytes);
        self.accesses_left[node] -= self.loads[number];
        self.owners[number] = Some(node);
    }

    fn leave(&mut self, number: usize) {
        if let Some(node) = self.owners[number].take() {
            self.bytes_left[node] += i128::from(self.problem.demands[number].bytes);
            self.accesses_left[node] += self.loads[number];
        }
    }

    pub(super) fn finish(self) -> Plan {
        let mut plan =
            Plan { owners: Vec::new(), before_us: 0.0, after_us: 0.0, homeless: Vec::new() };
        for (number, demand) in self.problem.demands.iter().enumerate() {
            let owner = self.owners[number].map_or_else(
                || {
                    plan.homeless.push(number);
                    demand.owner
                },
                |owner| Node(owner as u16),
            );
            let before = self.problem.wait_at(demand, demand.owner);
            let after = self.problem.wait_at(demand, owner);
            // Unknown values count on neither side.
            if before.is_finite() && after.is_finite() {
                plan.before_us += f64::from(before);
                plan.after_us += f64::from(after);
            }
            plan.owners.push(owner);
        }
        plan
    }
}
