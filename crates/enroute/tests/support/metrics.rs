//! What `/metrics` says.

use std::{net::SocketAddr, thread, time::Duration, time::Instant};

use super::{
    enroute::ask,
    process::{PATIENCE, Process},
};

/// The samples of one scrape.
#[derive(Debug)]
pub struct Metrics(String);

/// The admin endpoint that a process has logged.
pub fn admin_of(process: &Process) -> SocketAddr {
    let line = process.stderr_line("admin: http://");
    let line = line.unwrap_or_else(|| panic!("no admin endpoint:\n{}", process.stderr()));
    let address = line.trim_start_matches("admin: http://").trim_end_matches('/');
    address.parse().expect("an address")
}

impl Metrics {
    /// Scrapes the admin endpoint at `address` until `settled`: a latency is counted after the
    /// client may have received its answer.
    pub fn once(address: SocketAddr, settled: impl Fn(&Self) -> bool) -> Self {
        let started = Instant::now();
        loop {
            let metrics = Self::scrape(address);
            if settled(&metrics) {
                return metrics;
            }
            assert!(started.elapsed() < PATIENCE, "{}", metrics.0);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Scrapes as Prometheus does; it gets OpenMetrics, where each metric has a help text.
    fn scrape(address: SocketAddr) -> Self {
        let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        let head = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n");
        let answer = ask(address, &head);
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = answer.body;
        assert!(text.ends_with("\n# EOF\n"), "{text}");
        for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = name.split(' ').next().unwrap_or_default();
            assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help in:\n{text}");
        }
        Self(text)
    }

    /// The value of a sample, with its labels in any order.
    pub fn value(&self, sample: &str) -> f64 {
        let lines = self.0.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.into_iter().find(|(found, _)| words(found) == words(sample));
        let (_, value) = found.unwrap_or_else(|| panic!("no {sample} in:\n{}", self.0));
        value.parse().expect("a number")
    }

    /// Number of requests in a histogram, which its buckets have as well.
    pub fn count(&self, histogram: &str, labels: &str) -> u64 {
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let count = self.value(&format!("{histogram}_count{braces}"));
        let more = if labels.is_empty() { String::new() } else { format!("{labels},") };
        assert_eq!(self.value(&format!("{histogram}_bucket{{{more}le=\"+Inf\"}}")), count);
        let sum = self.value(&format!("{histogram}_sum{braces}"));
        assert_eq!(sum > 0.0, count > 0.0, "{histogram} {labels}: {sum} of {count}");
        count as u64
    }
}

/// The name and the labels of a sample, sorted.
fn words(sample: &str) -> Vec<&str> {
    let mut words: Vec<&str> =
        sample.split(['{', ',', '}']).filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words
}
