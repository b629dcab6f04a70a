//! The simulated origin with the history of its values.

use std::time::Duration;

/// Records of the origin, by number.
pub(crate) const KEYS: usize = 6;
pub(crate) type KeyNumber = usize;
/// The value of a key: the number of the write that set it.
pub(crate) type Value = Option<u32>;

/// The simulated origin: the current values and all former ones.
#[derive(Debug)]
pub(crate) struct Origin {
    values: [Value; KEYS],
    expires_at: [Option<Duration>; KEYS],
    history: [Vec<(u64, Value)>; KEYS],
    pub(crate) now: Duration,
    pub(crate) moment: u64,
}

impl Origin {
    /// An origin without keys.
    pub(crate) fn new() -> Self {
        Self {
            values: [None; KEYS],
            expires_at: [None; KEYS],
            history: std::array::from_fn(|_| vec![(0, None)]),
            now: Duration::from_secs(1),
            moment: 1,
        }
    }

    pub(crate) fn value(&self, key: KeyNumber) -> Value {
        self.values[key]
    }

    pub(crate) fn put(&mut self, key: KeyNumber, value: Value, lives: Option<Duration>) {
        self.moment += 1;
        self.values[key] = value;
        self.expires_at[key] = lives.map(|lives| self.now + lives).filter(|_| value.is_some());
        self.history[key].push((self.moment, value));
    }

    /// The remaining TTL, as PTTL of Redis reports it.
    pub(crate) fn left_ms(&self, key: KeyNumber) -> i64 {
        match (self.values[key], self.expires_at[key]) {
            (None, _) => -2,
            (Some(_), None) => -1,
            (Some(_), Some(at)) => (at - self.now).as_millis() as i64,
        }
    }

    pub(crate) fn expire(&mut self) {
        for key in 0..KEYS {
            if self.expires_at[key].is_some_and(|at| at <= self.now) {
                self.put(key, None, None);
            }
        }
    }

    /// Returns the values that `key` had at any moment from `from` on.
    pub(crate) fn since(&self, key: KeyNumber, from: u64) -> Vec<Value> {
        let history = &self.history[key];
        let first = history.partition_point(|(moment, _)| *moment <= from).saturating_sub(1);
        history[first..].iter().map(|(_, value)| *value).collect()
    }
}
