//! Metrics for Prometheus: text exposition format 0.0.4.

use std::fmt::{Display, Write};

/// Metrics being written. All names begin with one prefix.
pub struct Exposition {
    prefix: &'static str,
    text: String,
}

impl Exposition {
    /// No metrics yet; their names begin with `prefix` and an underscore.
    #[must_use]
    pub fn new(prefix: &'static str) -> Self {
        Self { prefix, text: String::new() }
    }

    /// A value that only grows; its name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str) -> Samples<'_> {
        self.begin(name, help, "counter")
    }

    /// A value that rises and falls.
    pub fn gauge(&mut self, name: &str, help: &str) -> Samples<'_> {
        self.begin(name, help, "gauge")
    }

    /// The text.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }

    fn begin(&mut self, name: &str, help: &str, kind: &str) -> Samples<'_> {
        let (prefix, text) = (self.prefix, &mut self.text);
        write!(text, "# HELP {prefix}_{name} {help}\n# TYPE {prefix}_{name} {kind}\n")
            .expect("a string takes everything");
        Samples { text, name: format!("{prefix}_{name}") }
    }
}

/// Writes the samples of the metric begun last.
pub struct Samples<'a> {
    text: &'a mut String,
    name: String,
}

impl Samples<'_> {
    /// The one sample of a metric without labels.
    pub fn value(self, value: impl Display) {
        writeln!(self.text, "{} {value}", self.name).expect("a string takes everything");
    }

    /// One sample of several, with its labels.
    pub fn labelled(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let escape =
            |value: &str| value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        writeln!(self.text, "{}{{{}}} {value}", self.name, labels.join(","))
            .expect("a string takes everything");
    }

    /// One sample for each value of `label`.
    pub fn each(mut self, label: &str, counts: &[(&str, u64)]) {
        for (name, count) in counts {
            self.labelled(&[(label, name)], count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Exposition;

    #[test]
    fn metrics_have_help_type_and_samples() {
        let mut metrics = Exposition::new("enroute");
        metrics.counter("hits_total", "Reads answered.").value(3);
        metrics.gauge("items_limit", "Items at most.").value("+Inf");
        metrics.counter("misses_total", "By reason.").each("reason", &[("absent", 1), ("hot", 2)]);
        metrics.gauge("certificate", "Names.").labelled(&[("of", "a\"b\\c\nd"), ("is", "e")], 1.5);
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
"##;
        assert_eq!(metrics.finish(), expected);
    }
}
