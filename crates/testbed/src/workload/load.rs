//! Reads, and the end of the load.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::recorder::{Outcome, Recorder};

/// Reads of one client, which sends the next when the last is answered (a closed loop).
#[derive(Clone, Debug)]
pub struct Load {
    /// Keys are drawn uniformly from 1 to this.
    pub keys: u64,
    /// Seed of the keys.
    pub seed: u64,
    /// Maximum number of reads.
    pub reads_max: u64,
    /// Time after the start at which the last read may start.
    pub duration_max: Duration,
}

impl Load {
    /// Runs the load on this thread; `read` reads a key and returns the source of the answer. Once
    /// `stop` is true no further read starts. Read `recorder` from another thread.
    ///
    /// # Errors
    /// The first error of `read`, which ends the load.
    pub fn drive(
        &self,
        recorder: &Mutex<Recorder>,
        stop: &AtomicBool,
        mut read: impl FnMut(u64) -> anyhow::Result<Outcome>,
    ) -> anyhow::Result<()> {
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let started = Instant::now();
        for _ in 0..self.reads_max {
            let asked = started.elapsed();
            if asked >= self.duration_max || stop.load(Relaxed) {
                break;
            }
            let outcome = read(random.random_range(1..=self.keys))?;
            let now = started.elapsed();
            recorder.lock().record(outcome, now - asked, now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(reads_max: u64) -> Load {
        Load { keys: 100, seed: 1, reads_max, duration_max: Duration::MAX }
    }

    /// Number of reads of each key.
    fn counts(load: &Load) -> Vec<u64> {
        let mut counts = vec![0; load.keys as usize + 1];
        let read = |key: u64| {
            counts[key as usize] += 1;
            Ok(Outcome::Miss)
        };
        load.drive(&Mutex::default(), &AtomicBool::new(false), read).unwrap();
        counts
    }

    #[test]
    fn every_key_is_read_about_equally() {
        let counts = counts(&load(100_000));
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_same_seed_repeats_and_another_does_not() {
        assert_eq!(counts(&load(50)), counts(&load(50)));
        assert_ne!(counts(&load(50)), counts(&Load { seed: 2, ..load(50) }));
    }

    #[test]
    fn time_a_wish_and_an_error_end_it() {
        let never = |_| panic!("nothing may be read");
        let recorder = Mutex::default();
        let over = Load { duration_max: Duration::ZERO, ..load(9) };
        over.drive(&recorder, &AtomicBool::new(false), never).unwrap();
        load(9).drive(&recorder, &AtomicBool::new(true), never).unwrap();
        let mut left = 3;
        let fail = |_| {
            left -= 1;
            anyhow::ensure!(left > 0, "wrong");
            Ok(Outcome::Hit)
        };
        load(9).drive(&recorder, &AtomicBool::new(false), fail).unwrap_err();
        assert_eq!(recorder.lock().summary().reads, 2);
    }
}
