//! Results of a run, as a line of JSON and a line of CSV.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::Path,
};

use ::fabric::{FlowResult, Layer, Metrics, SwitchMetrics, topology::Topology};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    controller::Solve,
    experiment::{Experiment, Inputs, Outcome},
};

/// One run: inputs and results. It contains no times of this machine: the same inputs give the same
/// bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its inputs.
    #[serde(flatten)]
    pub inputs: Inputs,
    /// Its results.
    #[serde(flatten)]
    pub results: Results,
}

/// Results of a run. Latencies are means unless named otherwise; packets of both directions count.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names and docs/guide/fabric.md say it")]
pub struct Results {
    pub packets_sent: u64,
    pub packets_received: u64,
    pub packets_dropped: u64,
    pub packets_in_flight: u64,
    /// Packets that arrived with duplicate data only; not counted as received.
    #[serde(default)]
    pub packets_repeated: u64,
    pub gateway_packets: u64,
    pub hit_rate: f64,
    pub flows: u64,
    pub flows_completed: u64,
    pub fct_us: f64,
    pub fct_us_p50: f64,
    pub fct_us_p99: f64,
    pub first_packet_latency_us: f64,
    pub packet_latency_us: f64,
    pub packet_hops: f64,
    pub learning_packets: u64,
    pub invalidation_packets: u64,
    pub misdelivered: u64,
    pub last_misdelivered_us: f64,
    pub core: LayerResults,
    pub spine: LayerResults,
    pub tor: LayerResults,
    pub events: u64,
    pub packet_hops_simulated: u64,
    pub end_ns: u64,
    /// Bytes each switch processed: cores, then spines, then ToRs.
    pub switch_bytes: Vec<u64>,
    /// The same of each pod's spines and ToRs together.
    #[serde(default)]
    pub pod_bytes: Vec<u64>,
    /// The controller's solves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub solves: Vec<SolveResult>,
}

/// Values of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct LayerResults {
    pub bytes: u64,
    pub hits: u64,
    pub first_hits: u64,
}

/// Recorded values of a solve, without its duration, which depends on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SolveResult {
    pub at_us: f64,
    pub variables: usize,
    pub entries: usize,
    pub gap: f64,
}

impl From<&Solve> for SolveResult {
    fn from(solve: &Solve) -> Self {
        let Solve { at_ns, variables, entries, gap, .. } = *solve;
        Self { at_us: at_ns as f64 / 1e3, variables, entries, gap }
    }
}

impl Record {
    /// Builds the result from the `outcome` of `experiment`.
    #[must_use]
    pub fn new(experiment: &Experiment, outcome: &Outcome) -> Self {
        let mut results = Results::new(&experiment.topology, &outcome.metrics);
        results.solves = outcome.solves.iter().map(SolveResult::from).collect();
        Self { inputs: experiment.inputs.clone(), results }
    }

    /// One row of a table, by column: layers as `layer_quantity`, migrations and quirks as text.
    #[must_use]
    pub fn row(&self) -> Map<String, Value> {
        let mut row = Map::new();
        let Ok(Value::Object(fields)) = serde_json::to_value(self) else { return row };
        for (name, value) in fields {
            match value {
                Value::Object(layer) if ["core", "spine", "tor"].contains(&name.as_str()) => {
                    row.extend(layer.into_iter().map(|(part, of)| (format!("{name}_{part}"), of)));
                }
                Value::Array(items) if name == "migrations" => {
                    let items = items.iter().map(|item| item.as_str().unwrap_or_default());
                    row.insert(name, items.collect::<Vec<_>>().join(" ").into());
                }
                Value::Object(quirks) => {
                    let quirks = quirks.iter().map(|(quirk, on)| format!("{quirk}={on}"));
                    row.insert(name, quirks.collect::<Vec<_>>().join(" ").into());
                }
                other => {
                    row.insert(name, other);
                }
            }
        }
        row
    }

    /// The header and the line of CSV: the row without lists.
    #[must_use]
    pub fn csv(&self) -> (String, String) {
        let mut row = self.row();
        row.retain(|_, value| !value.is_array());
        let values = row.values().map(|value| match value {
            Value::String(text) => quoted(text),
            other => other.to_string(),
        });
        let values = values.collect::<Vec<_>>().join(",");
        (row.keys().map(String::as_str).collect::<Vec<_>>().join(","), values)
    }
}

/// A field of CSV, in quotation marks if it needs them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

impl Results {
    fn new(topology: &Topology, metrics: &Metrics) -> Self {
        let mut times: Vec<u64> =
            metrics.per_flow.iter().filter_map(FlowResult::completion_ns).collect();
        times.sort_unstable();
        let percentile_us = |share: f64| {
            let index = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
            times.get(index).map_or(0.0, |&time| time as f64 / 1e3)
        };
        let layer = |layer| LayerResults::of(topology, &metrics.switches, layer);
        Self {
            packets_sent: metrics.sent,
            packets_received: metrics.received,
            packets_dropped: metrics.dropped,
            packets_in_flight: metrics.in_flight,
            packets_repeated: metrics.repeated,
            gateway_packets: metrics.gateway_packets,
            hit_rate: metrics.hit_rate(),
            flows: metrics.flows,
            flows_completed: metrics.flows_completed,
            fct_us: metrics.flow_completion_ns_mean() / 1e3,
            fct_us_p50: percentile_us(0.5),
            fct_us_p99: percentile_us(0.99),
            first_packet_latency_us: metrics.first_packet_latency_ns_mean() / 1e3,
            packet_latency_us: metrics.packet_latency_ns_mean() / 1e3,
            packet_hops: metrics.packet_hops_mean(),
            learning_packets: metrics.learning_packets,
            invalidation_packets: metrics.invalidation_packets,
            misdelivered: metrics.misdelivered,
            last_misdelivered_us: metrics.last_misdelivered_ns as f64 / 1e3,
            core: layer(Layer::Core),
            spine: layer(Layer::Spine),
            tor: layer(Layer::Tor),
            events: metrics.events,
            packet_hops_simulated: metrics.packet_hops_simulated,
            end_ns: metrics.end_ns,
            switch_bytes: metrics.switches.iter().map(|switch| switch.bytes).collect(),
            pod_bytes: pod_bytes(topology, &metrics.switches),
            solves: Vec::new(),
        }
    }
}

/// The spines are listed by pod, then the ToRs.
fn pod_bytes(topology: &Topology, switches: &[SwitchMetrics]) -> Vec<u64> {
    let (cores, spines) = (topology.cores as usize, topology.spines() as usize);
    let sum = |part: &[SwitchMetrics]| part.iter().map(|switch| switch.bytes).sum::<u64>();
    let of = |first: usize, each: u32| switches[first..].chunks(each as usize).map(sum);
    of(cores, topology.spines_per_pod)
        .zip(of(cores + spines, topology.racks_per_pod))
        .take(topology.pods as usize)
        .map(|(spines, tors)| spines + tors)
        .collect()
}

impl LayerResults {
    fn of(topology: &Topology, switches: &[SwitchMetrics], layer: Layer) -> Self {
        let (cores, spines) = (topology.cores as usize, topology.spines() as usize);
        let range = match layer {
            Layer::Core => 0..cores,
            Layer::Spine => cores..cores + spines,
            Layer::Tor => cores + spines..switches.len(),
        };
        switches.get(range).unwrap_or_default().iter().fold(Self::default(), |sum, switch| Self {
            bytes: sum.bytes + switch.bytes,
            hits: sum.hits + switch.hits,
            first_hits: sum.first_hits + switch.first_hits,
        })
    }
}

/// A file of JSON lines to which finished runs are added, each whole or not at all.
#[derive(Debug)]
pub struct Journal {
    file: File,
}

impl Journal {
    /// Opens or creates it, and reads its records. An incomplete last line is removed.
    ///
    /// # Errors
    ///
    /// File and line of an invalid result.
    pub fn open(path: &Path) -> anyhow::Result<(Self, Vec<Record>)> {
        let name = path.display();
        let context = || format!("cannot open {name}");
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(context)?;
        let mut records = Vec::new();
        let mut whole = 0;
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).with_context(context)? > 0 {
            if line.last() != Some(&b'\n') {
                break;
            }
            whole += line.len() as u64;
            let number = records.len() + 1;
            records.push(serde_json::from_slice(&line).with_context(|| {
                format!("{name}:{number}: expected a result of `enroute fabric`, as JSON")
            })?);
            line.clear();
        }
        drop(reader);
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::End(0))).with_context(context)?;
        Ok((Self { file }, records))
    }

    /// Appends a record and syncs it to disk.
    ///
    /// # Errors
    ///
    /// An error of the file system.
    pub fn add(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }
}

/// Writes all records at once, as JSON lines and as CSV: whole files or none.
///
/// # Errors
///
/// An error of the file system.
pub fn write_all(records: &[&Record], json: &Path, csv: &Path) -> anyhow::Result<()> {
    let (mut lines, mut table) = (String::new(), String::new());
    for record in records {
        lines += &serde_json::to_string(record)?;
        lines.push('\n');
        let (header, line) = record.csv();
        if table.is_empty() {
            table = header + "\n";
        }
        table += &line;
        table.push('\n');
    }
    for (path, text) in [(json, lines), (csv, table)] {
        super::write_whole(path, |file| file.write_all(text.as_bytes()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_bytes_are_its_spines_and_tors() {
        let topology = Topology::ft8_10k();
        let bytes = |switch| SwitchMetrics { bytes: switch, ..SwitchMetrics::default() };
        let switches: Vec<_> = (0..u64::from(topology.switches())).map(bytes).collect();
        let pods = pod_bytes(&topology, &switches);
        assert_eq!(pods.len(), 8);
        assert_eq!(pods[0], (16..20).chain(48..52).sum::<u64>());
        assert_eq!(pods[7], (44..48).chain(76..80).sum::<u64>());
    }
}
