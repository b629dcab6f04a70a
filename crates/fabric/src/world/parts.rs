//! One run on two threads, with the results of a run on one: each simulates a domain of the fabric.
//!
//! What happens in one domain reaches the other no sooner than the delay of a link. In windows of
//! that length the domains are independent. Between two windows each takes the packets that the
//! other has sent to it. The order of events does not depend on who simulates what
//! ([`crate::domain`]).

mod gate;

use std::{
    cell::OnceCell,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{Run, Together, World};
use crate::{
    Error, Metrics, Placement, Progress, crossing::Sent, domain::Domain, scheme::resolver::Resolver,
};
use gate::Gate;

/// Number of threads that can simulate one run.
pub(crate) const PARTS: usize = 2;

/// A task that [`crate::Simulation::step_together`] hands out.
pub type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// What both parts know after a window.
#[derive(Debug, Clone, Copy, Default)]
struct Agreed {
    /// No event is before.
    next_ns: u64,
    events: u64,
}

/// What a part leaves for the other after a window.
#[derive(Debug, Default)]
struct Left {
    out: Sent,
    agreed: Agreed,
}

/// The end of a step.
#[derive(Debug, Clone, Copy)]
struct Goal {
    until_ns: u64,
    events: u64,
}

/// For each part, what it left; a part that is one window ahead writes to the other half.
type Exchange = [[Mutex<Left>; PARTS]; 2];

/// One part; what one thread changes is in no cache line of the other.
#[repr(align(128))]
struct Part<R> {
    me: usize,
    world: World<R>,
    turn: u64,
    agreed: Agreed,
}

/// Ends the waiting of the other part if this one fails or panics.
struct Watch<'a>(&'a Gate, bool);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.close();
        }
    }
}

impl<R: Resolver> Part<R> {
    /// Works until the goal is reached, at the same time as the other.
    fn work(&mut self, exchange: &Exchange, gate: &Gate, goal: Goal) -> Result<(), Error> {
        let mut watch = Watch(gate, false);
        let mut waits = 0;
        while self.window(exchange, goal)? {
            waits += 1;
            if gate.wait(PARTS, waits).is_err() {
                return Ok(());
            }
            self.take_in(exchange);
        }
        watch.1 = true;
        Ok(())
    }

    /// Simulates the next window. `false`: the goal is reached.
    fn window(&mut self, exchange: &Exchange, goal: Goal) -> Result<bool, Error> {
        let Agreed { next_ns, events } = self.agreed;
        if next_ns > goal.until_ns || events >= goal.events {
            return Ok(false);
        }
        self.turn += 1;
        let end_ns = next_ns.saturating_add(self.world.window_ns() - 1).min(goal.until_ns);
        self.world.advance_to(end_ns, u64::MAX)?;
        let mut left = lock(&exchange[self.turn as usize % 2][self.me]);
        let mut next_ns = self.world.next_ns();
        let out = &mut self.world.network.out;
        left.out.packets.clear();
        left.out.lost.clear();
        std::mem::swap(out, &mut left.out);
        for crossing in &left.out.packets {
            next_ns = next_ns.min(crossing.at_ns);
        }
        left.agreed = Agreed { next_ns, events: self.world.events() };
        Ok(true)
    }

    /// Takes the packets that the other part has sent in this window.
    fn take_in(&mut self, exchange: &Exchange) {
        let half = &exchange[self.turn as usize % 2];
        let own = lock(&half[self.me]).agreed;
        let mut left = lock(&half[1 - self.me]);
        self.agreed = Agreed {
            next_ns: own.next_ns.min(left.agreed.next_ns),
            events: own.events + left.agreed.events,
        };
        self.world.take_over(&mut left.out, self.agreed.next_ns);
    }
}

fn lock(left: &Mutex<Left>) -> MutexGuard<'_, Left> {
    left.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Parted<R> {
    parts: [Part<R>; PARTS],
    exchange: Exchange,
    finished: bool,
    /// The results so far, if they have been asked for since the last step.
    metrics: OnceCell<Metrics>,
}

impl<R: Resolver + Send> Parted<R> {
    /// `edge` and `middle` are the same run before its start.
    pub(crate) fn new(edge: World<R>, mut middle: World<R>) -> Self {
        middle.stay_in_the_middle();
        let part = |me, mut world: World<R>| {
            world.network.keep(if me == 0 { Domain::Edge } else { Domain::Middle });
            Part { me, world, turn: 0, agreed: Agreed::default() }
        };
        Self {
            parts: [part(0, edge), part(1, middle)],
            exchange: Default::default(),
            finished: false,
            metrics: OnceCell::new(),
        }
    }

    /// Both parts in turn, window by window.
    fn alternate(&mut self, goal: Goal) -> Result<(), Error> {
        loop {
            let mut more = false;
            for part in &mut self.parts {
                more |= part.window(&self.exchange, goal)?;
            }
            if !more {
                return Ok(());
            }
            self.parts.iter_mut().for_each(|part| part.take_in(&self.exchange));
        }
    }

    /// Both parts at the same time.
    fn together(&mut self, goal: Goal, execute: Together<'_>) -> Result<(), Error> {
        let (exchange, gate) = (&self.exchange, &Gate::default());
        let mut results: [Result<(), Error>; PARTS] = [Ok(()), Ok(())];
        let tasks = self.parts.iter_mut().zip(&mut results).map(|(part, result)| {
            let task = move || *result = part.work(exchange, gate, goal);
            Box::new(task) as Task<'_>
        });
        execute(tasks.collect());
        results.into_iter().collect()
    }

    /// Sent = delivered + dropped + in flight, of both parts together; and the edge keeps places
    /// only for packets that are in the middle.
    fn check_conservation(&self) -> Result<(), Error> {
        let [edge, middle] = self.parts.each_ref().map(|part| &part.world);
        let lent = edge.packets.lent();
        if lent > middle.packets.live() {
            return Err(edge.broken("lending", format!("{lent} packets are not in the middle")));
        }
        edge.conserved(edge.account() + middle.account())
    }

    fn merge(&self) -> Metrics {
        let [edge, middle] = self.parts.each_ref().map(|part| &part.world);
        let mut metrics = edge.results();
        metrics.add(&middle.results());
        if self.finished {
            metrics.finish(edge.is_udp());
        }
        metrics
    }
}

impl<R: Resolver + Send> Run for Parted<R> {
    fn step(
        &mut self,
        until_ns: u64,
        events_max: u64,
        execute: Option<Together<'_>>,
    ) -> Result<Progress, Error> {
        self.metrics.take();
        let end_ns = self.parts[0].world.end_ns();
        let until_ns = until_ns.min(end_ns);
        let events = self.parts[0].agreed.events.saturating_add(events_max);
        let goal = Goal { until_ns, events };
        match execute {
            Some(execute) => self.together(goal, execute)?,
            None => self.alternate(goal)?,
        }
        self.check_conservation()?;
        let agreed = self.parts[0].agreed;
        self.finished = until_ns == end_ns && agreed.next_ns > until_ns;
        let [edge, middle] = self.parts.each_ref().map(|part| &part.world);
        Ok(Progress {
            now_ns: edge.now_ns().max(middle.now_ns()),
            events: agreed.events,
            finished: self.finished,
            ..edge.progress()
        })
    }

    fn metrics(&self) -> &Metrics {
        self.metrics.get_or_init(|| self.merge())
    }

    fn place(&mut self, placements: &[Placement]) -> Result<(), Error> {
        self.parts.iter_mut().try_for_each(|part| Run::place(&mut part.world, placements))
    }

    fn take_traffic(&mut self) -> Vec<(u32, u32, u32, u64)> {
        let mut sums = std::collections::BTreeMap::new();
        for (from, to, gateway, packets) in
            self.parts.iter_mut().flat_map(|part| part.world.take_traffic())
        {
            *sums.entry((from, to, gateway)).or_insert(0) += packets;
        }
        let row = |((from, to, gateway), packets)| (from, to, gateway, packets);
        sums.into_iter().map(row).collect()
    }

    fn gateway_path(&mut self, source: u32, gateway: u32) -> Vec<u32> {
        self.parts[0].world.gateway_path(source, gateway)
    }
}
