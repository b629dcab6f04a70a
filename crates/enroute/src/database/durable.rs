//! Durable position of every shard, and the workers that wait for it.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use store::elastic::Position;

use super::sync::{AtomicBool, AtomicU64};

/// Published by writing threads, and read by workers before they send answers.
pub(crate) struct Durable {
    shards: Box<[State]>,
    holding: Box<[Holding]>,
}

struct State {
    up_to: AtomicU64,
    failed: AtomicBool,
}

/// Set while a worker holds answers back. In its own cache line, because it changes with every
/// round.
#[repr(align(64))]
struct Holding(AtomicBool);

impl Durable {
    pub(crate) fn new(shards: usize, workers: usize) -> Self {
        let state = |_| State { up_to: AtomicU64::new(0), failed: AtomicBool::new(false) };
        Self {
            shards: (0..shards).map(state).collect(),
            holding: (0..workers).map(|_| Holding(AtomicBool::new(false))).collect(),
        }
    }

    /// Publishes the durable position of a locked shard, and whether its disk has failed.
    pub(crate) fn publish(&self, shard: usize, up_to: Position, failed: bool) {
        self.shards[shard].up_to.store(up_to.0, SeqCst);
        self.shards[shard].failed.store(failed, SeqCst);
    }

    /// Whether writes up to `position` of a shard are durable.
    pub(crate) fn is_durable(&self, shard: usize, position: Position) -> bool {
        self.shards[shard].up_to.load(SeqCst) >= position.0
    }

    /// Whether a write or sync of a shard failed.
    pub(crate) fn has_failed(&self, shard: usize) -> bool {
        self.shards[shard].failed.load(SeqCst)
    }

    /// Registers whether a worker holds answers back. It does so before it reads the durable
    /// position, so that it is woken for later changes.
    pub(crate) fn hold(&self, worker: usize, holds: bool) {
        let holding = &self.holding[worker].0;
        if holding.load(Relaxed) != holds {
            holding.store(holds, SeqCst);
        }
    }

    /// The workers to be woken after [`Durable::publish`].
    pub(crate) fn holders(&self) -> impl Iterator<Item = usize> {
        (0..self.holding.len()).filter(|&worker| self.holding[worker].0.load(SeqCst))
    }
}
