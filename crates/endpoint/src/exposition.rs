//! Metrics for Prometheus, in its text format, which crate `prometheus-client` writes.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text},
    metrics::MetricType,
    registry::Registry,
};

/// Metrics read at one time. All names begin with one prefix.
#[derive(Debug)]
pub struct Exposition {
    prefix: &'static str,
    metrics: Vec<Metric>,
}

#[derive(Debug)]
struct Metric {
    name: String,
    help: String,
    kind: MetricType,
    samples: Vec<(Vec<(String, String)>, Value)>,
}

/// The value of a sample.
#[derive(Debug, Clone)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// A fraction, or an infinity.
    Real(f64),
    /// Of a histogram.
    Spread {
        /// Sum of all that was counted.
        sum: f64,
        /// Upper bound and count of each bucket, ascending.
        buckets: Vec<(f64, u64)>,
    },
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Whole(value as u64)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl Exposition {
    /// No metrics yet; their names begin with `prefix` and an underscore.
    #[must_use]
    pub fn new(prefix: &'static str) -> Self {
        Self { prefix, metrics: Vec::new() }
    }

    /// A value that only grows; `_total` is added to its name.
    pub fn counter(&mut self, name: &str, help: &str) -> Samples<'_> {
        debug_assert!(!name.ends_with("_total"), "{name}: the ending is added");
        self.begin(name, help, MetricType::Counter)
    }

    /// A value that rises and falls.
    pub fn gauge(&mut self, name: &str, help: &str) -> Samples<'_> {
        self.begin(name, help, MetricType::Gauge)
    }

    /// Counts by size. What exceeds the last bucket is counted in it, as `+Inf`.
    pub fn histogram(&mut self, name: &str, help: &str, sum: f64, buckets: Vec<(f64, u64)>) {
        self.begin(name, help, MetricType::Histogram).value(Value::Spread { sum, buckets });
    }

    /// The text, of content type [`METRICS_TYPE`](crate::METRICS_TYPE).
    #[must_use]
    pub fn finish(self) -> String {
        let (mut registry, mut text) = (Registry::with_prefix(self.prefix), String::new());
        registry.register_collector(Box::new(self));
        prometheus_text::encode(&mut text, &registry).expect("a string takes everything");
        text
    }

    fn begin(&mut self, name: &str, help: &str, kind: MetricType) -> Samples<'_> {
        let (name, help) = (name.to_owned(), help.to_owned());
        Samples(self.metrics.push_mut(Metric { name, help, kind, samples: Vec::new() }))
    }
}

/// The samples of the metric begun last.
pub struct Samples<'a>(&'a mut Metric);

impl Samples<'_> {
    /// The one sample of a metric without labels.
    pub fn value(mut self, value: impl Into<Value>) {
        self.labelled(&[], value);
    }

    /// One sample of several, with its labels.
    pub fn labelled(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        self.0.samples.push((labels.iter().map(owned).collect(), value.into()));
    }

    /// One sample for each value of `label`.
    pub fn each(mut self, label: &str, counts: &[(&str, u64)]) {
        for &(name, count) in counts {
            self.labelled(&[(label, name)], count);
        }
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Metric { name, help, kind, samples } in &self.metrics {
            let mut metric = encoder.encode_descriptor(name, help, None, *kind)?;
            for (labels, value) in samples {
                value.clone().encode(*kind, metric.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

impl Value {
    fn encode(self, kind: MetricType, mut sample: MetricEncoder<'_>) -> fmt::Result {
        match (kind, self) {
            (MetricType::Counter, Self::Whole(value)) => {
                sample.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }
            (MetricType::Counter, Self::Real(value)) => {
                sample.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }
            (_, Self::Spread { sum, mut buckets }) => {
                if let Some((upper, _)) = buckets.last_mut() {
                    *upper = f64::INFINITY;
                }
                let count = buckets.iter().map(|(_, count)| count).sum();
                sample.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
            }
            (_, Self::Whole(value)) => sample.encode_gauge(&value),
            (_, Self::Real(value)) => sample.encode_gauge(&value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Exposition;

    #[test]
    fn metrics_have_help_type_and_samples() {
        let mut metrics = Exposition::new("enroute");
        metrics.counter("hits", "Reads answered.").value(3_u64);
        metrics.gauge("items_limit", "Items at most.").value(f64::INFINITY);
        metrics.counter("misses", "By reason.").each("reason", &[("absent", 1), ("hot", 2)]);
        metrics.gauge("certificate", "Names.").labelled(&[("of", "a\"b\\c\nd"), ("is", "e")], 1.5);
        let buckets = vec![(0.5, 1), (1.0, 0), (2.0, 2)];
        metrics.histogram("seconds", "Latency.", 9.5, buckets);
        let expected = r##"# HELP enroute_hits_total Reads answered.
# TYPE enroute_hits_total counter
enroute_hits_total 3
# HELP enroute_items_limit Items at most.
# TYPE enroute_items_limit gauge
enroute_items_limit +Inf
# HELP enroute_misses_total By reason.
# TYPE enroute_misses_total counter
enroute_misses_total{reason="absent"} 1
enroute_misses_total{reason="hot"} 2
# HELP enroute_certificate Names.
# TYPE enroute_certificate gauge
enroute_certificate{of="a\"b\\c\nd",is="e"} 1.5
# HELP enroute_seconds Latency.
# TYPE enroute_seconds histogram
enroute_seconds_bucket{le="0.5"} 1
enroute_seconds_bucket{le="1"} 1
enroute_seconds_bucket{le="+Inf"} 3
enroute_seconds_sum 9.5
enroute_seconds_count 3
"##;
        assert_eq!(metrics.finish(), expected);
    }
}
