//! One run: its measurements, rounds, output and stored results.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde::Serialize;
use time::{OffsetDateTime, macros::format_description};

use crate::{
    figure::{Reading, Rounds},
    process::end_with_us,
    servers::Servers,
};

/// The side of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Peer,
}

/// State common to all measurements of a run.
pub(crate) struct Run {
    /// Names the file with the results.
    subject: &'static str,
    pub(crate) servers: Servers,
    /// Interleaved rounds of each measurement.
    pub(crate) rounds: usize,
    /// Shorter and noisier.
    pub(crate) short: bool,
    /// Duration of one round of one side.
    round: Duration,
    output: PathBuf,
    raw: PathBuf,
    progress: RefCell<Progress>,
}

struct Progress {
    began: Instant,
    /// Estimated seconds of the measurements of this run, in total and completed.
    estimate: f64,
    over: f64,
    title: String,
    current: f64,
}

impl Progress {
    fn new() -> Self {
        let title = String::new();
        Self { began: Instant::now(), estimate: 0.0, over: 0.0, title, current: 0.0 }
    }
}

impl Run {
    /// A run about `subject`, whose results go below `output`.
    pub(crate) fn new(
        subject: &'static str,
        output: &Path,
        rounds: usize,
        short: bool,
    ) -> anyhow::Result<Self> {
        let now = OffsetDateTime::now_utc();
        let date =
            now.format(format_description!("[year]-[month]-[day]T[hour][minute][second]Z"))?;
        let raw = output.join("raw").join(date);
        let servers = Servers::new(raw.join("logs"))?;
        let run = Self {
            subject,
            servers,
            rounds,
            short,
            round: Duration::from_millis(if short { 1_000 } else { 3_000 }),
            output: output.into(),
            raw,
            progress: RefCell::new(Progress::new()),
        };
        run.keep("machine", &machine())?;
        Ok(run)
    }

    /// The same with rounds of another duration.
    pub(crate) fn with_round(self, round: Duration) -> Self {
        Self { round, ..self }
    }

    /// The same run with the programs of another build, which are in `programs`.
    pub(crate) fn with_programs(&self, programs: &Path) -> anyhow::Result<Self> {
        let servers = Servers::of(programs.join("enroute"), self.raw.join("logs-of-base"))?;
        let (output, raw) = (self.output.clone(), self.raw.clone());
        let progress = RefCell::new(Progress::new());
        let Self { subject, rounds, short, round, .. } = *self;
        Ok(Self { subject, servers, rounds, short, round, output, raw, progress })
    }

    /// Returns the duration of one round of one side.
    pub(crate) fn round(&self) -> Duration {
        self.round
    }

    /// Shows the current measurement and its estimated duration.
    pub(crate) fn begin(&self, title: String, seconds: f64, seconds_of_all: f64) {
        let mut progress = self.progress.borrow_mut();
        progress.over += progress.current;
        (progress.title, progress.current, progress.estimate) = (title, seconds, seconds_of_all);
    }

    /// Shows the current step; `share` of the measurement is done.
    pub(crate) fn show(&self, what: &str, share: f64) {
        let progress = self.progress.borrow();
        let done = progress.over + progress.current * share;
        let elapsed = progress.began.elapsed().as_secs_f64();
        // The factor by which the estimates have been wrong until now is applied to the rest.
        let pace = if done > 10.0 { elapsed / done } else { 1.0 };
        let left = ((progress.estimate - done) * pace).max(0.0) as u64;
        let title = &progress.title;
        eprintln!("{title}: {what}, {}:{:02} left of all", left / 60, left % 60);
    }

    /// Measures both sides in turn, `rounds` times, and keeps every reading.
    pub(crate) fn interleave(
        &self,
        name: &str,
        mut measure: impl FnMut(Side, u64) -> anyhow::Result<Reading>,
    ) -> anyhow::Result<Rounds> {
        let mut rounds = Rounds::default();
        for round in 0..self.rounds {
            // Each goes first in turn, so that a drift of the machine favours neither.
            let order =
                if round % 2 == 0 { [Side::Ours, Side::Peer] } else { [Side::Peer, Side::Ours] };
            for side in order {
                let reading = measure(side, round as u64)?;
                let what = format!(
                    "round {} of {}, {side:?} {:.4}",
                    round + 1,
                    self.rounds,
                    reading.value
                );
                self.show(&what, (round + 1) as f64 / self.rounds as f64);
                match side {
                    Side::Ours => rounds.ours.push(reading),
                    Side::Peer => rounds.peer.push(reading),
                }
                // A stopped run keeps its results.
                self.keep(name, &rounds)?;
            }
        }
        Ok(rounds)
    }

    /// Returns the directory of scratch files.
    pub(crate) fn scratch(&self) -> &Path {
        &self.raw
    }

    /// Keeps raw results.
    pub(crate) fn keep(&self, name: &str, results: &impl Serialize) -> anyhow::Result<()> {
        write(&self.raw.join(format!("{name}.json")), results)
    }

    /// Runs a program to its end and returns its output, which is kept as it comes.
    pub(crate) fn output(&self, name: &str, command: &mut Command) -> anyhow::Result<String> {
        let path = self.raw.join(format!("{name}.out"));
        command.stdin(Stdio::null()).stdout(fs::File::create(&path)?).stderr(Stdio::piped());
        end_with_us(command);
        let program = command.get_program().to_owned();
        let ended = command.spawn().and_then(Child::wait_with_output);
        let ended = ended.with_context(|| format!("cannot start {}", program.display()))?;
        let said = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "{}: {}\n{said}", program.display(), ended.status);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Writes the figures there are so far.
    pub(crate) fn publish(&self, figures: &impl Serialize) -> anyhow::Result<()> {
        self.keep(self.subject, figures)?;
        write(&self.results(), figures)
    }

    /// Returns the path of the figures.
    pub(crate) fn results(&self) -> PathBuf {
        self.output.join(format!("{}.json", self.subject))
    }
}

/// Writes a new file in the place of the old one, so that a run that is stopped leaves one of both.
fn write(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let new = path.with_extension("json.new");
    let text = serde_json::to_string_pretty(value)? + "\n";
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the properties of the machine that the figures depend on.
fn machine() -> serde_json::Value {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.map_or(String::new(), |output| {
            let text = [output.stdout, output.stderr].concat();
            String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
        })
    };
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    serde_json::json!({
        "cpu": model.unwrap_or_default().trim_start_matches(['\t', ' ', ':']),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": said("uname", &["-r"]),
        "load": fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        "redis-server": said("redis-server", &["--version"]),
        "openssl": said("openssl", &["version"]),
        "nutcracker": said("nutcracker", &["--version"]),
        "java": said("java", &["-version"]),
    })
}
