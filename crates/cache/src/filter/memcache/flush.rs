//! `flush_all` with a delay: the origin drops its items at a later time.
//!
//! Items read before are served until shortly before that time. From then until the origin has
//! certainly dropped its items, nothing is stored.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Larger numbers are absolute times in seconds, not delays.
const DELAY_MAX_S: i64 = 30 * 24 * 3_600;
/// memcached counts whole seconds, when its timer runs.
const CLOCK: Duration = Duration::from_secs(2);
/// memcached flushes one of its seconds early.
const EARLY: Duration = Duration::from_secs(1);
/// Maximum time that a flush may take to reach the origin.
const LATE: Duration = Duration::from_secs(60);

/// Pending flushes, as one interval from the first to the last.
#[derive(Debug, Default)]
pub struct Flushes(Mutex<Option<(Duration, Duration)>>);

impl Flushes {
    /// Notes that a `flush_all` with this delay is sent; `clock` is the time of day at time zero.
    pub(super) fn sent(&self, delay_s: i64, clock: Duration, now: Duration) {
        // The origin uses 32 bits of it.
        let delay_s = i64::from(delay_s as i32);
        let delay_s = match delay_s > DELAY_MAX_S {
            true => delay_s - i64::try_from((clock + now).as_secs()).unwrap_or(i64::MAX),
            false => delay_s,
        };
        let Ok(delay_s @ 1..) = u64::try_from(delay_s) else { return };
        let at = now + Duration::from_secs(delay_s);
        let (from, until) = (at.saturating_sub(CLOCK + EARLY), at + LATE);
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *pending = match *pending {
            Some((first, last)) if last > now => Some((first.min(from), last.max(until))),
            _ => Some((from, until)),
        };
    }

    /// Returns the end of the time for which a reply to a read sent at `asked_at` may be served.
    pub(super) fn bound(&self, asked_at: Duration) -> Option<Duration> {
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.filter(|(_, until)| asked_at < *until).map(|(from, _)| from)
    }
}

/// Returns the time for which an item may be served whose remaining lifetime at the origin is
/// `left_s` seconds.
pub(super) fn lives(left_s: u64) -> Duration {
    Duration::from_secs(left_s).saturating_sub(CLOCK)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Flushes;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn what_is_read_before_a_flush_is_not_served_after_it() {
        let clock = seconds(2_000_000_000);
        let bound = |delay_s: i64, asked_at| {
            let flushes = Flushes::default();
            flushes.sent(delay_s, clock, seconds(100));
            flushes.bound(seconds(asked_at))
        };
        assert_eq!(bound(10, 100), Some(seconds(107)));
        assert_eq!(bound(10, 169), Some(seconds(107)));
        assert_eq!(bound(10, 170), None);
        assert_eq!(bound(1, 100), Some(seconds(98)));
        // A flush now or in the past: the write itself drops everything.
        for delay in [0, -1, 1 << 32, 2_000_000_000] {
            assert_eq!(bound(delay, 100), None, "{delay}");
        }
        assert_eq!(bound(2_000_000_130, 100), Some(seconds(127)));
        assert_eq!(bound((1 << 32) + 10, 100), Some(seconds(107)));
    }

    #[test]
    fn several_flushes_count_as_one_from_the_first_to_the_last() {
        let flushes = Flushes::default();
        flushes.sent(100, seconds(0), seconds(0));
        flushes.sent(10, seconds(0), seconds(1));
        assert_eq!(flushes.bound(seconds(120)), Some(seconds(8)));
        assert_eq!(flushes.bound(seconds(160)), None);
        flushes.sent(10, seconds(0), seconds(200));
        assert_eq!(flushes.bound(seconds(200)), Some(seconds(207)));
    }
}
