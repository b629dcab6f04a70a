//! The goal `load`: what is measured, and what the status says.

use std::{cmp::Ordering, time::Duration};

use super::{Config, EXPLAINED_MAX, Goal, Placer};
use crate::{
    Node,
    balance::{self, Balancer, Load, Loads, Unit},
    moves::Move,
    report::TAG,
    slot::Slot,
    view::View,
};

/// The limits of `config` apply where they are stricter than those of the goal.
pub(super) fn balancer(config: &Config) -> Balancer {
    let default = balance::Config::default();
    Balancer::new(balance::Config {
        cool_down: default.cool_down.max(config.initiator.cool_down),
        moves_max: default.moves_max.min(config.initiator.moves_max),
        ..default
    })
}

impl Placer {
    /// Whether nodes are to be asked for the use of all their slots.
    #[must_use]
    pub fn needs_slots(&self) -> bool {
        self.config.goal == Goal::Load
    }

    /// Plans moves that even out load, after each count.
    pub(super) fn balance(&mut self, view: &View, now: Duration) {
        if !std::mem::take(&mut self.counted) {
            return;
        }
        let measured = self.meter.counts_at(view.primaries().map(|(node, _)| node));
        let (unit, rates): (_, Vec<(Slot, f64)>) = if measured {
            (Unit::Processor, self.meter.rates().collect())
        } else {
            let sum =
                |slot| self.accesses.of(slot, now).iter().map(|(_, rate)| rate.accesses()).sum();
            (Unit::Accesses, self.accesses.slots().map(|slot| (slot, sum(slot))).collect())
        };
        let ours = Slot::of(TAG.as_bytes());
        let load = |(slot, load)| {
            let pinned = slot == ours || self.config.pins.contains(&slot);
            let (owner, bytes) = (view.owner(slot)?, self.census.bytes(slot));
            Some(Load { slot, owner, load, bytes, pinned })
        };
        let slots = rates.into_iter().filter_map(load).collect();
        let loads = Loads { unit, slots, rooms: self.census.rooms(view, &self.config) };
        self.balancer.review(&loads, now);
    }

    /// Puts the load of nodes, and the place of every busy slot, into the status.
    pub(super) fn explain_loads(&mut self, view: &View, now: Duration) {
        let name = |node: Node| {
            view.member(node).map_or_else(|_| "?".to_owned(), |member| member.address.to_string())
        };
        self.status.load = self.balancer.summary(name);
        let mut busiest: Vec<(Slot, f64)> = self.balancer.loads().collect();
        self.status.slots_in_use = busiest.len();
        busiest.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal));
        busiest.truncate(EXPLAINED_MAX);
        for (slot, _) in busiest {
            let why = self.balancer.why(slot, name, now).unwrap_or_default();
            self.tell_why(slot, why.join("\n"));
        }
    }

    /// Describes a move, and why it is made.
    #[must_use]
    pub fn line(&self, view: &View, one: Move) -> String {
        let line = view.line(one);
        match self.balancer.reason(one.slot).filter(|_| self.config.goal == Goal::Load) {
            Some(reason) => format!("{line}: {reason}"),
            None => line,
        }
    }
}
