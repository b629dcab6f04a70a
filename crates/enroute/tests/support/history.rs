//! Histories of reads, writes and deletes, and the checker's verdict on them.
//!
//! Each client records its requests and replies with times of one clock; `checker` (porcupine)
//! decides whether the history is linearizable.

use std::env;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::directory::{TemporaryDirectory, installed};
use super::origins::absent;

/// The pseudo-client whose operation is the kill of an origin, which deletes what was not
/// persistent.
pub const KILLS: usize = 1_000;

/// The operations of one client, in order.
pub struct Recorder {
    client: usize,
    start: Instant,
    operations: Vec<Operation>,
}

/// One operation; a history is a list of them.
pub struct Operation {
    client: usize,
    key: usize,
    what: What,
    outcome: Outcome,
    call_ns: u128,
    return_ns: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The value read; `None` if the key is absent.
    Read(Option<u64>),
    Write(u64),
    Delete,
}

/// The outcome of an operation, as far as the client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    /// It had no effect and never will.
    Failed,
    /// It may take effect at any time from now on, or never.
    Unknown,
}

impl Recorder {
    /// A recorder for one of the clients, all with the same `start`.
    pub fn new(client: usize, start: Instant) -> Self {
        Self { client, start, operations: Vec::new() }
    }

    /// Executes an operation on `key` and records its outcome; `None` records nothing, as for a
    /// read that was never answered. Returns whether it was recorded.
    pub fn record(&mut self, key: usize, act: impl FnOnce() -> Option<(What, Outcome)>) -> bool {
        let call_ns = self.start.elapsed().as_nanos();
        let done = act();
        let return_ns = self.start.elapsed().as_nanos();
        if let Some((what, outcome)) = done {
            let client = self.client;
            self.operations.push(Operation { client, key, what, outcome, call_ns, return_ns });
        }
        done.is_some()
    }

    /// Executes a read of several keys and records what each of them held; `None` records nothing.
    pub fn record_reads(&mut self, act: impl FnOnce() -> Option<Vec<(usize, Option<u64>)>>) {
        let call_ns = self.start.elapsed().as_nanos();
        let done = act();
        let return_ns = self.start.elapsed().as_nanos();
        let (client, outcome) = (self.client, Outcome::Succeeded);
        self.operations.extend(done.into_iter().flatten().map(|(key, value)| {
            let what = What::Read(value);
            Operation { client, key, what, outcome, call_ns, return_ns }
        }));
    }

    /// Records the deletion of all these keys by `act`.
    pub fn record_deletes(&mut self, keys: Range<usize>, act: impl FnOnce()) {
        let call_ns = self.start.elapsed().as_nanos();
        act();
        let return_ns = self.start.elapsed().as_nanos();
        let (client, what, outcome) = (self.client, What::Delete, Outcome::Succeeded);
        self.operations.extend(keys.map(|key| Operation {
            client,
            key,
            what,
            outcome,
            call_ns,
            return_ns,
        }));
    }

    pub fn finish(self) -> Vec<Operation> {
        self.operations
    }
}

impl Operation {
    /// For a read: the key, and the times of request and reply.
    pub fn read(&self) -> Option<(usize, Duration, Duration)> {
        let time = |ns: u128| Duration::from_nanos(ns as u64);
        let reads = matches!(self.what, What::Read(_));
        reads.then(|| (self.key, time(self.call_ns), time(self.return_ns)))
    }

    fn line(&self) -> String {
        let Self { client, key, call_ns, return_ns, .. } = self;
        let (op, value) = match self.what {
            What::Read(value) => ("read", value),
            What::Write(value) => ("write", Some(value)),
            What::Delete => ("delete", None),
        };
        let value = value.map_or("null".to_owned(), |value| value.to_string());
        let ok = match self.outcome {
            Outcome::Succeeded => "true",
            Outcome::Failed => "false",
            Outcome::Unknown => "\"unknown\"",
        };
        format!(
            "{{\"client\":{client},\"key\":\"k{key}\",\"op\":\"{op}\",\"value\":{value},\
             \"ok\":{ok},\"call_ns\":{call_ns},\"return_ns\":{return_ns}}}"
        )
    }
}

/// The history with each read begun this much earlier, so that a read may return what was right up
/// to `bound` before it: the verdict on a cache whose answers may be that old.
pub fn as_old_as(bound: Duration, mut history: Vec<Operation>) -> Vec<Operation> {
    for operation in history.iter_mut().filter(|one| matches!(one.what, What::Read(_))) {
        operation.call_ns = operation.call_ns.saturating_sub(bound.as_nanos());
    }
    history
}

/// The checker's verdict.
#[derive(Debug)]
pub struct Verdict {
    pub linearizable: bool,
    /// The number of operations of the history.
    pub operations: usize,
    /// Its first line, and after a violation the operations that prove it.
    pub text: String,
}

/// Runs the checker; `None`, with the reason printed, if it is not installed.
pub fn check(operations: &[Operation]) -> Option<Verdict> {
    let program = checker()?;
    let directory = TemporaryDirectory::create();
    let file = directory.path().join("history.jsonl");
    let mut lines = BufWriter::new(File::create(&file).expect("a writable temporary directory"));
    for operation in operations {
        writeln!(lines, "{}", operation.line()).expect("room for the history");
    }
    lines.flush().expect("room for the history");
    let output = Command::new(program)
        .arg("--html")
        .arg(directory.path().join("violation.html"))
        .arg(&file)
        .output()
        .expect("the checker starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let linearizable = match output.status.code() {
        Some(0) => true,
        Some(1) => false,
        _ => {
            let kept = directory.keep();
            panic!(
                "no verdict: {text}{}; it is in {}",
                String::from_utf8_lossy(&output.stderr),
                kept.display()
            );
        }
    };
    Some(Verdict { linearizable, operations: operations.len(), text })
}

/// Maximum number of runs of a test: on a busy machine several may be needed until the required
/// event has occurred.
const RUNS_MAX: u64 = 10;

/// The seeds of the runs of a test. The first is `ENROUTE_SEED`, or 1.
pub fn seeds() -> Range<u64> {
    let first = env::var("ENROUTE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    first..first + RUNS_MAX
}

/// Runs one seed after the other until in total `hits_min` replies came from a cache; with fewer,
/// the histories would prove little. Each history must be linearizable. A run without a result ends
/// the test.
pub fn are_linearizable(hits_min: u64, mut run: impl FnMut(u64) -> Option<(Verdict, u64)>) {
    let mut sum = 0;
    for seed in seeds() {
        let Some((verdict, hits)) = run(seed) else { return };
        assert!(verdict.linearizable, "seed {seed}: {}", verdict.text);
        sum += hits;
        if sum >= hits_min {
            return;
        }
    }
    panic!("only {sum} hits in {RUNS_MAX} runs");
}

/// The same for runs of 200,000 operations and more.
pub fn are_linearizable_when_long(
    hits_min: u64,
    mut run: impl FnMut(usize, u64) -> Option<(Verdict, u64)>,
) {
    are_linearizable(hits_min, |seed| {
        // More are started: a read without an answer is not recorded.
        let (verdict, hits) = run(220_000, seed)?;
        assert!(verdict.operations >= 200_000, "{}", verdict.text);
        Some((verdict, hits))
    });
}

/// Runs one seed after the other until a history is not linearizable: that of a build that is
/// broken on purpose. A run without a result ends it: nothing is there to run it with.
pub fn is_found_out(mut run: impl FnMut(u64) -> Option<Verdict>) {
    let is_found = |seed| run(seed).is_none_or(|verdict| !verdict.linearizable);
    assert!(seeds().any(is_found), "linearizable every time");
}

/// What tells a client to go on: `false` after its last operation.
pub type GoesOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// Runs the clients with the numbers 0 to `clients` at the same time, each in its own thread, and
/// returns the operations of all.
pub fn of_clients(clients: usize, run: impl Fn(usize) -> Vec<Operation> + Sync) -> Vec<Operation> {
    let run = &run;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|number| scope.spawn(move || run(number))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    })
}

/// The history of `clients` that execute `operations` in total, while `trouble` runs until it is
/// told that they are over; also what `trouble` returns.
pub fn record<T: Send>(
    operations: usize,
    trouble: impl FnOnce(&AtomicBool) -> T + Send,
    clients: impl FnOnce(GoesOn<'_>) -> Vec<Operation>,
) -> (Vec<Operation>, T) {
    let (left, over) = (AtomicUsize::new(operations), AtomicBool::new(false));
    let take = |left: usize| left.checked_sub(1);
    thread::scope(|scope| {
        let trouble = scope.spawn(|| trouble(&over));
        let history = clients(&|| left.fetch_update(Relaxed, Relaxed, take).is_ok());
        over.store(true, Relaxed);
        (history, trouble.join().expect("no panic"))
    })
}

/// The history of `clients`, which pause for `pause` after each operation, until `trouble` ends.
pub fn record_during(
    pause: Duration,
    trouble: impl FnOnce(),
    clients: impl FnOnce(GoesOn<'_>) -> Vec<Operation> + Send,
) -> Vec<Operation> {
    let over = AtomicBool::new(false);
    let goes_on = || {
        thread::sleep(pause);
        !over.load(Relaxed)
    };
    thread::scope(|scope| {
        let clients = scope.spawn(|| clients(&goes_on));
        // Clients end even if `trouble` panics.
        let ended = panic::catch_unwind(AssertUnwindSafe(trouble));
        over.store(true, Relaxed);
        let history = clients.join().expect("no panic");
        ended.map_or_else(|panicked| panic::resume_unwind(panicked), |()| history)
    })
}

/// The path of the checker; `None`, with the reason printed, if it is not installed.
pub fn checker() -> Option<std::path::PathBuf> {
    let program = installed("bin/checker");
    if program.is_file() { Some(program) } else { absent("the checker is not installed") }
}
