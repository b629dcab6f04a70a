//! Scheduling noise of the machine: kernel threads, and a hypervisor that runs other guests on its
//! cores, take a core away for milliseconds. A queue that is 70 % busy needs more than three times
//! as long to catch up.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::process::{self, CLIENT, SERVER};

/// Shorter gaps are those of a thread that runs.
const GAP_MIN: Duration = Duration::from_micros(20);

/// Both cores are kept busy for this time. Then how long a queue waits that is served for this
/// `load` of the time, on the server's core and on the client's, if nothing but the machine delays
/// it: ms, at this `share` of moments.
pub(super) fn waits_at_load(time: Duration, load: f64, share: f64) -> anyhow::Result<(f64, f64)> {
    thread::scope(|scope| {
        let gaps = |core| scope.spawn(move || process::on(core, || gaps(time)));
        let (server, client) = (gaps(SERVER), gaps(CLIENT));
        let wait = |gaps: thread::ScopedJoinHandle<'_, anyhow::Result<Vec<Gap>>>| {
            let gaps = gaps.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            anyhow::Ok(within(&waits(&gaps, time, load), time, load, share).as_secs_f64() * 1e3)
        };
        Ok((wait(server)?, wait(client)?))
    })
}

/// A period in which a thread that only reads the clock did not run.
struct Gap {
    /// Since the beginning.
    at: Duration,
    length: Duration,
}

fn gaps(time: Duration) -> Vec<Gap> {
    let began = Instant::now();
    let (mut gaps, mut last) = (Vec::new(), began);
    while last < began + time {
        let now = Instant::now();
        if now - last >= GAP_MIN {
            gaps.push(Gap { at: last - began, length: now - last });
        }
        last = now;
    }
    gaps
}

/// The waiting time at the start of each gap, and the time until the next. A gap adds its length;
/// from then on the wait gets shorter by what the queue is not served for.
fn waits(gaps: &[Gap], time: Duration, load: f64) -> Vec<(Duration, Duration)> {
    let ends = gaps.iter().skip(1).map(|next| next.at).chain([time]);
    let mut left = Duration::ZERO;
    let wait = |(gap, end): (&Gap, Duration)| {
        let (wait, lasts) = (left + gap.length, end.saturating_sub(gap.at));
        left = wait.saturating_sub(lasts.mul_f64(1.0 - load));
        (wait, lasts)
    };
    gaps.iter().zip(ends).map(wait).collect()
}

/// The quantile `share` of the waiting time over all moments.
fn within(waits: &[(Duration, Duration)], time: Duration, load: f64, share: f64) -> Duration {
    let beyond = |bound: Duration| {
        let above = |(wait, lasts): &(Duration, Duration)| {
            wait.saturating_sub(bound).div_f64(1.0 - load).min(*lasts)
        };
        waits.iter().map(above).sum::<Duration>()
    };
    let allowed = time.mul_f64(1.0 - share);
    let longest = waits.iter().map(|(wait, _)| *wait).max().unwrap_or_default();
    let (mut low, mut high) = (Duration::ZERO, longest);
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
    fn a_gap_is_waited_for_longer_the_busier_the_queue() {
        let ms = Duration::from_millis;
        let gaps = |gaps: &[(u64, u64)]| -> Vec<Gap> {
            gaps.iter().map(|&(at, length)| Gap { at: ms(at), length: ms(length) }).collect()
        };
        let wait = |list: &[(u64, u64)], load, share| {
            let waits = waits(&gaps(list), ms(1_000), load);
            (within(&waits, ms(1_000), load, share).as_secs_f64() * 1e3).round()
        };
        assert_eq!(wait(&[], 0.7, 0.99), 0.0);
        // An idle machine: 10 of 1,000 times are in the gap, and half of those requests wait for at
        // least 5 ms.
        assert_eq!(wait(&[(100, 10)], 0.0, 0.99), 0.0);
        assert_eq!(wait(&[(100, 10)], 0.0, 0.995), 5.0);
        // At half load the queue is empty after 20 ms, and requests in 10 ms of those wait for at
        // least 5 ms.
        assert_eq!(wait(&[(100, 10)], 0.5, 0.99), 5.0);
        // The second gap begins before the queue of the first is empty.
        assert_eq!(wait(&[(100, 10), (110, 10)], 0.5, 0.99), 10.0);
        // A stall at the end of the measurement is cut off.
        assert_eq!(wait(&[(995, 10)], 0.5, 0.995), 0.0);
    }
}
