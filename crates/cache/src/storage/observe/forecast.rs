//! What was foreseen, as numbers and as text.

use std::fmt::{self, Write};

use store::elastic::{Advice, Point};

use telemetry::Spread;

use crate::key::Shown;

/// Groups that the text shows.
const GROUPS_SHOWN: usize = 20;

/// What caching would have answered since the start. All but counts of reads come from a sample.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// Reads, those that are never stored included.
    pub reads: u64,
    /// Reads by key, which storage could answer.
    pub reads_by_key: u64,
    /// Number of keys that are followed now.
    pub keys_sampled: usize,
    /// Sizes of storage, ascending: each twice the one before, the middle one as configured.
    pub sizes: Vec<Size>,
    /// Reads by command and prefix of the key, most first, at most 64.
    pub groups: Vec<Group>,
    /// Bytes of answers that storage of the configured size would have given.
    pub bytes: f64,
    /// Time that the origin took for reads of one key that would have been hits.
    pub latency: Spread,
}

/// A size of storage.
#[derive(Debug, Clone)]
pub struct Size {
    /// Its limit, in bytes.
    pub memory_bytes: usize,
    /// Its limit of items, if it has one.
    pub items_max: Option<usize>,
    /// Bytes and items that it would hold now.
    pub held_bytes: f64,
    /// Items that it would hold now.
    pub held_items: f64,
    /// Share of all reads that it would have answered.
    pub hit_ratio: f64,
}

/// Reads of one command with one prefix, with storage of the configured size.
#[derive(Debug, Clone)]
pub struct Group {
    /// The command.
    pub command: &'static str,
    /// The prefix with its separator, empty if the keys have none; or `database.collection`.
    pub prefix: Box<[u8]>,
    /// Reads.
    pub reads: f64,
    /// Those that storage would have answered.
    pub hits: f64,
    /// Bytes of these answers.
    pub bytes: f64,
    /// Time that the origin took for these.
    pub latency: Spread,
}

impl Forecast {
    /// The size of the configuration.
    #[must_use]
    pub fn configured(&self) -> &Size {
        &self.sizes[self.sizes.len() / 2]
    }

    /// The hit ratio by memory. It has no point below the smallest size.
    #[must_use]
    pub fn curve(&self) -> Advice {
        let point =
            |size: &Size| Point { memory_bytes: size.memory_bytes, hit_ratio: size.hit_ratio };
        Advice {
            fixed_bytes: 0,
            points: self.sizes.iter().map(point).collect(),
            lookups_sampled: self.reads_by_key,
        }
    }

    /// The hit ratio with `memory_bytes`, between two sizes by interpolation.
    #[must_use]
    pub fn hit_ratio(&self, memory_bytes: usize) -> f64 {
        let smallest = self.sizes.first().map_or(0, |size| size.memory_bytes);
        self.curve().hit_ratio(memory_bytes.max(smallest))
    }
}

impl fmt::Display for Forecast {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reads, reads_by_key, .. } = self;
        writeln!(
            out,
            "forecast: {reads} reads seen, {reads_by_key} of them by key. Nothing was stored. \
             Caching would have answered:"
        )?;
        writeln!(
            out,
            "{:>14} {:>12} {:>10} {:>14}",
            "memory", "items max", "hit ratio", "holds now"
        )?;
        for (index, size) in self.sizes.iter().enumerate() {
            let items = size.items_max.map_or("-".to_owned(), |items| items.to_string());
            let configured = if index == self.sizes.len() / 2 { "  as configured" } else { "" };
            let [memory, held] = [size.memory_bytes as f64, size.held_bytes].map(mebibytes);
            let ratio = percent(size.hit_ratio);
            writeln!(out, "{memory:>14} {items:>12} {ratio:>10} {held:>14}{configured}")?;
        }
        let enough = mebibytes(self.curve().enough_bytes() as f64);
        let [p50, p99] = self.latency.percentiles().map(milliseconds);
        writeln!(
            out,
            "More memory than {enough} would answer less than one more read in a thousand. Hits would \
             have saved {} of replies and, at the origin, p50 {p50}, p99 {p99} each.",
            mebibytes(self.bytes)
        )?;
        self.groups_to(out)
    }
}

impl Forecast {
    fn groups_to(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:<12} {:<28} {:>12} {:>10} {:>10} {:>10} {:>12}",
            "command", "key prefix", "reads", "hit ratio", "p50", "p99", "bytes"
        )?;
        for group in self.groups.iter().take(GROUPS_SHOWN) {
            let mut prefix = String::new();
            match &group.prefix[..] {
                [] => prefix.push('-'),
                bytes => write!(prefix, "{}", Shown(bytes))?,
            }
            let (reads, ratio) = (group.reads, percent(group.hits / group.reads.max(1.0)));
            let [p50, p99] = group.latency.percentiles().map(milliseconds);
            let (command, bytes) = (group.command, mebibytes(group.bytes));
            writeln!(
                out,
                "{command:<12} {prefix:<28} {reads:>12.0} {ratio:>10} {p50:>10} {p99:>10} {bytes:>12}"
            )?;
        }
        Ok(())
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

fn milliseconds(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), |seconds| format!("{:.2} ms", 1e3 * seconds))
}
