//! # fabric-python: the fabric simulator as a Python module
//!
//! The native part of the package `enroute_fabric`: it passes options to `testbed::fabric`, which
//! `enroute fabric` calls as well, and results back as JSON.
//!
//! It is not a second simulator: it has no defaults, no checks and no experiments of its own.
//! Nothing in this repository imports it; `maturin` builds a wheel of it (`packaging/build.sh`).
//!
//! Read first: `python/enroute_fabric/__init__.py`, the interface for users; then [`run`].
//!
//! | module | what it is |
//! |---|---|
//! | `raised` | errors as exceptions of Python |

#![deny(unsafe_code)]

use std::{
    collections::BTreeMap,
    iter,
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use pyo3::prelude::*;
use testbed::fabric::{
    memory,
    mistake::Mistake,
    results::Record,
    setting::{self, Setting},
    sweep::Sweep,
};

mod raised;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{raised::InputError, run, sweep_file, sweep_lists};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}

/// Items of a dict with these names.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    trace: String,
    scheme: String,
    topology: String,
    cache: String,
    model: String,
    quirks: BTreeMap<String, bool>,
    protocol: String,
    transport: String,
    migrations: Vec<String>,
    learn_probability: Option<f64>,
    controller_interval_us: f64,
    share: f64,
    /// A number of Python has no size.
    seed: String,
}

impl TryFrom<Options> for setting::Options {
    type Error = Mistake;

    fn try_from(options: Options) -> Result<Self, Mistake> {
        let seed = options.seed.parse().map_err(|_| {
            Mistake::new("seed", format!("a number from 0 to {}", u64::MAX), &options.seed)
        })?;
        let setting = Setting {
            scheme: options.scheme,
            cache: options.cache,
            model: options.model,
            quirks: options.quirks,
            transport: options.transport,
            migrations: options.migrations,
            learn_probability: options.learn_probability,
            controller_interval_us: options.controller_interval_us,
            seed,
        };
        let Options { topology, trace, protocol, share, .. } = options;
        Ok(Self { topology, trace, protocol, share, setting })
    }
}

/// A run's line of JSON, and its row of a table as JSON.
type Texts = (String, String);

/// Executes one run without the interpreter's lock. Returns the texts of its result, and its cost
/// as JSON.
#[pyfunction]
fn run(py: Python<'_>, options: Options) -> PyResult<(Texts, String)> {
    let mut signals = Signals::default();
    let ended = py.detach(|| {
        let experiment = setting::Options::try_from(options)?.experiment()?;
        memory::check(iter::once(&experiment), 1)?;
        let Signals { stop, raised } = &mut signals;
        let outcome = experiment.run(stop, |_| look(stop, raised))?;
        outcome
            .map(|outcome| {
                let cost = serde_json::to_string(&outcome.cost)?;
                Ok((texts(&Record::new(&experiment, &outcome))?, cost))
            })
            .transpose()
    });
    signals.result(py, ended.and_then(|ended| ended.ok_or_else(|| anyhow::anyhow!("stopped"))))
}

/// Runs of a sweep: completed before and now, and the texts of all results, in the order of the
/// grid.
type Swept = (usize, usize, Vec<Texts>);

/// Executes the remaining runs of an experiment file; results are written to `output`.
#[pyfunction]
fn sweep_file(
    py: Python<'_>,
    file: PathBuf,
    output: Option<PathBuf>,
    jobs: Option<usize>,
) -> PyResult<Swept> {
    let output = output.unwrap_or_else(|| file.with_extension("results"));
    execute(py, jobs, move || Sweep::read(&file, &output))
}

/// The same of the text of an experiment file with one key on each line.
#[pyfunction]
fn sweep_lists(
    py: Python<'_>,
    text: String,
    output: PathBuf,
    jobs: Option<usize>,
) -> PyResult<Swept> {
    execute(py, jobs, move || Sweep::parse(&text, Path::new(""), &output, |span| key(&text, span)))
}

fn execute(
    py: Python<'_>,
    jobs: Option<usize>,
    read: impl FnOnce() -> anyhow::Result<Sweep> + Send,
) -> PyResult<Swept> {
    let mut signals = Signals::default();
    let ended = py.detach(|| {
        let jobs = match jobs {
            Some(0) => anyhow::bail!(Mistake::new("jobs", "at least 1", 0)),
            Some(jobs) => jobs,
            None => thread::available_parallelism()?.get(),
        };
        let Signals { stop, raised } = &mut signals;
        let ended = read()?.run(jobs, stop, |_, _, _| look(stop, raised))?;
        let records = ended.records.iter().map(texts).collect::<anyhow::Result<_>>()?;
        Ok((ended.before, ended.now, records))
    });
    signals.result(py, ended)
}

fn texts(record: &Record) -> anyhow::Result<Texts> {
    Ok((serde_json::to_string(record)?, serde_json::to_string(&record.row())?))
}

/// The key on the line of a position; `experiment` for what is on no single line.
fn key(text: &str, span: Option<Range<usize>>) -> String {
    let line = span.filter(|span| !span.is_empty()).and_then(|span| {
        let first = text.get(..span.start)?.rfind('\n').map_or(0, |end| end + 1);
        let line = text.get(first..)?.lines().next()?;
        (span.end <= first + line.len()).then_some(line)
    });
    line.and_then(|line| line.split_once(" = ")).map_or("experiment", |(key, _)| key).to_owned()
}

/// Stops a run when a handler of a signal raises an exception, as that of Ctrl-C does.
#[derive(Default)]
struct Signals {
    stop: AtomicBool,
    raised: Option<PyErr>,
}

impl Signals {
    /// The result, or the exception that stopped it.
    fn result<T>(self, py: Python<'_>, ended: anyhow::Result<T>) -> PyResult<T> {
        match self.raised {
            Some(error) => Err(error),
            None => ended.map_err(|error| raised::exception(py, &error)),
        }
    }
}

/// Has Python call the handlers of the signals that have arrived.
#[allow(clippy::redundant_closure_for_method_calls, reason = "the method is of one lifetime only")]
fn look(stop: &AtomicBool, raised: &mut Option<PyErr>) {
    if raised.is_none() {
        *raised = Python::attach(|py| py.check_signals()).err();
        if raised.is_some() {
            stop.store(true, Relaxed);
        }
    }
}
