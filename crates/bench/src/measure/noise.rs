//! What the machine does to whoever runs on it: a host that lends its cores to others takes them away for
//! milliseconds, from busy ones most.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::process::{self, CLIENT, SERVER};

/// Shorter gaps are those of a thread that runs.
const GAP_MIN: Duration = Duration::from_micros(20);

/// While both cores are busy for so long, how long who comes at any moment waits for the server's core and
/// for the client's: ms, at this share of moments.
pub(super) fn waits_for_cores(time: Duration, share: f64) -> anyhow::Result<(f64, f64)> {
    thread::scope(|scope| {
        let gaps = |core| scope.spawn(move || process::on(core, || gaps(time)));
        let (server, client) = (gaps(SERVER), gaps(CLIENT));
        let wait = |gaps: thread::ScopedJoinHandle<'_, anyhow::Result<Vec<Duration>>>| {
            let gaps = gaps.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            anyhow::Ok(within(&gaps, time, share).as_secs_f64() * 1e3)
        };
        Ok((wait(server)?, wait(client)?))
    })
}

/// The times in which a thread that wants nothing but the time did not run.
fn gaps(time: Duration) -> Vec<Duration> {
    let began = Instant::now();
    let (mut gaps, mut last) = (Vec::new(), began);
    while last < began + time {
        let now = Instant::now();
        gaps.extend(Some(now - last).filter(|gap| *gap >= GAP_MIN));
        last = now;
    }
    gaps
}

/// At `share` of all moments the end of the gap they are in is at most so far.
fn within(gaps: &[Duration], time: Duration, share: f64) -> Duration {
    let beyond = |wait: Duration| gaps.iter().map(|gap| gap.saturating_sub(wait)).sum::<Duration>();
    let allowed = time.mul_f64(1.0 - share);
    let (mut low, mut high) = (Duration::ZERO, gaps.iter().max().copied().unwrap_or_default());
    while high - low > Duration::from_micros(1) {
        let middle = (low + high) / 2;
        if beyond(middle) > allowed {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_in_a_gap_waits_for_its_end() {
        let ms = Duration::from_millis;
        let wait = |gaps: &[Duration], share| within(gaps, ms(1_000), share).as_millis();
        assert_eq!(wait(&[], 0.99), 0);
        // 10 of 1,000 moments are in the gap: at 99 % nobody waits, at 99.5 % half of it.
        assert_eq!(wait(&[ms(10)], 0.99), 0);
        assert_eq!(wait(&[ms(10)], 0.995), 5);
        assert_eq!(wait(&[ms(10), ms(10)], 0.99), 5);
    }
}
