//! A grid of runs: every combination of what an experiment file lists, on all cores.
//!
//! Each finished run is on the disk before the next begins. A sweep that was stopped or killed
//! resumes from there; a completed one does nothing. Completed runs are identified by their inputs,
//! so a changed file runs only what it adds.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use ::fabric::Scheme;
use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use serde_json::json;
use toml::Spanned;

use super::{
    experiment::{self, Cost, Experiment},
    memory,
    mistake::{Mistake, Place, Syntax},
    results::{self, Journal, Record},
    setting::{self, Setting, Source},
};

/// Maximum number of runs of one sweep.
const RUNS_MAX: usize = 100_000;

/// An experiment file: lists of which every combination is run. Fields with a default are optional.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schemes: Vec<Spanned<String>>,
    #[serde(default = "ft8")]
    topologies: Vec<Spanned<String>>,
    /// Trace files, or names of workloads to draw.
    traces: Vec<Spanned<String>>,
    #[serde(default = "half")]
    caches: Vec<Spanned<String>>,
    #[serde(default = "paper")]
    models: Vec<Spanned<String>>,
    /// Sets of quirks that differ from the model, one set for each run.
    #[serde(default = "none")]
    quirks: Vec<Spanned<BTreeMap<String, bool>>>,
    #[serde(default = "one")]
    seeds: Vec<u64>,
    #[serde(default = "tcp")]
    protocol: String,
    #[serde(default = "cubic")]
    transport: String,
    #[serde(default)]
    migrations: Vec<String>,
    #[serde(default = "whole")]
    share: f64,
    learn_probability: Option<f64>,
    #[serde(default = "every")]
    controller_interval_us: Vec<f64>,
}

fn ft8() -> Vec<Spanned<String>> {
    vec![Spanned::new(0..0, "ft8-10k".to_owned())]
}
fn half() -> Vec<Spanned<String>> {
    vec![Spanned::new(0..0, "50%".to_owned())]
}
fn paper() -> Vec<Spanned<String>> {
    vec![Spanned::new(0..0, "paper".to_owned())]
}
fn none() -> Vec<Spanned<BTreeMap<String, bool>>> {
    vec![Spanned::new(0..0, BTreeMap::new())]
}
fn one() -> Vec<u64> {
    vec![1]
}
fn tcp() -> String {
    "tcp".to_owned()
}
fn cubic() -> String {
    "cubic".to_owned()
}
fn whole() -> f64 {
    1.0
}
fn every() -> Vec<f64> {
    vec![setting::CONTROLLER_INTERVAL_US]
}

/// A sweep, checked and loaded.
#[derive(Debug)]
pub struct Sweep {
    /// The runs, in the order of the grid, without duplicates.
    pub experiments: Vec<Experiment>,
    directory: PathBuf,
}

/// Summary of a sweep that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Results of its runs, in the order of the grid; without those left.
    pub records: Vec<Record>,
    /// Number of runs completed before, and now.
    pub before: usize,
    /// See `before`.
    pub now: usize,
    /// Number of runs left after a stop.
    pub left: usize,
}

impl Sweep {
    /// Reads an experiment file and everything it names. Results are written to `directory`.
    ///
    /// # Errors
    ///
    /// File, line and what was expected, of the experiment file or of a trace or topology it names.
    pub fn read(path: &Path, directory: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let base = path.parent().unwrap_or(Path::new("."));
        let place = |span| format!("{name}:{}", notation::place(&text, span));
        Self::parse(&text, base, directory, place)
    }

    /// The same of the text of an experiment file. Names in it are relative to `base`; `place`
    /// names a position in it.
    ///
    /// # Errors
    ///
    /// As [`Sweep::read`].
    pub fn parse(
        text: &str,
        base: &Path,
        directory: &Path,
        place: impl Fn(Option<Range<usize>>) -> String,
    ) -> anyhow::Result<Self> {
        let document: Document =
            toml::from_str(text).map_err(|error| Syntax::new(&error, &place))?;
        let experiments = document
            .experiments(base)
            .map_err(|(span, error)| error.context(Place(place(Some(span)))))?;
        if experiments.is_empty() {
            let mistake = Mistake::new("lists", "at least one value in each", "an empty list");
            bail!(mistake.at(place(None)));
        }
        Ok(Self { experiments, directory: directory.to_owned() })
    }

    /// Executes the remaining runs, `jobs` at a time, until `stop` is set. Reports progress to
    /// `watch`, on this thread: the finished runs, those to do, and the completed share of them.
    ///
    /// # Errors
    ///
    /// The first run that failed; completed runs are kept.
    pub fn run(
        &self,
        jobs: usize,
        stop: &AtomicBool,
        watch: impl FnMut(usize, usize, f64),
    ) -> anyhow::Result<Ended> {
        let directory = &self.directory;
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let lock = File::create(directory.join("lock")).context("cannot lock the results")?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .with_context(|| {
                format!(
                    "another sweep writes to {}; wait for it, or use another --output",
                    directory.display()
                )
            })?;
        let (json, csv) = (directory.join("results.jsonl"), directory.join("results.csv"));
        let (journal, done) = Journal::open(&json)?;
        let is_done =
            |experiment: &&Experiment| done.iter().any(|each| each.inputs == experiment.inputs);
        let todo: Vec<&Experiment> =
            self.experiments.iter().filter(|experiment| !is_done(experiment)).collect();
        memory::check(todo.iter().copied(), jobs)?;
        let before = self.experiments.len() - todo.len();
        let costs =
            OpenOptions::new().create(true).append(true).open(directory.join("costs.jsonl"));
        let work = Work {
            todo: &todo,
            next: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            shares: todo.iter().map(|_| AtomicUsize::new(0)).collect(),
            written: Mutex::new((journal, costs.context("cannot write costs.jsonl")?)),
            failed: Mutex::new(None),
            stop,
        };
        work.all(jobs, watch);
        let failed = work.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = failed {
            return Err(error);
        }
        let now = work.finished.into_inner();
        drop(work.written);
        let (_, records) = Journal::open(&json)?;
        // In the order of the grid, regardless of completion order; runs of other sweeps last.
        let mut sorted: Vec<&Record> = Vec::new();
        for experiment in &self.experiments {
            sorted.extend(records.iter().find(|record| record.inputs == experiment.inputs));
        }
        let ours: Vec<Record> = sorted.iter().copied().cloned().collect();
        let others = records.iter().filter(|record| {
            !self.experiments.iter().any(|experiment| experiment.inputs == record.inputs)
        });
        sorted.extend(others);
        results::write_all(&sorted, &json, &csv)?;
        Ok(Ended { before, now, left: self.experiments.len() - ours.len(), records: ours })
    }
}

/// State shared by the threads of a sweep.
struct Work<'a> {
    todo: &'a [&'a Experiment],
    next: AtomicUsize,
    finished: AtomicUsize,
    /// Progress of each run, in thousandths.
    shares: Vec<AtomicUsize>,
    written: Mutex<(Journal, File)>,
    failed: Mutex<Option<anyhow::Error>>,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    fn all(&self, jobs: usize, mut watch: impl FnMut(usize, usize, f64)) {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs.clamp(1, self.todo.len().max(1)))
                .map(|_| scope.spawn(|| self.one_after_another()))
                .collect();
            while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                thread::park_timeout(experiment::LOOK_INTERVAL);
                watch(self.finished.load(Relaxed), self.todo.len(), self.share());
            }
        });
    }

    fn one_after_another(&self) {
        while !self.stop.load(Relaxed) {
            let index = self.next.fetch_add(1, Relaxed);
            let Some(experiment) = self.todo.get(index) else { return };
            if let Err(error) = self.run(index, experiment) {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
                self.stop.store(true, Relaxed);
            }
        }
    }

    fn run(&self, index: usize, experiment: &Experiment) -> anyhow::Result<()> {
        let flows = experiment.workload.flows.len().max(1);
        let share = &self.shares[index];
        let outcome = experiment.run(self.stop, |progress| {
            share.store((progress.flows_started as usize * 1_000 / flows).min(999), Relaxed);
        })?;
        let Some(outcome) = outcome else { return Ok(()) };
        let record = Record::new(experiment, &outcome);
        let mut written = self.written.lock().map_err(|_| anyhow!("a thread panicked"))?;
        written.0.add(&record).context("cannot write a result")?;
        writeln!(written.1, "{}", cost(&record, outcome.cost)).context("cannot write a cost")?;
        share.store(1_000, Relaxed);
        self.finished.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Completed share of all runs.
    fn share(&self) -> f64 {
        let thousandths: usize = self.shares.iter().map(|share| share.load(Relaxed)).sum();
        thousandths as f64 / 1_000.0 / self.shares.len().max(1) as f64
    }
}

fn cost(record: &Record, cost: Cost) -> serde_json::Value {
    let inputs = &record.inputs;
    json!({
        "scheme": inputs.scheme, "topology": inputs.topology, "trace": inputs.trace,
        "cache": inputs.cache, "model": inputs.model, "seed": inputs.seed,
        "packets": record.results.packets_sent, "cpu_s": cost.cpu_s, "wall_s": cost.wall_s,
        "packets_per_cpu_s": cost.packets_per_cpu_s,
    })
}

impl Document {
    /// Every combination, without duplicates; or the mistake and its position.
    fn experiments(&self, base: &Path) -> Result<Vec<Experiment>, (Range<usize>, anyhow::Error)> {
        self.check_names()?;
        let mut experiments: Vec<Experiment> = Vec::new();
        for topology in &self.topologies {
            let at = |error| (topology.span(), error);
            let topology = Source::topology(topology.get_ref(), base).map_err(at)?;
            for trace in &self.traces {
                let at = |error| (trace.span(), error);
                for &seed in &self.seeds {
                    let source = Source::trace(
                        topology.clone(),
                        trace.get_ref(),
                        base,
                        &self.protocol,
                        self.share,
                        seed,
                    )
                    .map_err(at)?;
                    for setting in self.settings(seed) {
                        let experiment = setting.experiment(&source).map_err(at)?;
                        if !experiments.iter().any(|each| each.inputs == experiment.inputs) {
                            experiments.push(experiment);
                        }
                        if experiments.len() > RUNS_MAX {
                            let error = anyhow!("expected at most {RUNS_MAX} runs, got more");
                            return Err(at(error));
                        }
                    }
                }
            }
        }
        Ok(experiments)
    }

    /// Names that are invalid with any topology and trace.
    fn check_names(&self) -> Result<(), (Range<usize>, anyhow::Error)> {
        for scheme in &self.schemes {
            let known = scheme.get_ref().parse::<Scheme>();
            known.map_err(|error| (scheme.span(), error.into()))?;
        }
        for model in &self.models {
            let known = experiment::model(model.get_ref(), &BTreeMap::new());
            known.map_err(|error| (model.span(), error))?;
        }
        for quirks in &self.quirks {
            let known = experiment::model("paper", quirks.get_ref());
            known.map_err(|error| (quirks.span(), error))?;
        }
        for cache in &self.caches {
            setting::entries(cache.get_ref(), 1).map_err(|error| (cache.span(), error))?;
        }
        Ok(())
    }

    fn settings(&self, seed: u64) -> Vec<Setting> {
        let mut settings = Vec::new();
        for scheme in &self.schemes {
            for cache in &self.caches {
                for model in &self.models {
                    for quirks in &self.quirks {
                        for &controller_interval_us in &self.controller_interval_us {
                            settings.push(Setting {
                                scheme: scheme.get_ref().clone(),
                                cache: cache.get_ref().clone(),
                                model: model.get_ref().clone(),
                                quirks: quirks.get_ref().clone(),
                                transport: self.transport.clone(),
                                migrations: self.migrations.clone(),
                                learn_probability: self.learn_probability,
                                controller_interval_us,
                                seed,
                            });
                        }
                    }
                }
            }
        }
        settings
    }
}
