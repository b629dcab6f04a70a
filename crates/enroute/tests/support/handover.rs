//! While a slot changes its owner, Valkey lets two nodes serve reads of it (`docs/guide/bounds.md`,
//! State layer): its source continues until it has learned over the cluster bus that the target has
//! taken the slot. The source logs that time.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY_MS: i64 = 86_400_000;
/// Resolution of the times in the log.
const RESOLUTION: Duration = Duration::from_millis(1);

/// Part of the first log line of a process.
const STARTS: &str = " is starting ";

/// A period in which the source of a move may serve reads although its target accepts writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handover {
    pub slots: (usize, usize),
    /// Since the start of the history.
    pub begins: Duration,
    pub ends: Duration,
}

/// All handovers whose source was this node, from its log, whose times are UTC.
pub fn handovers(log: &str, start: SystemTime) -> Vec<Handover> {
    let mut open: HashMap<&str, _> = HashMap::new();
    let mut found = Vec::new();
    for line in log.lines() {
        let Some(at) = time_of_day_ms(line).map(|at| since(start, at)) else { continue };
        if line.contains(STARTS) {
            // Killed before it was informed. After its restart it serves no client for two seconds,
            // and is informed within that time.
            found.extend(open.drain().map(|(_, granted)| until(granted, at)));
        }
        let Some((job, slots)) = export(line) else { continue };
        if line.ends_with("-> failover-granted") {
            open.insert(job, (slots, at));
        } else if let Some(granted) = open.remove(job) {
            found.push(until(granted, at + RESOLUTION));
        }
    }
    found.extend(open.into_values().map(|granted| until(granted, Duration::MAX)));
    found
}

fn until((slots, begins): ((usize, usize), Duration), ends: Duration) -> Handover {
    Handover { slots, begins, ends }
}

/// The name and the slots of `Slot migration {name: …, operation: export, …, slots: 866-866} …`.
fn export(line: &str) -> Option<(&str, (usize, usize))> {
    let job = line.split_once("Slot migration {name: ")?.1;
    let (job, state) = job.split_once("} ")?;
    let (name, job) = job.split_once(", operation: export, ")?;
    let (first, last) = job.rsplit_once("slots: ")?.1.split_once('-')?;
    let is_state = state.starts_with("state transition: ");
    is_state.then_some((name, (first.parse().ok()?, last.parse().ok()?)))
}

/// As in `1234:M 23 Nov 2026 09:55:00.123 * …`.
fn time_of_day_ms(line: &str) -> Option<i64> {
    let (hours, rest) = line.split(' ').nth(4)?.split_once(':')?;
    let (minutes, rest) = rest.split_once(':')?;
    let (seconds, ms) = rest.split_once('.')?;
    let number = |text: &str| text.parse::<i64>().ok();
    Some(((number(hours)? * 60 + number(minutes)?) * 60 + number(seconds)?) * 1_000 + number(ms)?)
}

fn since(start: SystemTime, time_of_day_ms: i64) -> Duration {
    let start = start.duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    Duration::from_millis((time_of_day_ms - start).rem_euclid(DAY_MS) as u64)
}
