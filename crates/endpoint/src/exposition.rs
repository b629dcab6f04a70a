//! Metrics for Prometheus, in its text format or in that of OpenMetrics, which crate
//! `prometheus-client` writes; and latencies, in metrics and in JSON.

use std::fmt;

use hyper::header::{ACCEPT, HeaderMap};
use prometheus_client::{
    collector::Collector,
    encoding::{self, DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text},
    metrics::MetricType,
    registry::Registry,
};
use serde::{Serialize, Serializer, ser::SerializeMap};
use telemetry::Spread;

use crate::{Answer, text};

/// Media type of OpenMetrics, without its parameters.
const OPEN_METRICS: &str = "application/openmetrics-text";
/// Content type of OpenMetrics as it is written here.
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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

/// What a service has counted.
#[derive(Debug)]
pub struct Report {
    /// Content of `/stats`.
    pub statistics: serde_json::Value,
    /// Content of `/metrics`.
    pub exposition: Exposition,
}

/// Latencies since the start, in seconds: a histogram in metrics; in JSON `count`, `sum`, `p50`,
/// `p99` (absent, `null`, without requests) and `buckets`, pairs of an upper bound and a number of
/// requests.
#[derive(Debug, Clone, Default)]
pub struct Latency(pub Spread);

impl From<&Latency> for Value {
    fn from(Latency(spread): &Latency) -> Self {
        Self::Spread { sum: spread.seconds, buckets: spread.coarse_buckets() }
    }
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let [p50, p99] = self.0.percentiles();
        let mut map = to.serialize_map(Some(5))?;
        map.serialize_entry("count", &self.0.count())?;
        map.serialize_entry("sum", &self.0.seconds)?;
        map.serialize_entry("p50", &p50)?;
        map.serialize_entry("p99", &p99)?;
        map.serialize_entry("buckets", &self.0.buckets())?;
        map.end()
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
    pub fn histogram(&mut self, name: &str, help: &str) -> Samples<'_> {
        debug_assert!(name.ends_with("_seconds"), "{name}: the unit is missing");
        self.begin(name, help, MetricType::Histogram)
    }

    /// The answer to a client with these headers: OpenMetrics if it accepts that.
    #[must_use]
    pub fn answer(self, headers: &HeaderMap) -> Answer {
        let mut metrics = String::new();
        let mut registry = Registry::with_prefix(self.prefix);
        registry.register_collector(Box::new(self));
        let (kind, written) = match accepts_open_metrics(headers) {
            true => (OPEN_METRICS_TYPE, encoding::text::encode(&mut metrics, &registry)),
            false => {
                (prometheus_text::CONTENT_TYPE, prometheus_text::encode(&mut metrics, &registry))
            }
        };
        written.expect("a string takes everything");
        text(kind, metrics)
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

fn accepts_open_metrics(headers: &HeaderMap) -> bool {
    let ranges = headers.get_all(ACCEPT).into_iter().filter_map(|line| line.to_str().ok());
    ranges.flat_map(|line| line.split(',')).any(|range| {
        let mut words = range.split(';').map(str::trim);
        let is_named = words.next().is_some_and(|name| name.eq_ignore_ascii_case(OPEN_METRICS));
        // An earlier version is another format; a weight of 0 excludes it.
        is_named
            && words.all(|word| match word.split_once('=') {
                Some(("version", version)) => version == "1.0.0",
                Some(("q", weight)) => weight.parse().is_ok_and(|weight: f32| weight > 0.0),
                _ => true,
            })
    })
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
    use std::time::Duration;

    use http_body_util::BodyExt;
    use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
    use telemetry::{Counter, Latencies};

    use super::{Exposition, Latency, Value, accepts_open_metrics};

    /// Content type and text for a client that accepts this.
    fn answer(metrics: Exposition, accepts: &str) -> (String, String) {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accepts).unwrap())]);
        let answer = metrics.answer(&headers);
        let kind = answer.headers()[CONTENT_TYPE].to_str().expect("text").to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let body = runtime.block_on(answer.into_body().collect()).expect("a body").to_bytes();
        (kind, String::from_utf8(body.to_vec()).expect("text"))
    }

    #[test]
    fn metrics_have_help_type_and_samples() {
        let mut metrics = Exposition::new("enroute");
        metrics.counter("hits", "Reads answered.").value(3_u64);
        metrics.gauge("items_limit", "Items at most.").value(f64::INFINITY);
        metrics.counter("misses", "By reason.").each("reason", &[("absent", 1), ("hot", 2)]);
        metrics.gauge("certificate", "Names.").labelled(&[("of", "a\"b\\c\nd"), ("is", "e")], 1.5);
        let mut latencies = metrics.histogram("latency_seconds", "Latency.");
        for (by, buckets) in [("a", vec![(0.5, 1), (1.0, 0), (2.0, 2)]), ("b", vec![(1.0, 4)])] {
            latencies.labelled(&[("by", by)], Value::Spread { sum: 9.5, buckets });
        }
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
# HELP enroute_latency_seconds Latency.
# TYPE enroute_latency_seconds histogram
enroute_latency_seconds_bucket{by="a",le="0.5"} 1
enroute_latency_seconds_bucket{by="a",le="1"} 1
enroute_latency_seconds_bucket{by="a",le="+Inf"} 3
enroute_latency_seconds_sum{by="a"} 9.5
enroute_latency_seconds_count{by="a"} 3
enroute_latency_seconds_bucket{by="b",le="+Inf"} 4
enroute_latency_seconds_sum{by="b"} 9.5
enroute_latency_seconds_count{by="b"} 4
"##;
        let (kind, text) = answer(metrics, "*/*");
        assert_eq!((&*kind, &*text), ("text/plain; version=0.0.4; charset=utf-8", expected));
    }

    #[test]
    fn a_client_that_accepts_open_metrics_gets_it() {
        let mut metrics = Exposition::new("enroute");
        metrics.counter("hits", "Reads answered").value(3_u64);
        let latencies = Latencies::<Counter>::default();
        latencies.record(Duration::from_millis(3), 2);
        metrics.histogram("latency_seconds", "Latency").value(&Latency(latencies.spread()));
        // As Prometheus asks.
        let accepts = "application/openmetrics-text;version=1.0.0,\
                       application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5";
        let (kind, text) = answer(metrics, accepts);
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        assert!(text.contains("# TYPE enroute_hits counter\nenroute_hits_total 3\n"), "{text}");
        assert!(text.contains("enroute_latency_seconds_bucket{le=\"+Inf\"} 2\n"), "{text}");
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn only_the_version_that_is_written_is_accepted() {
        for (accepts, expected) in [
            ("application/openmetrics-text", true),
            ("text/html, Application/OpenMetrics-Text ; charset=utf-8; q=0.1", true),
            ("application/openmetrics-text; version=0.0.1", false),
            ("application/openmetrics-text; q=0", false),
            ("*/*", false),
        ] {
            let header = HeaderValue::from_str(accepts).expect("a header");
            let headers = HeaderMap::from_iter([(ACCEPT, header)]);
            assert_eq!(accepts_open_metrics(&headers), expected, "{accepts}");
        }
    }
}
