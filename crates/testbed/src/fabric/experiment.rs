//! One run: its inputs, progress, cancellation and result.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use ::fabric::{
    Config, Metrics, Model, Progress, Scheme, Simulation, Task, topology::Topology,
    workload::Workload,
};
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::{
    controller::{Controller, Solve},
    mistake::Mistake,
};
use crate::clock::processor_time;

/// Number of events between checks of the clock and of `stop`.
const EVENTS_PER_STEP: u64 = 200_000;

/// Interval of progress reports.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Inputs of a run, by name. Equal inputs give equal results, byte for byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// The scheme that resolves virtual addresses.
    pub scheme: String,
    /// The fabric's name or file.
    pub topology: String,
    /// The trace's file, or the workload's name.
    pub trace: String,
    /// Digest of the contents of topology and trace: a changed file under the same name is another
    /// run.
    pub digest: String,
    /// Cache memory as given: a share of all addresses, or a number of entries.
    pub cache: String,
    /// The same in entries of all switches together; 0 for a scheme without caches in switches.
    pub cache_entries: u64,
    /// `paper` or `published`.
    pub model: String,
    /// Quirks that differ from the model.
    pub quirks: BTreeMap<String, bool>,
    /// Transport protocol of the flows.
    pub transport: String,
    /// VMs that move.
    pub migrations: Vec<String>,
    /// Probability of a learning packet, for each packet that a gateway ToR sees.
    pub learn_probability: f64,
    /// Interval of the controller, in µs of simulated time; 0 without a controller.
    pub controller_interval_us: f64,
    /// Seed of the run.
    pub seed: u64,
}

/// A run, ready to start.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its inputs, by name.
    pub inputs: Inputs,
    /// The same for the simulator.
    pub config: Config,
    /// The scheme.
    pub scheme: Scheme,
    /// The fabric.
    pub topology: Arc<Topology>,
    /// The traffic of its VMs.
    pub workload: Arc<Workload>,
}

/// Results and cost of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Results: the same on any machine.
    pub metrics: Metrics,
    /// The controller's solves, in order.
    pub solves: Vec<Solve>,
    /// Cost: different on each run.
    pub cost: Cost,
}

/// Cost of a run.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cost {
    /// Processor time of all threads in seconds, including the construction of the simulation.
    pub cpu_s: f64,
    /// Elapsed time in seconds.
    pub wall_s: f64,
    /// Packets sent by hosts, per second of `cpu_s`.
    pub packets_per_cpu_s: f64,
    /// Packets at switches, per second of `cpu_s`.
    pub packet_hops_per_cpu_s: f64,
}

/// The model of this name.
///
/// # Errors
///
/// The error lists the valid names.
pub fn model(name: &str, quirks: &BTreeMap<String, bool>) -> anyhow::Result<Model> {
    let mut model = match name {
        "paper" => Model::paper(),
        "published" => Model::published(),
        _ => bail!(Mistake::new("model", "paper or published", name)),
    };
    for (quirk, &value) in quirks {
        match model.quirk_mut(quirk) {
            Some(place) => *place = value,
            None => {
                let expected = format!("one of {}", Model::quirk_names().join(", "));
                bail!(Mistake::new("quirk", expected, quirk));
            }
        }
    }
    Ok(model)
}

/// Digest of the contents of a topology and a workload.
#[must_use]
pub fn digest(topology: &Topology, workload: &Workload) -> String {
    let mut digest = Digest(Xxh3::new());
    // It cannot fail: no file is written.
    let _ = writeln!(digest, "{topology:?}").and_then(|()| workload.write(&mut digest));
    format!("{:016x}", digest.0.digest())
}

/// A writer that computes a digest.
struct Digest(Xxh3);

impl Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Experiment {
    /// Makes it a run of several threads.
    ///
    /// # Errors
    ///
    /// Why it is not possible.
    pub fn divide(&mut self, threads: usize) -> anyhow::Result<()> {
        self.config.threads = threads;
        let flows = &self.workload.flows;
        Ok(Simulation::check(&self.config, &self.topology, flows, self.scheme)?)
    }

    /// Runs it and reports progress to `watch`, until the end or until `stop` is set (`None`).
    ///
    /// # Errors
    ///
    /// Inputs that do not fit together, or a violated invariant of the simulation, with the event.
    pub fn run(
        &self,
        stop: &AtomicBool,
        mut watch: impl FnMut(&Progress),
    ) -> anyhow::Result<Option<Outcome>> {
        let (began, cpu_began) = (Instant::now(), processor_time());
        let spent_elsewhere = Mutex::new(Duration::ZERO);
        let at_once = |tasks: Vec<Task<'_>>| run_at_once(tasks, &spent_elsewhere);
        let flows = self.workload.flows.clone();
        let (config, topology) = (&self.config, self.topology.as_ref());
        let name = || format!("{} on {}", self.inputs.scheme, self.inputs.trace);
        let mut simulation =
            Simulation::new(config, topology, flows, self.scheme, self.inputs.seed)
                .with_context(name)?;
        let mut controller = (self.scheme == Scheme::Controller)
            .then(|| Controller::new(topology, config, self.inputs.controller_interval_us));
        // Each step begins threads.
        let events_per_step =
            if config.threads == 1 { EVENTS_PER_STEP } else { 5 * EVENTS_PER_STEP };
        let mut events = 0;
        loop {
            let until_ns = controller.as_ref().map_or(u64::MAX, Controller::next_ns);
            let progress =
                simulation.step_together(until_ns, events_per_step, &at_once).with_context(name)?;
            watch(&progress);
            if progress.finished {
                break;
            }
            if stop.load(Relaxed) {
                return Ok(None);
            }
            let done = progress.events - events < events_per_step;
            events = progress.events;
            if let Some(controller) = controller.as_mut().filter(|_| done) {
                controller.step(&mut simulation, until_ns).with_context(name)?;
            }
        }
        let metrics = simulation.metrics().clone();
        let elsewhere = spent_elsewhere.into_inner().unwrap_or_else(PoisonError::into_inner);
        let cpu_s = (processor_time() - cpu_began + elsewhere).as_secs_f64();
        let cost = Cost {
            cpu_s,
            wall_s: began.elapsed().as_secs_f64(),
            packets_per_cpu_s: metrics.sent as f64 / cpu_s,
            packet_hops_per_cpu_s: metrics.packet_hops_simulated as f64 / cpu_s,
        };
        let solves = controller.map(Controller::into_solves).unwrap_or_default();
        Ok(Some(Outcome { metrics, solves, cost }))
    }
}

/// Executes all tasks at the same time, the first in this thread. Adds the processor time of the
/// others to `spent_elsewhere`.
fn run_at_once(tasks: Vec<Task<'_>>, spent_elsewhere: &Mutex<Duration>) {
    let mut tasks = tasks.into_iter();
    let Some(first) = tasks.next() else { return };
    thread::scope(|scope| {
        for task in tasks {
            scope.spawn(|| {
                task();
                let mut spent = spent_elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
                *spent += processor_time();
            });
        }
        first();
    });
}

/// A progress bar, the completed share, and the estimated remaining time.
#[must_use]
pub fn progress_line(what: &str, share: f64, elapsed: Duration) -> String {
    const WIDTH: usize = 24;
    let full = ((share * WIDTH as f64) as usize).min(WIDTH);
    let bar = "#".repeat(full) + &".".repeat(WIDTH - full);
    let left = if share > 0.001 {
        let seconds = elapsed.as_secs_f64() * (1.0 - share) / share;
        format!("{}:{:02} left", seconds as u64 / 60, seconds as u64 % 60)
    } else {
        "remaining time unknown".to_owned()
    };
    format!("[{bar}] {:>3.0} %  {what}  {left}", share * 100.0)
}
