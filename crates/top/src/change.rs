//! Two readings of the statistics of a service, and what happened in between.

use serde_json::Value;
use telemetry::quantile;

/// The change of the statistics over an interval.
pub(super) struct Change<'a> {
    before: &'a Value,
    pub(super) now: &'a Value,
    seconds: f64,
}

impl<'a> Change<'a> {
    /// From `before` to `now`, `seconds` later. All since the start, if the service has been read
    /// for the first time or has started again.
    pub(super) fn new(before: &'a Value, now: &'a Value, seconds: f64) -> Self {
        let uptime = |stats: &Value| stats["uptime_seconds"].as_f64();
        if before.is_null() || uptime(now) < uptime(before) {
            let seconds = uptime(now).unwrap_or(f64::NAN);
            return Self { before: &Value::Null, now, seconds };
        }
        Self { before, now, seconds }
    }

    pub(super) fn is_first(&self) -> bool {
        self.before.is_null()
    }

    /// The value at `path` now; 0 if there is none.
    pub(super) fn value(&self, path: &str) -> f64 {
        number(self.now, path)
    }

    /// By how much the value at `path` has grown.
    pub(super) fn gain(&self, path: &str) -> f64 {
        number(self.now, path) - number(self.before, path)
    }

    /// The same for each second.
    pub(super) fn rate(&self, path: &str) -> f64 {
        self.gain(path) / self.seconds
    }

    /// The names at `path` whose counts have grown, with their shares, the largest first.
    pub(super) fn shares(&self, path: &str) -> Vec<(&'a str, f64)> {
        let names = self.now.pointer(path).and_then(Value::as_object);
        let names = names.into_iter().flatten().map(|(name, _)| name.as_str());
        let mut gains: Vec<_> =
            names.map(|name| (name, self.gain(&format!("{path}/{name}")))).collect();
        let total: f64 = gains.iter().map(|(_, gain)| gain).sum();
        gains.retain(|(_, gain)| *gain > 0.0);
        gains.sort_by(|one, other| other.1.total_cmp(&one.1));
        gains.into_iter().map(|(name, gain)| (name, gain / total)).collect()
    }

    /// The latency that a share of the requests of the interval did not exceed.
    pub(super) fn latency(&self, path: &str, share: f64) -> Option<f64> {
        let path = format!("{path}/buckets");
        let before = buckets(self.before, &path);
        let since = buckets(self.now, &path).into_iter().map(|(upper, count)| {
            let same = before.iter().find(|(other, _)| *other == upper);
            (upper, count - same.map_or(0.0, |(_, count)| *count))
        });
        quantile(&since.collect::<Vec<_>>(), share)
    }
}

fn number(stats: &Value, path: &str) -> f64 {
    stats.pointer(path).and_then(Value::as_f64).unwrap_or_default()
}

fn buckets(stats: &Value, path: &str) -> Vec<(f64, f64)> {
    let buckets = stats.pointer(path).and_then(Value::as_array);
    let pair = |bucket: &Value| Some((bucket[0].as_f64()?, bucket[1].as_f64()?));
    buckets.into_iter().flatten().filter_map(pair).collect()
}
