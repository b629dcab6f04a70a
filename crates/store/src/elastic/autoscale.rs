//! Controller that keeps a latency target with the least memory. It is pure: no clock, no I/O.
//!
//! From the 99th percentile and the miss-ratio curve it computes a budget. The percentile decides
//! whether to change the budget, the curve decides the size. It grows early and shrinks late, in
//! steps. A size that was found too small is not tried again for a time that doubles with each
//! failure, so the budget does not oscillate between two sizes. Growing after shrinking delays the
//! next shrinking, for a time that doubles too, so a load that varies faster than that keeps the
//! memory of its peaks.
//!
//! Decision: `docs/decisions/0014-memory-autoscaling.md`.

use std::time::Duration;

use super::advice::Advice;

/// The target, and its limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Target for the 99th percentile of the lookup time.
    pub target_p99: Duration,
    /// Minimum budget, in bytes.
    pub min_bytes: usize,
    /// Maximum budget, in bytes.
    pub max_bytes: usize,
}

/// Measurements since the last review.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// 99th percentile of lookup times since the last review; `None` if there were too few lookups.
    pub p99: Option<Duration>,
    /// The budget in force, in bytes.
    pub memory_bytes: usize,
    /// The curve.
    pub advice: Advice,
}

/// Number of consecutive slow reviews before growing.
const SLOW_LOOKS: u32 = 3;
/// Number of consecutive reviews well below the target before shrinking.
const FAST_LOOKS: u32 = 6;
/// A review is well below the target if the percentile is below this share of it.
const FAST: f64 = 0.7;
/// Minimum growth of a step, as a share of the budget.
const STEP: f64 = 0.2;
/// Maximum reduction of a step, as a share of the budget.
const STEP_DOWN: f64 = 0.3;
/// Reserve above the size from the curve.
const MARGIN: f64 = 1.1;
/// Hit ratio at which the 99th percentile does not wait for the disk.
const HIT_RATIO: f64 = 0.99;
/// Number of sampled lookups before the curve is used.
const LOOKUPS_MIN: u64 = 2_000;
/// Time for which a size that was found too small is not tried again, the first time.
const AVOID_FIRST: Duration = Duration::from_secs(600);
const AVOID_MAX: Duration = Duration::from_secs(24 * 3600);
/// After this many such periods without a reason to grow, the delay of the next shrinking is reset
/// to its first value.
const CALM: u32 = 4;

/// Decides on the budget.
#[derive(Debug, Clone)]
pub struct Autoscale {
    config: Config,
    slow: u32,
    fast: u32,
    /// The largest size found too small, the time until which it counts, and the length of that
    /// period.
    too_small: usize,
    avoid_until: Duration,
    avoid_for: Duration,
    /// The last change reduced the budget.
    has_shrunk: bool,
    /// Earliest time of the next shrinking, and the delay that determined it.
    stay_until: Duration,
    stay_for: Duration,
}

impl Autoscale {
    /// A controller that has seen nothing.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            slow: 0,
            fast: 0,
            too_small: 0,
            avoid_until: Duration::ZERO,
            avoid_for: AVOID_FIRST,
            has_shrunk: false,
            stay_until: Duration::ZERO,
            stay_for: AVOID_FIRST / 2,
        }
    }

    /// Reviews the budget, a few seconds after the last review; returns a new budget in bytes if it
    /// should change.
    pub fn step(&mut self, seen: &Observation, now: Duration) -> Option<usize> {
        let p99 = seen.p99?;
        let current = seen.memory_bytes;
        let target = self.config.target_p99;
        self.slow = if p99 > target { self.slow + 1 } else { 0 };
        self.fast = if p99 < target.mul_f64(FAST) { self.fast + 1 } else { 0 };
        let next = if self.slow >= SLOW_LOOKS {
            self.grow(current, seen, now)
        } else if self.fast >= FAST_LOOKS && now >= self.stay_until {
            self.shrink(current, seen, now)
        } else {
            return None;
        };
        (self.slow, self.fast) = (0, 0);
        let next = next.clamp(self.config.min_bytes, self.config.max_bytes);
        self.note_change(current, next, now);
        (next != current).then_some(next)
    }

    /// Delays the next shrinking if this change grows the budget after a shrinking.
    fn note_change(&mut self, current: usize, next: usize, now: Duration) {
        if next < current {
            self.has_shrunk = true;
        } else if next > current && std::mem::take(&mut self.has_shrunk) {
            let is_calm = now > self.stay_until + self.stay_for * CALM;
            let longer = if is_calm { AVOID_FIRST } else { self.stay_for * 2 };
            self.stay_for = longer.min(AVOID_MAX);
            self.stay_until = now + self.stay_for;
        }
    }

    fn grow(&mut self, current: usize, seen: &Observation, now: Duration) -> usize {
        // Found too small again: it is avoided for longer.
        let again = current <= self.too_small;
        self.avoid_for = if again { (self.avoid_for * 2).min(AVOID_MAX) } else { AVOID_FIRST };
        self.too_small = self.too_small.max(current);
        self.avoid_until = now + self.avoid_for;
        let least = (current as f64 * (1.0 + STEP)) as usize;
        least.max(wanted(&seen.advice).unwrap_or(0))
    }

    fn shrink(&mut self, current: usize, seen: &Observation, now: Duration) -> usize {
        let Some(wanted) = wanted(&seen.advice) else { return current };
        let mut next = wanted.max((current as f64 * (1.0 - STEP_DOWN)) as usize);
        if now < self.avoid_until {
            // At least half a step above the size that was too small.
            next = next.max((self.too_small as f64 * (1.0 + STEP / 2.0)) as usize);
        }
        // A small reduction is not worth the evictions, and noise in the curve must not cause one.
        if next as f64 > current as f64 * 0.95 { current } else { next }
    }
}

/// The size that the curve suggests.
fn wanted(advice: &Advice) -> Option<usize> {
    if advice.lookups_sampled < LOOKUPS_MIN {
        return None;
    }
    let bytes = advice.smallest_for(HIT_RATIO).unwrap_or_else(|| advice.enough_bytes());
    Some((bytes as f64 * MARGIN) as usize)
}

#[cfg(test)]
mod tests {
    use super::super::advice::Point;
    use super::*;

    const MIB: usize = 1 << 20;
    const LOOK: Duration = Duration::from_secs(5);

    /// A miss curve that reaches `HIT_RATIO` at `needed` bytes, off by the factor `error`.
    fn advice(needed: usize, error: f64) -> Advice {
        let points = (1..=100)
            .map(|percent| {
                let memory_bytes = (needed as f64 * error * f64::from(percent) / 99.0) as usize;
                Point { memory_bytes, hit_ratio: f64::from(percent) / 100.0 }
            })
            .collect();
        Advice { fixed_bytes: 0, points, lookups_sampled: 100_000 }
    }

    fn p99(needed: usize, memory_bytes: usize, noise: f64) -> Duration {
        let micros = if memory_bytes >= needed { 200.0 } else { 1500.0 };
        Duration::from_secs_f64(micros * noise / 1e6)
    }

    struct Simulation {
        scale: Autoscale,
        memory_bytes: usize,
        now: Duration,
        state: u64,
        grown: u32,
        shrunk: u32,
        slow: u32,
    }

    impl Simulation {
        fn new() -> Self {
            let target_p99 = Duration::from_millis(1);
            let config = Config { target_p99, min_bytes: 16 * MIB, max_bytes: 4096 * MIB };
            Self {
                scale: Autoscale::new(config),
                memory_bytes: 64 * MIB,
                now: Duration::ZERO,
                state: 1,
                grown: 0,
                shrunk: 0,
                slow: 0,
            }
        }

        fn noise(&mut self, part: f64) -> f64 {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            1.0 + part * ((self.state >> 33) as f64 / f64::from(1u32 << 31) * 2.0 - 1.0)
        }

        /// Runs `looks` reviews with this need, and a curve that is wrong by up to `error`.
        fn run(&mut self, looks: u32, needed: usize, error: f64) {
            (self.grown, self.shrunk, self.slow) = (0, 0, 0);
            for _ in 0..looks {
                let (noise, error) = (self.noise(0.2), self.noise(error));
                let p99 = p99(needed, self.memory_bytes, noise);
                self.slow += u32::from(p99 > Duration::from_millis(1));
                let seen = Observation {
                    p99: Some(p99),
                    memory_bytes: self.memory_bytes,
                    advice: advice(needed, error),
                };
                if let Some(next) = self.scale.step(&seen, self.now) {
                    let change =
                        if next > self.memory_bytes { &mut self.grown } else { &mut self.shrunk };
                    *change += 1;
                    self.memory_bytes = next;
                }
                self.now += LOOK;
            }
        }
    }

    #[test]
    fn it_finds_the_least_memory_that_holds_the_target() {
        let mut simulation = Simulation::new();
        for needed in [1000, 200, 3000, 100].map(|mib| mib * MIB) {
            simulation.run(2000, needed, 0.05);
            let memory_bytes = simulation.memory_bytes;
            assert!((needed..needed * 5 / 4).contains(&memory_bytes), "{needed} {memory_bytes}");
            assert!(simulation.slow < 20, "slow for {} looks", simulation.slow);
            assert!(simulation.grown == 0 || simulation.shrunk <= 1, "it swings");
        }
    }

    #[test]
    fn a_curve_that_is_wrong_does_not_make_it_swing() {
        let mut simulation = Simulation::new();
        // The curve is 30 % too low every time: the controller shrinks, notices, and stops trying.
        for (needed, wrong) in [(1000 * MIB, 0.7), (500 * MIB, 0.5)] {
            let mut changes = Vec::new();
            for _day in 0..5 {
                (simulation.grown, simulation.shrunk) = (0, 0);
                for _ in 0..24 * 720 {
                    let noise = simulation.noise(0.1);
                    let seen = Observation {
                        p99: Some(p99(needed, simulation.memory_bytes, noise)),
                        memory_bytes: simulation.memory_bytes,
                        advice: advice(needed, wrong),
                    };
                    if let Some(next) = simulation.scale.step(&seen, simulation.now) {
                        let grows = next > simulation.memory_bytes;
                        *(if grows { &mut simulation.grown } else { &mut simulation.shrunk }) += 1;
                        simulation.memory_bytes = next;
                    }
                    simulation.now += LOOK;
                }
                changes.push(simulation.grown);
            }
            // The first day includes the initial growth and most of the doubling of the interval.
            assert!(
                changes[0] <= 20 && changes[1..].iter().all(|count| *count <= 2),
                "{changes:?}"
            );
        }
    }

    /// Counts per day the shrinks that are followed by growth and the reverse, and the slow
    /// reviews, while the need changes with the time of day. The curve remembers a need for some
    /// minutes.
    fn turns_by_day(days: usize, need_mib: impl Fn(u64) -> f64) -> (Vec<usize>, Vec<u32>) {
        let mut simulation = Simulation::new();
        let (mut turns, mut slow) = (Vec::new(), Vec::new());
        let (mut remembered, mut grew) = (0.0_f64, None);
        for _ in 0..days {
            let (mut turned, mut slow_looks) = (0, 0);
            for _ in 0..24 * 720 {
                let needed = need_mib(simulation.now.as_secs()) * MIB as f64;
                // Halves in about five minutes; reviews are 5 s apart.
                remembered = needed.max(remembered * 0.988);
                let (noise, error) = (simulation.noise(0.2), simulation.noise(0.1));
                let p99 = p99(needed as usize, simulation.memory_bytes, noise);
                slow_looks += u32::from(p99 > Duration::from_millis(1));
                let seen = Observation {
                    p99: Some(p99),
                    memory_bytes: simulation.memory_bytes,
                    advice: advice(remembered as usize, error),
                };
                if let Some(next) = simulation.scale.step(&seen, simulation.now) {
                    let grows = next > simulation.memory_bytes;
                    turned +=
                        usize::from(grew.replace(grows).is_some_and(|before| before != grows));
                    simulation.memory_bytes = next;
                }
                simulation.now += LOOK;
            }
            turns.push(turned);
            slow.push(slow_looks);
        }
        (turns, slow)
    }

    #[test]
    fn loads_that_come_and_go_do_not_make_it_swing() {
        let wave =
            |period: u64, high: u64| move |at: u64| if at % period < high { 1000.0 } else { 100.0 };
        let steady = |_: u64| 700.0;
        let (turns, _) = turns_by_day(3, steady);
        assert!(turns.iter().all(|&count| count <= 1), "steady: {turns:?}");
        for (period, high) in [(300, 60), (600, 300), (1200, 120), (1800, 900), (3000, 600)] {
            let (turns, slow) = turns_by_day(4, wave(period, high));
            // The first day is for learning; then it may try once or twice a day whether less
            // memory suffices.
            assert!(turns[0] <= 18, "{period} s: {turns:?}");
            assert!(turns[1..].iter().all(|&count| count <= 4), "{period} s: {turns:?}");
            assert!(slow[3] <= 40, "{period} s: slow for {slow:?} looks");
        }
    }

    #[test]
    fn a_load_that_changes_with_the_day_is_followed() {
        let day = |at: u64| {
            let hour = (at % 86_400) as f64 / 3_600.0;
            550.0 - 450.0 * (hour / 24.0 * std::f64::consts::TAU).cos()
        };
        let (turns, slow) = turns_by_day(4, day);
        assert!(turns[0] <= 16 && turns[1..].iter().all(|&count| count <= 4), "{turns:?}");
        assert!(slow.iter().all(|&looks| looks <= 24 * 720 / 50), "{slow:?}");
    }

    #[test]
    fn a_load_that_falls_is_followed_within_minutes() {
        let mut simulation = Simulation::new();
        simulation.run(2000, 3000 * MIB, 0.05);
        let mut looks = 0;
        while simulation.memory_bytes > 125 * MIB {
            simulation.run(12, 100 * MIB, 0.05);
            looks += 12;
            assert!(looks <= 120, "{} MiB after ten minutes", simulation.memory_bytes / MIB);
        }
    }

    #[test]
    fn a_target_out_of_reach_stops_at_the_most() {
        let mut simulation = Simulation::new();
        simulation.run(500, usize::MAX / 200, 0.0);
        assert_eq!(simulation.memory_bytes, 4096 * MIB);
        assert_eq!(simulation.shrunk, 0);
    }
}
