//! Rate limits: a bounded number of token buckets.

use std::{collections::HashMap, hash::Hash, time::Duration};

/// Requests per second on average, and the size of a burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Tokens that come back each second.
    pub per_second: f64,
    /// Tokens there can be.
    pub burst: f64,
}

/// Buckets by key. A bucket that is full again may be forgotten, for a new one is full too.
pub struct Limiter<K> {
    buckets: HashMap<K, Bucket>,
    buckets_max: usize,
}

struct Bucket {
    tokens: f64,
    at: Duration,
    /// The time at which it will be full again.
    full_at: Duration,
}

impl<K: Hash + Eq + Clone> Limiter<K> {
    /// At most `buckets_max` at once.
    pub fn new(buckets_max: usize) -> Self {
        Self { buckets: HashMap::new(), buckets_max }
    }

    /// Takes one token of `key`'s bucket; false if there is none, or no room for one more bucket.
    pub fn take(&mut self, key: &K, rate: Rate, now: Duration) -> bool {
        if !self.buckets.contains_key(key) && !self.make_room(now) {
            return false;
        }
        let bucket = self.buckets.entry(key.clone()).or_insert(Bucket {
            tokens: rate.burst,
            at: now,
            full_at: now,
        });
        let gained = now.saturating_sub(bucket.at).as_secs_f64() * rate.per_second;
        bucket.tokens = (bucket.tokens + gained).min(rate.burst);
        bucket.at = now;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        let missing = (rate.burst - bucket.tokens) / rate.per_second.max(f64::MIN_POSITIVE);
        bucket.full_at = Duration::try_from_secs_f64(missing)
            .map_or(Duration::MAX, |wait| now.saturating_add(wait));
        true
    }

    fn make_room(&mut self, now: Duration) -> bool {
        if self.buckets.len() >= self.buckets_max {
            self.buckets.retain(|_, bucket| bucket.full_at > now);
        }
        self.buckets.len() < self.buckets_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_then_the_rate() {
        let rate = Rate { per_second: 2.0, burst: 3.0 };
        let mut limiter = Limiter::new(10);
        let mut taken = |now| (0..10).filter(|_| limiter.take(&"edge", rate, now)).count();
        assert_eq!(taken(Duration::ZERO), 3);
        assert_eq!(taken(SECOND), 2);
        assert_eq!(taken(SECOND), 0);
        assert_eq!(taken(SECOND * 100), 3);
    }

    #[test]
    fn no_more_buckets_than_allowed_and_full_ones_make_room() {
        let rate = Rate { per_second: 1.0, burst: 1.0 };
        let mut limiter = Limiter::new(2);
        assert!(limiter.take(&1, rate, Duration::ZERO) && limiter.take(&2, rate, Duration::ZERO));
        assert!(!limiter.take(&3, rate, Duration::ZERO));
        assert!(limiter.take(&3, rate, SECOND * 2));
    }
}
