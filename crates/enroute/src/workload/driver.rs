//! Carries out the turns of a load.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use super::recorder::{Outcome, Recorder};
use super::turns::{Load, Turn, Turns};

/// Carries out a load asynchronously, one operation at a time on each worker, all on this task.
/// A worker is given a key and says how it went; it owns its connection.
///
/// Watch `recorder` meanwhile; it counts time from this call.
///
/// # Errors
///
/// When the system is out of timers, or this is not called inside a tokio runtime with I/O.
pub async fn drive<Operation>(
    load: &Load,
    workers: Vec<Operation>,
    recorder: &Mutex<Recorder>,
) -> io::Result<()>
where
    Operation: AsyncFnMut(u64) -> Outcome,
{
    let round = Round::new(load, recorder);
    let round = &round;
    let mut working: FuturesUnordered<_> =
        workers.into_iter().map(|operation| work(operation, round)).collect();
    while let Some(worker) = working.next().await {
        worker?;
    }
    Ok(())
}

async fn work<Operation>(mut operation: Operation, round: &Round<'_>) -> io::Result<()>
where
    Operation: AsyncFnMut(u64) -> Outcome,
{
    let alarm = Alarm::new()?;
    while let Some(turn) = round.take() {
        let wait = turn.starts_at.saturating_sub(round.started.elapsed());
        if !wait.is_zero() {
            alarm.sleep(wait).await?;
        }
        let outcome = operation(turn.key).await;
        round.record(turn, outcome);
    }
    Ok(())
}

/// Carries out a load on threads, one for each worker. Otherwise as [`drive`].
pub fn drive_threads<Operation>(load: &Load, workers: Vec<Operation>, recorder: &Mutex<Recorder>)
where
    Operation: FnMut(u64) -> Outcome + Send,
{
    let round = Round::new(load, recorder);
    let round = &round;
    thread::scope(|scope| {
        for mut operation in workers {
            scope.spawn(move || {
                // Without this a sleeping thread may be woken up 50 µs late to save power.
                let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
                while let Some(turn) = round.take() {
                    thread::sleep(turn.starts_at.saturating_sub(round.started.elapsed()));
                    let outcome = operation(turn.key);
                    round.record(turn, outcome);
                }
            });
        }
    });
}

/// A load under way.
struct Round<'a> {
    started: Instant,
    turns: Mutex<Turns>,
    recorder: &'a Mutex<Recorder>,
}

impl<'a> Round<'a> {
    fn new(load: &Load, recorder: &'a Mutex<Recorder>) -> Self {
        Self { started: Instant::now(), turns: Mutex::new(Turns::new(load.clone())), recorder }
    }

    fn take(&self) -> Option<Turn> {
        self.turns.lock().take(self.started.elapsed())
    }

    fn record(&self, turn: Turn, outcome: Outcome) {
        let now = self.started.elapsed();
        self.recorder.lock().record(outcome, now.saturating_sub(turn.starts_at), now);
    }
}

/// A timer to the nanosecond; the runtime's own ticks in milliseconds, and an open loop would
/// count that as latency.
struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Unsound only for types which close or change their descriptor; `OwnedFd` does neither.
        #[expect(deprecated)]
        Ok(Self(AsyncFd::new(timer)?))
    }

    async fn sleep(&self, wait: Duration) -> io::Result<()> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let once = Itimerspec { it_interval: never, it_value: at };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut rung = self.0.readable().await?;
            match rustix::io::read(&self.0, &mut [0; 8]) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => rung.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{KeyDistribution, Pace};

    const MS: Duration = Duration::from_millis(1);

    fn counting() -> Load {
        let distribution = KeyDistribution::Sequential;
        Load { distribution, keys: 1000, operations_max: Some(300), ..Load::default() }
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn threads_share_the_turns_of_a_load() {
        let recorder = Mutex::new(Recorder::default());
        let seen = Mutex::new(Vec::new());
        let worker = |key| {
            seen.lock().push(key);
            Outcome::Hit
        };
        drive_threads(&counting(), vec![worker; 4], &recorder);
        let mut seen = seen.into_inner();
        seen.sort_unstable();
        assert_eq!(seen, (1..=300).collect::<Vec<u64>>());
        assert_eq!(recorder.lock().summary().answered, 300);
    }

    #[test]
    fn asynchronous_workers_run_at_the_same_time() {
        let recorder = Mutex::new(Recorder::default());
        // Each operation waits until all three are under way.
        let barrier = tokio::sync::Barrier::new(3);
        let workers = (0..3).map(|_| {
            async |_: u64| {
                barrier.wait().await;
                Outcome::Answered
            }
        });
        run(drive(&counting(), workers.collect(), &recorder)).unwrap();
        assert_eq!(recorder.lock().summary().answered, 300);
    }

    #[test]
    fn an_open_loop_counts_the_wait_for_a_stalled_server() {
        // One worker, ten operations due within 10 ms, the first of which takes 50 ms: the
        // others wait for it, and that is their latency.
        let pace = Pace::Open { per_second: 1000.0 };
        let load = Load { pace, operations_max: Some(10), ..Load::default() };
        let stall = |first: &mut bool| std::mem::take(first).then_some(50 * MS);
        let threads = Mutex::new(Recorder::default());
        let mut first = true;
        let operation = |_| {
            thread::sleep(stall(&mut first).unwrap_or_default());
            Outcome::Answered
        };
        drive_threads(&load, vec![operation], &threads);
        let tasks = Mutex::new(Recorder::default());
        let mut first = true;
        let operation = async |_: u64| {
            if let Some(stall) = stall(&mut first) {
                tokio::time::sleep(stall).await;
            }
            Outcome::Answered
        };
        run(drive(&load, vec![operation], &tasks)).unwrap();
        for recorder in [threads, tasks] {
            let p50 = recorder.lock().summary().latency_ns_p50;
            assert!(p50 >= 40_000_000, "{p50}");
        }
    }

    #[test]
    fn an_open_loop_does_not_start_early() {
        let load = Load {
            pace: Pace::Open { per_second: 500.0 },
            operations_max: Some(11),
            ..Load::default()
        };
        let started = Instant::now();
        let recorder = Mutex::new(Recorder::default());
        run(drive(&load, vec![async |_: u64| Outcome::Answered; 2], &recorder)).unwrap();
        drive_threads(&load, vec![|_| Outcome::Answered; 2], &recorder);
        assert!(started.elapsed() >= 40 * MS);
    }

    #[test]
    fn failures_are_counted_and_do_not_end_the_load() {
        let recorder = Mutex::new(Recorder::default());
        let worker = |key: u64| if key.is_multiple_of(3) { Outcome::Failed } else { Outcome::Miss };
        drive_threads(&counting(), vec![worker], &recorder);
        let summary = recorder.lock().summary();
        assert_eq!((summary.answered, summary.failed), (200, 100));
    }
}
