//! The thread that keeps the process within its memory budget, and adjusts the budget: to the limit
//! of the cgroup, to a latency target, or to the grants of an orchestrator.

use std::{
    sync::atomic::Ordering::SeqCst,
    thread,
    time::{Duration, Instant},
};

use db::{
    budget::{self, Change},
    memory::MEMORY_BYTES_MIN,
};
use platform::{cgroup, memory::heap};
use tracing::{info, warn};

use super::{Shared, orchestrator::Orchestrator};

/// Interval at which requests are checked.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Interval of measurements of resident memory.
const MEASURE_PAUSE: Duration = Duration::from_millis(50);
/// Interval at which the heap returns free memory to the system.
const TRIM_PAUSE: Duration = Duration::from_secs(1);
/// Interval of controller steps.
const STEP_PAUSE: Duration = Duration::from_secs(5);

/// State of the thread.
pub(super) struct Budget<'s> {
    shared: &'s Shared,
    follow_percent: Option<u8>,
    orchestrator: Option<Orchestrator>,
    limit_bytes: Option<u64>,
    began: Instant,
    goal: budget::Budget,
    looked: Instant,
    stepped: Instant,
    trimmed: Instant,
    /// Memory to return to the orchestrator after the process has released it.
    to_give_back: Option<u64>,
}

impl<'s> Budget<'s> {
    pub(super) fn new(
        shared: &'s Shared,
        follow_percent: Option<u8>,
        orchestrator: Option<Orchestrator>,
    ) -> Self {
        Self {
            shared,
            follow_percent,
            orchestrator,
            limit_bytes: None,
            began: Instant::now(),
            goal: budget::Budget::new(&shared.lookups),
            looked: Instant::now(),
            stepped: Instant::now(),
            trimmed: Instant::now(),
            to_give_back: None,
        }
    }

    /// Manages the memory until the end.
    pub(super) fn run(mut self) {
        while !self.shared.is_ending() {
            self.measure();
            if self.looked.elapsed() >= LOOK_PAUSE {
                self.looked = Instant::now();
                self.look();
            }
            if self.stepped.elapsed() >= STEP_PAUSE {
                self.stepped = Instant::now();
                self.step();
            }
            thread::sleep(MEASURE_PAUSE);
        }
    }

    /// Carries out requests since the last check.
    fn look(&mut self) {
        if let Some(percent) = self.follow_percent {
            self.follow(percent);
        }
        match self.shared.server.parameters.memory_bytes_wanted.swap(0, SeqCst) {
            0 => {}
            bytes => self.change(bytes, "requested by a client"),
        }
        self.give_back();
    }

    /// Keeps the memory at `percent` of the cgroup's limit.
    fn follow(&mut self, percent: u8) {
        let limit_bytes = cgroup::limit();
        if limit_bytes != self.limit_bytes {
            match limit_bytes {
                Some(bytes) => {
                    let memory_bytes = bytes / 100 * u64::from(percent);
                    info!(
                        limit_bytes = bytes,
                        memory_bytes, "memory budget set from the limit of the cgroup"
                    );
                    self.shared.rescale(memory_bytes.max(MEMORY_BYTES_MIN));
                }
                None => warn!("the cgroup has no memory limit; the memory budget is unchanged"),
            }
            self.limit_bytes = limit_bytes;
        }
    }

    /// Makes one controller step towards the goal, if one is set.
    fn step(&mut self) {
        let Shared { server, lookups, locks, .. } = self.shared;
        let change = self.goal.step(server, lookups, &**locks, self.began.elapsed());
        if let Some(Change { bytes, reason }) = change {
            self.change(bytes, &reason);
        }
    }

    fn present(&self) -> u64 {
        self.shared.server.parameters.memory_bytes.load(SeqCst)
    }

    /// Changes the budget to `bytes`, or to the granted part of it.
    fn change(&mut self, bytes: u64, reason: &str) {
        let present = self.present();
        let bytes = match &self.orchestrator {
            Some(orchestrator) if bytes > present => {
                match orchestrator.ask(present, bytes, reason) {
                    Ok(granted) => granted.clamp(present, bytes),
                    Err(error) => {
                        warn!(
                            "the orchestrator granted no more memory; the budget stays at \
                             {present} bytes: {error:#}"
                        );
                        return;
                    }
                }
            }
            _ => bytes,
        };
        // A reduction is reported after the process has released the memory; an increase is granted
        // already.
        self.to_give_back = (self.orchestrator.is_some() && bytes < present).then_some(bytes);
        info!(memory_bytes = bytes, before_bytes = present, "rescale: {reason}");
        self.shared.rescale(bytes);
    }

    fn give_back(&mut self) {
        let (Some(bytes), Some(orchestrator)) = (self.to_give_back, &self.orchestrator) else {
            return;
        };
        let resident = self.shared.server.host.resident_bytes();
        if resident <= bytes {
            self.to_give_back = None;
            if let Err(error) = orchestrator.ask(bytes, bytes, "given back") {
                warn!("cannot report released memory to the orchestrator: {error:#}");
            }
        }
    }

    /// Keeps the resident memory of the whole process within the budget.
    fn measure(&mut self) {
        let shared = self.shared;
        let held = |index| shared.locks.hold(index).store.bytes_held() as u64;
        let shards: u64 = (0..shared.locks.len()).map(held).sum();
        let resident = shared.server.host.resident_bytes();
        if resident > self.present() && self.trimmed.elapsed() >= TRIM_PAUSE {
            self.trimmed = Instant::now();
            heap::trim();
        }
        let clients = shared.clients_bytes.load(SeqCst) as u64;
        if shared.overhead.measure(resident, shards, clients) {
            shared.share_out();
        }
    }
}
