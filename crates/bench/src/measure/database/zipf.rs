//! A million values of 4 KiB, a quarter of them in memory.
//!
//! The figures include the number of lookups that took more than 5 ms (`…-over-5ms`), and the
//! number of those that no stall of the machine explains (`…-over-5ms-unexplained`).

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{PAGE, bare::Segments, load, rescale};
use crate::{
    figure::{Figure, Goal, Reading},
    load::{Draw, LATE, Load, Operation, Outcome, Session, Wait, Zipf},
    process::{self, CLIENT, Cores, SERVER, Server},
    run::Run,
};

/// Lookups due a second while latency is measured.
const RATE: f64 = 30_000.0;
/// Values overwritten a second while it is measured beside compaction.
const OVERWRITES_PER_SECOND: u64 = 2_000;
/// Overwrites asked for at once.
const OVERWRITES_AT_ONCE: u64 = 20;
/// Wait of the watching thread above which the machine counts as stalled.
const STALL: Duration = Duration::from_millis(1);

/// 1 M × 4 KiB, 1 GiB, Zipf 0.99: left alone, rescaled to 2 GiB and back, and beside compaction.
pub(in crate::measure) fn quarter(run: &Run) -> anyhow::Result<Vec<Figure>> {
    let (keys, mebibytes): (u64, u64) = if run.short { (100_000, 100) } else { (1_000_000, 1_024) };
    let memory = format!("{mebibytes}MiB");
    let database = run.servers.database(&["--memory", &memory], Cores::Any)?;
    let server = &database.server;
    run.show("storing", 0.1);
    Session::connect(server.address)?.set_all(keys, PAGE)?;
    let draw = Draw::Zipf(Zipf::new(keys, 0.99));
    let base = Load { keys, draw, value_bytes: PAGE, ..load(run, server, Operation::Get, 1, 7) };
    run.show("warming", 0.4);
    Load { duration: run.round() * 5, ..base }.run()?;
    run.show("measuring the most", 0.5);
    let segments = Segments::open(&database.directory)?;
    let measure = |name, load, other: &(dyn Fn(Duration) -> anyhow::Result<()> + Sync)| {
        let part = beside(load, &segments, other)?;
        run.keep(&format!("zipf-1M-{name}"), &part.reading())?;
        anyhow::Ok(part)
    };
    let most = measure("most", base, &|_| Ok(()))?;
    // Client and server share the cores: at the most a lookup waits for its turn on one of them.
    let base = Load { duration: run.round() * 6, rate: Some(RATE), ..base };
    run.show("measuring", 0.6);
    let alone = measure("quarter", base, &|_| Ok(()))?;
    run.show("measuring while rescaling", 0.7);
    let rescaling = measure("rescaling", base, &|pause| rescale_twice(server, mebibytes, pause))?;
    let resident = server.resident_bytes()? / f64::from(1 << 20);
    run.show("measuring while compacting", 0.8);
    let compacting = measure("compacting", base, &|pause| overwrite(server, keys, pause))?;
    let case = format!("{keys} × 4 KiB, {mebibytes} MiB, 50 connections");
    let ops = Figure::compared(
        "zipf-1M-quarter-ops",
        (most.outcome.per_second(), RATE),
        "GETs/s",
        "the goal of 30,000",
        Goal::RatioMin(1.0),
    );
    let mut figures = vec![ops.note(format!("{case}; {}", most.note()))];
    for (name, part, what) in [
        ("quarter", &alone, String::new()),
        (
            "rescaling",
            &rescaling,
            format!(" → {} → {mebibytes} MiB, resident after {resident:.0}", mebibytes * 2),
        ),
        ("compacting", &compacting, format!(", {OVERWRITES_PER_SECOND} overwritten a second")),
    ] {
        let answered = part.outcome.per_second();
        let note = format!(
            "{case}{what}; {answered:.0} GETs/s, counted from when each was due; {}",
            part.note()
        );
        for (suffix, share) in [("max", 1.0), ("p99.99", 0.9999)] {
            let name = format!("zipf-1M-{name}-{suffix}-ms");
            let value = part.outcome.within_ms(share);
            figures.push(Figure::alone(&name, value, "ms", 5.0).note(note.clone()));
        }
        let (late, unexplained) = (part.outcome.late.len(), part.unexplained());
        for (suffix, count) in [("over-5ms", late), ("over-5ms-unexplained", unexplained)] {
            let name = format!("zipf-1M-{name}-{suffix}");
            let count = count as f64;
            figures.push(Figure::alone(&name, count, "GETs", 0.0).note(note.clone()));
        }
    }
    Ok(figures)
}

/// Latencies of lookups, and delays of the machine in the same period: of a thread on each core
/// that reads the clock, and of one that reads a page of the same files, each once a millisecond.
struct Part {
    outcome: Outcome,
    time: Waits,
    page: Waits,
}

/// Waiting times of one of them: the shortest first.
struct Waits(Vec<Wait>);

impl Waits {
    fn new(mut waits: Vec<Wait>) -> Self {
        waits.sort_unstable_by_key(|wait| wait.length);
        Self(waits)
    }

    /// Milliseconds that this share of them lasted at most.
    fn within_ms(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share) as usize].length.as_secs_f64() * 1e3
    }

    /// The waits in which the machine stalled.
    fn stalls(&self) -> impl Iterator<Item = &Wait> {
        self.0.iter().rev().take_while(|wait| wait.length > STALL)
    }
}

impl Part {
    /// Late lookups that would have been late even without the time in which one of those threads
    /// stood still. A lookup that came when that was over, and queued behind those that had waited,
    /// is among them. What the database's own threads do to a core is not: other threads on that
    /// core wait for them, too.
    fn unexplained(&self) -> usize {
        let mut stalls: Vec<&Wait> = self.time.stalls().chain(self.page.stalls()).collect();
        stalls.sort_unstable_by_key(|stall| stall.began);
        let is_unexplained = |lookup: &&Wait| {
            let excess = lookup.length.saturating_sub(LATE);
            total_within(&stalls, lookup) < excess
        };
        self.outcome.late.iter().filter(is_unexplained).count()
    }

    /// The raw result.
    fn reading(&self) -> Reading {
        Reading::new(self.outcome.per_second())
            .with("p50_ms", self.outcome.within_ms(0.5))
            .with("p99_ms", self.outcome.within_ms(0.99))
            .with("p99.99_ms", self.outcome.within_ms(0.9999))
            .with("max_ms", self.outcome.within_ms(1.0))
            .with("over_5ms", self.outcome.late.len() as f64)
            .with("over_5ms_unexplained", self.unexplained() as f64)
    }

    fn note(&self) -> String {
        let at = |share| self.outcome.within_ms(share);
        format!(
            "p50 {:.3}, p99 {:.3}, p99.99 {:.3}, max {:.2} ms; at the same time, once a millisecond, a thread on each \
             core that only asks for the time waited {:.2} ms at most, {:.2} at p99.99, a bare read of 4 KiB \
             {:.2} and {:.2}",
            at(0.5),
            at(0.99),
            at(0.9999),
            at(1.0),
            self.time.within_ms(1.0),
            self.time.within_ms(0.9999),
            self.page.within_ms(1.0),
            self.page.within_ms(0.9999)
        )
    }
}

/// Lookups during another operation, which gets a third of their time as an argument.
fn beside(
    load: Load,
    segments: &Segments,
    other: &(dyn Fn(Duration) -> anyhow::Result<()> + Sync),
) -> anyhow::Result<Part> {
    thread::scope(|scope| {
        let other = scope.spawn(move || other(load.duration / 3));
        let time = [SERVER, CLIENT]
            .map(|core| scope.spawn(move || process::on(core, || waits(load.duration, || Ok(())))));
        let page = scope.spawn(move || {
            let mut reader = segments.reader(1);
            waits(load.duration, move || reader.read())
        });
        let outcome = load.run();
        other.join().map_err(|_| anyhow::anyhow!("the background load panicked"))??;
        let mut times = Vec::new();
        for time in time {
            times.extend(
                time.join().map_err(|_| anyhow::anyhow!("asking for the time panicked"))???,
            );
        }
        let page = page.join().map_err(|_| anyhow::anyhow!("reading panicked"))??;
        Ok(Part { outcome: outcome?, time: Waits::new(times), page: Waits::new(page) })
    })
}

/// Returns the part of `lookup` that some of `stalls` cover; `stalls` are in order of their start.
fn total_within(stalls: &[&Wait], lookup: &Wait) -> Duration {
    let (mut total, mut covered) = (Duration::ZERO, lookup.began);
    for stall in stalls {
        let end = (stall.began + stall.length).min(lookup.began + lookup.length);
        total += end.saturating_duration_since(stall.began.max(covered));
        covered = covered.max(end);
    }
    total
}

fn rescale_twice(server: &Server, mebibytes: u64, pause: Duration) -> anyhow::Result<()> {
    let mut session = Session::connect(server.address)?;
    for megabytes in [mebibytes * 2, mebibytes] {
        thread::sleep(pause);
        rescale(&mut session, megabytes << 20)?;
    }
    Ok(())
}

/// Overwrites values at a steady rate, so that segments have to be emptied.
fn overwrite(server: &Server, keys: u64, pause: Duration) -> anyhow::Result<()> {
    let mut session = Session::connect(server.address)?;
    let (began, mut written) = (Instant::now(), 0);
    while began.elapsed() < 3 * pause {
        // A prime apart, so that every segment loses some.
        session.set_some(OVERWRITES_AT_ONCE, PAGE, |at| (written + at) * 15_485_863 % keys)?;
        written += OVERWRITES_AT_ONCE;
        let due = Duration::from_secs_f64(written as f64 / OVERWRITES_PER_SECOND as f64);
        thread::sleep(due.saturating_sub(began.elapsed()));
    }
    Ok(())
}

/// Has something done once a millisecond, which is seldom enough to take no core from those it
/// watches: how late each was over.
fn waits(
    duration: Duration,
    mut act: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Wait>> {
    const PAUSE: Duration = Duration::from_millis(1);
    let began = Instant::now();
    let mut waits = Vec::new();
    while began.elapsed() < duration {
        let last = Instant::now();
        thread::sleep(PAUSE);
        act()?;
        let length = last.elapsed().saturating_sub(PAUSE);
        waits.push(Wait { began: last + PAUSE, length });
    }
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_that_overlap_count_once_and_only_within_the_lookup() {
        let zero = Instant::now();
        let ms = Duration::from_millis;
        let wait =
            |(began, end): (u64, u64)| Wait { began: zero + ms(began), length: ms(end - began) };
        let total = |stalls: &[(u64, u64)], lookup| {
            let stalls: Vec<Wait> = stalls.iter().copied().map(wait).collect();
            total_within(&stalls.iter().collect::<Vec<_>>(), &wait(lookup)).as_millis()
        };
        assert_eq!(total(&[], (10, 20)), 0);
        assert_eq!(total(&[(0, 12), (15, 17), (19, 30)], (10, 20)), 5);
        assert_eq!(total(&[(11, 15), (12, 13), (14, 16)], (10, 20)), 5);
        assert_eq!(total(&[(0, 9), (21, 30)], (10, 20)), 0);
    }
}
