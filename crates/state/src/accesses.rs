//! Access pattern monitor (AnnaBellaDB §II): reads and writes of each slot by each host.
//!
//! Agents report their counts of a period, which are converted to rates here. Counts are noisy: a
//! slot that is used ten times a second may be used six or fifteen times in the next. A rate that
//! followed this would move slots for nothing, and a long average would detect the move of a
//! function late. Rates are therefore averages, each with a sum of likelihoods (CUSUM) that tests
//! whether twice or half the rate explains the recent counts much better; if so, the average
//! restarts at the beginning of that change. The move of a function is detected within a period or
//! two, a drift with the half-life, and noise has little effect. The prototype counts each key in a
//! window of a minute; counting slots bounds the state to slots in use × hosts that use them.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::{Host, slot::Slot};

/// The accesses of a host to a slot in one period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands that only read.
    pub reads: u64,
    /// Commands that may write.
    pub writes: u64,
    /// Bytes of requests and answers.
    pub bytes: u64,
    /// Reads answered from a copy on the host; not included in `reads`.
    pub copied: u64,
}

/// The same per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rate {
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
    /// Bytes per second.
    pub bytes: f64,
    /// Reads per second that copies on the host answer; not included in `reads`.
    pub copied: f64,
}

impl Rate {
    /// Accesses per second that wait for a node.
    #[must_use]
    pub fn accesses(self) -> f64 {
        self.reads + self.writes
    }

    /// Whether it is large enough to be kept.
    pub(crate) fn is_some(self) -> bool {
        self.all() >= RATE_MIN
    }

    /// All accesses, whether answered from copies or not.
    fn all(self) -> f64 {
        self.accesses() + self.copied
    }

    fn plus(self, other: Self) -> Self {
        self.mixed(other, 0.5).times(2.0)
    }

    fn times(self, factor: f64) -> Self {
        Self::default().mixed(self, factor)
    }

    /// Returns the average in which `other` has the weight `share`.
    pub(crate) fn mixed(self, other: Self, share: f64) -> Self {
        let mix = |old: f64, new: f64| old + (new - old) * share;
        Self {
            reads: mix(self.reads, other.reads),
            writes: mix(self.writes, other.writes),
            bytes: mix(self.bytes, other.bytes),
            copied: mix(self.copied, other.copied),
        }
    }
}

/// Rates below this many accesses per second are dropped.
const RATE_MIN: f64 = 1e-3;
/// Threshold of the log-likelihood ratio between twice or half the rate and the present rate, above
/// which a change counts as detected. By chance it is exceeded in one of a thousand cases in which
/// the counts could distinguish the two.
const CERTAIN: f64 = 7.0;
/// Below this rate, in accesses per second, changes are not detected.
const TOLD_FROM: f64 = 0.5;
/// Assumed time without use of a slot that a host has never used, in seconds.
const UNUSED_S: f64 = 1.0;
/// Time without a report after which a host counts as unused.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// Evidence of a change.
#[derive(Debug, Clone, Copy, Default)]
struct Suspicion {
    likelihood: f64,
    /// The accesses counted since it began, and the length of that time in seconds.
    sum: Rate,
    seconds: f64,
}

impl Suspicion {
    /// Adds the log-likelihood ratio of `counted` accesses in `seconds`, with the change and
    /// without it. Returns the rate since the change began, if it is certain.
    fn weigh(&mut self, likelihood: f64, counted: Rate, seconds: f64) -> Option<(Rate, f64)> {
        self.likelihood += likelihood;
        if self.likelihood <= 0.0 {
            *self = Self::default();
            return None;
        }
        self.sum = self.sum.plus(counted);
        self.seconds += seconds;
        (self.likelihood > CERTAIN).then(|| (self.sum.times(1.0 / self.seconds), self.seconds))
    }
}

#[derive(Debug, Clone, Copy)]
struct Known {
    rate: Rate,
    /// Length of the averaged period in seconds.
    seconds: f64,
    more: Suspicion,
    less: Suspicion,
    /// Time of the host up to which it is known.
    at: Duration,
}

impl Known {
    /// Adds `counted` accesses in the next `seconds`; averages cover at most `seconds_max`.
    fn observe(&mut self, counted: Rate, seconds: f64, seconds_max: f64) {
        if seconds <= 0.0 {
            return;
        }
        let expected = self.rate.all().max(TOLD_FROM) * seconds;
        // For Poisson counts, the logarithm of the likelihood ratio of twice, or half, the rate.
        let doubles = counted.all() * std::f64::consts::LN_2;
        let more = self.more.weigh(doubles - expected, counted, seconds);
        let less = self.less.weigh(expected / 2.0 - doubles, counted, seconds);
        if let Some((rate, seconds)) = more.or(less) {
            (self.rate, self.seconds) = (rate, seconds);
            (self.more, self.less) = Default::default();
        } else {
            self.seconds = (self.seconds + seconds).min(seconds_max.max(seconds));
            self.rate = self.rate.mixed(counted.times(1.0 / seconds), seconds / self.seconds);
        }
    }
}

/// Last report of a host.
#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    /// Sum of all reported periods: the time of the host, so that late reports do not count as
    /// silence.
    time: Duration,
    /// Time of its last report.
    at: Duration,
}

/// Rates of all slots by host.
#[derive(Debug)]
pub struct Accesses {
    half_life: Duration,
    hosts: HashMap<Host, Heard>,
    slots: BTreeMap<Slot, HashMap<Host, Known>>,
}

impl Accesses {
    /// Creates an empty monitor. `half_life` is the half-life of the averages.
    #[must_use]
    pub fn new(half_life: Duration) -> Self {
        Self { half_life, hosts: HashMap::new(), slots: BTreeMap::new() }
    }

    /// Adds the accesses of `host` in its `period` that has just ended; slots that are not listed
    /// were not used.
    pub fn report(
        &mut self,
        host: Host,
        counts: impl IntoIterator<Item = (Slot, Counts)>,
        period: Duration,
        now: Duration,
    ) {
        let seconds_max = self.seconds_max();
        let heard = self.hosts.entry(host).or_default();
        let before = heard.time;
        *heard = Heard { time: before + period, at: now };
        for (slot, counts) in counts {
            let known = self.slots.entry(slot).or_default().entry(host).or_insert(Known {
                rate: Rate::default(),
                seconds: UNUSED_S,
                more: Suspicion::default(),
                less: Suspicion::default(),
                at: before,
            });
            // Slots missing in the report were not used.
            let silent = before.saturating_sub(known.at).as_secs_f64();
            known.observe(Rate::default(), silent, seconds_max);
            known.observe(counts.into(), period.as_secs_f64(), seconds_max);
            known.at = before + period;
        }
    }

    /// Hosts that use `slot` and their rates, the highest first.
    #[must_use]
    pub fn of(&self, slot: Slot, now: Duration) -> Vec<(Host, Rate)> {
        let known = self.slots.get(&slot).into_iter().flatten();
        let mut rates: Vec<(Host, Rate)> =
            known.map(|(&host, known)| (host, self.rate(host, known, now))).collect();
        rates.retain(|(_, rate)| rate.is_some());
        rates.sort_by(|(a, one), (b, other)| {
            other.accesses().total_cmp(&one.accesses()).then(a.cmp(b))
        });
        rates
    }

    /// Slots in use, in order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.keys().copied()
    }

    /// Drops what is no longer used.
    pub fn advance(&mut self, now: Duration) {
        let mut slots = std::mem::take(&mut self.slots);
        slots.retain(|_, hosts| {
            hosts.retain(|&host, known| self.rate(host, known, now).is_some());
            !hosts.is_empty()
        });
        self.slots = slots;
    }

    /// The current rate: without further reports, the slot counts as unused since then.
    fn rate(&self, host: Host, known: &Known, now: Duration) -> Rate {
        let heard = self.hosts.get(&host).copied().unwrap_or_default();
        let gone = now.saturating_sub(heard.at);
        let gone = if gone > SILENT_AFTER { gone } else { Duration::ZERO };
        let silent = heard.time.saturating_sub(known.at) + gone;
        if silent.is_zero() {
            return known.rate;
        }
        let mut known = *known;
        known.observe(Rate::default(), silent.as_secs_f64(), self.seconds_max());
        known.rate
    }

    /// Length of a window whose average follows changes as the half-life does, in seconds.
    fn seconds_max(&self) -> f64 {
        self.half_life.as_secs_f64() / std::f64::consts::LN_2
    }
}

impl From<Counts> for Rate {
    fn from(counts: Counts) -> Self {
        Self {
            reads: counts.reads as f64,
            writes: counts.writes as f64,
            bytes: counts.bytes as f64,
            copied: counts.copied as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn slot(number: usize) -> Slot {
        Slot::new(number).expect("a slot")
    }

    fn counts(reads: u64, writes: u64) -> Counts {
        Counts { reads, writes, bytes: (reads + writes) * 100, copied: 0 }
    }

    fn reads(accesses: &Accesses, host: u16, now: Duration) -> f64 {
        let rates = accesses.of(slot(7), now);
        rates.iter().find(|(found, _)| *found == Host(host)).map_or(0.0, |(_, rate)| rate.reads)
    }

    #[test]
    fn a_mover_is_followed_within_two_periods() {
        let mut accesses = Accesses::new(10 * S);
        let half = S / 2;
        for period in 1..=40 {
            accesses.report(Host(0), [(slot(7), counts(25, 2))], half, half * period);
            accesses.report(Host(1), [], half, half * period);
        }
        let (host, rate) = accesses.of(slot(7), 20 * S)[0];
        assert_eq!(host, Host(0));
        assert!((rate.reads - 50.0).abs() < 0.5 && (rate.writes - 4.0).abs() < 0.1, "{rate:?}");
        for period in 41..=42 {
            accesses.report(Host(0), [], half, half * period);
            accesses.report(Host(1), [(slot(7), counts(25, 2))], half, half * period);
        }
        assert!((reads(&accesses, 1, 21 * S) - 50.0).abs() < 1.0);
        assert_eq!(reads(&accesses, 0, 21 * S), 0.0);
    }

    #[test]
    fn noise_hardly_moves_a_rate_and_a_drift_does() {
        let mut accesses = Accesses::new(10 * S);
        for second in 1..=100_u32 {
            // Ten accesses a second on average, with random variation.
            let count = [4, 13, 9, 16, 8, 11, 6, 12, 10, 11][second as usize % 10];
            accesses.report(Host(0), [(slot(7), counts(count, 0))], S, S * second);
            let rate = reads(&accesses, 0, S * second);
            assert!(second < 20 || (rate - 10.0).abs() < 1.5, "{rate} after {second} s");
        }
        for second in 101..=130_u32 {
            accesses.report(Host(0), [(slot(7), counts(14, 0))], S, S * second);
        }
        assert!((13.0..14.1).contains(&reads(&accesses, 0, 130 * S)));
    }

    #[test]
    fn a_report_that_comes_late_is_no_silence() {
        let mut accesses = Accesses::new(10 * S);
        for second in 1..=20 {
            let late = if second % 3 == 0 { S / 2 } else { Duration::ZERO };
            accesses.report(Host(0), [(slot(7), counts(1_000, 0))], S, S * second + late);
            let rate = reads(&accesses, 0, S * second + 2 * S);
            assert!(second < 2 || (rate - 1_000.0).abs() < 1.0, "{rate}");
        }
        assert_eq!(reads(&accesses, 0, 30 * S), 0.0, "its host is gone");
    }

    #[test]
    fn what_ended_is_forgotten() {
        let mut accesses = Accesses::new(S);
        accesses.report(Host(0), [(slot(1), counts(1_000, 0))], S, S);
        for second in 2..=60 {
            accesses.report(Host(0), [(slot(2), counts(1_000, 0))], S, S * second);
        }
        accesses.advance(60 * S);
        assert_eq!(accesses.slots().collect::<Vec<_>>(), [slot(2)]);
        assert!(accesses.of(slot(1), 60 * S).is_empty());
    }
}
