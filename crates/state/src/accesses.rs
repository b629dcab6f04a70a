//! Access pattern monitor (AnnaBellaDB §II): who reads and writes how much of each slot.
//!
//! Agents report what they counted in a period; here it becomes rates that follow a change within a
//! few periods and forget what has ended. The prototype counts each key in a window of a minute;
//! slots bound what is kept by slots in use × hosts that use them.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::{Host, slot::Slot};

/// What a host did with a slot in one period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands that only read.
    pub reads: u64,
    /// Commands that may write.
    pub writes: u64,
    /// Bytes of both, requests and answers.
    pub bytes: u64,
    /// Reads answered from a copy on the host; they are not among the others.
    pub copied: u64,
}

/// The same, a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rate {
    /// Reads a second.
    pub reads: f64,
    /// Writes a second.
    pub writes: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// Reads a second that copies on the host answer; they are not among the others.
    pub copied: f64,
}

impl Rate {
    /// Accesses a second that wait for a node.
    #[must_use]
    pub fn accesses(self) -> f64 {
        self.reads + self.writes
    }

    /// Whether it is too little to be remembered.
    fn is_over(self) -> bool {
        self.accesses() + self.copied < RATE_MIN
    }

    fn mixed(self, other: Self, share: f64) -> Self {
        let mix = |old: f64, new: f64| old + (new - old) * share;
        Self {
            reads: mix(self.reads, other.reads),
            writes: mix(self.writes, other.writes),
            bytes: mix(self.bytes, other.bytes),
            copied: mix(self.copied, other.copied),
        }
    }
}

/// A rate below this many accesses a second is forgotten.
const RATE_MIN: f64 = 1e-3;

#[derive(Debug, Clone, Copy)]
struct Known {
    rate: Rate,
    at: Duration,
}

/// Rates of all slots by host.
#[derive(Debug)]
pub struct Accesses {
    half_life: Duration,
    slots: BTreeMap<Slot, HashMap<Host, Known>>,
}

impl Accesses {
    /// Nothing known yet. After `half_life` a change has come through by half.
    #[must_use]
    pub fn new(half_life: Duration) -> Self {
        Self { half_life, slots: BTreeMap::new() }
    }

    /// `host` did this with `slot` during the `period` that has just ended.
    pub fn report(
        &mut self,
        host: Host,
        slot: Slot,
        counts: Counts,
        period: Duration,
        now: Duration,
    ) {
        let seconds = period.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let of = |count: u64| count as f64 / seconds;
        let fresh = Rate {
            reads: of(counts.reads),
            writes: of(counts.writes),
            bytes: of(counts.bytes),
            copied: of(counts.copied),
        };
        let decayed =
            |known: &Known, half_life| decay(known, half_life, now.saturating_sub(period));
        let half_life = self.half_life;
        let known = self.slots.entry(slot).or_default().entry(host);
        let known = known.or_insert(Known { rate: Rate::default(), at: now });
        // What was not reported of the time before was nothing.
        let before = decayed(known, half_life);
        *known = Known { rate: before.mixed(fresh, 1.0 - kept(half_life, period)), at: now };
    }

    /// Who uses `slot` how much now, the busiest first.
    #[must_use]
    pub fn of(&self, slot: Slot, now: Duration) -> Vec<(Host, Rate)> {
        let known = self.slots.get(&slot).into_iter().flatten();
        let mut rates: Vec<(Host, Rate)> =
            known.map(|(&host, known)| (host, decay(known, self.half_life, now))).collect();
        rates.retain(|(_, rate)| !rate.is_over());
        rates.sort_by(|(a, one), (b, other)| {
            other.accesses().total_cmp(&one.accesses()).then(a.cmp(b))
        });
        rates
    }

    /// Slots that anybody uses, in order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.keys().copied()
    }

    /// Forgets what nobody uses any more.
    pub fn advance(&mut self, now: Duration) {
        let half_life = self.half_life;
        self.slots.retain(|_, hosts| {
            hosts.retain(|_, known| !decay(known, half_life, now).is_over());
            !hosts.is_empty()
        });
    }
}

/// The share of an old rate that is left after `time`.
fn kept(half_life: Duration, time: Duration) -> f64 {
    (-time.as_secs_f64() / half_life.as_secs_f64().max(f64::MIN_POSITIVE)).exp2()
}

fn decay(known: &Known, half_life: Duration, now: Duration) -> Rate {
    let left = kept(half_life, now.saturating_sub(known.at));
    Rate::default().mixed(known.rate, left)
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

    #[test]
    fn a_steady_rate_is_found_and_a_mover_is_followed() {
        let mut accesses = Accesses::new(2 * S);
        for second in 1..=20 {
            accesses.report(Host(0), slot(7), counts(100, 10), S, S * second);
        }
        let (host, rate) = accesses.of(slot(7), 20 * S)[0];
        assert_eq!(host, Host(0));
        assert!((rate.reads - 100.0).abs() < 0.5 && (rate.writes - 10.0).abs() < 0.1, "{rate:?}");
        for second in 21..=23 {
            accesses.report(Host(1), slot(7), counts(100, 10), S, S * second);
        }
        let hosts: Vec<Host> = accesses.of(slot(7), 23 * S).iter().map(|&(host, _)| host).collect();
        assert_eq!(hosts, [Host(1), Host(0)]);
    }

    #[test]
    fn periods_of_any_length_say_the_same() {
        let (mut short, mut long) = (Accesses::new(5 * S), Accesses::new(5 * S));
        for tenth in 1..=100 {
            short.report(Host(0), slot(1), counts(5, 1), S / 10, S / 10 * tenth);
        }
        for second in 1..=10 {
            long.report(Host(0), slot(1), counts(50, 10), S, S * second);
        }
        let (short, long) = (short.of(slot(1), 10 * S)[0].1, long.of(slot(1), 10 * S)[0].1);
        assert!((short.reads - long.reads).abs() < 1e-6, "{short:?} {long:?}");
    }

    #[test]
    fn what_ended_is_forgotten() {
        let mut accesses = Accesses::new(S);
        accesses.report(Host(0), slot(1), counts(1_000, 0), S, S);
        accesses.report(Host(0), slot(2), counts(1_000, 0), S, 60 * S);
        accesses.advance(60 * S);
        assert_eq!(accesses.slots().collect::<Vec<_>>(), [slot(2)]);
        assert!(accesses.of(slot(1), 60 * S).is_empty());
    }
}
