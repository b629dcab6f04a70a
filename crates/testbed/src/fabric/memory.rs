//! Whether a run fits into memory, before it starts.

use std::fs;

use ::fabric::SAMPLES_MAX;
use anyhow::bail;

use super::experiment::Experiment;

/// Upper estimate of the memory of a run for each of these: 410,865 VMs and a million flows took
/// 172 MiB. An open connection and its packets in flight take more than a row, but few are open at
/// a time.
const BYTES_PER_ROW: u64 = 256;
/// Upper estimate for the text of a row.
const BYTES_PER_LINE: u64 = 32;
const BYTES_PER_VM: u64 = 64;
const BYTES_PER_ENTRY: u64 = 16;
const BYTES_PER_SERVER: u64 = 4 << 10;
const BYTES_PER_SWITCH_SAMPLED: u64 = 16;
/// Events, packets in flight, and constant parts.
const BYTES_BESIDE: u64 = 256 << 20;

/// A run that does not fit into the available memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TooLarge(String);

/// Upper estimate of the memory of a run of this experiment, in bytes.
#[must_use]
pub fn estimate(experiment: &Experiment) -> u64 {
    let topology = &experiment.topology;
    // Each thread has its own copy of what does not belong to flows.
    let threads = experiment.config.threads as u64;
    let samples = if experiment.config.sample_interval_ns == 0 { 0 } else { SAMPLES_MAX as u64 };
    [
        (experiment.workload.flows.len() as u64, BYTES_PER_ROW),
        (threads * u64::from(topology.vms()), BYTES_PER_VM),
        (threads * experiment.config.cache_entries, BYTES_PER_ENTRY),
        (threads * u64::from(topology.servers()), BYTES_PER_SERVER),
        (samples * u64::from(topology.switches()), BYTES_PER_SWITCH_SAMPLED),
        (threads, BYTES_BESIDE),
    ]
    .into_iter()
    .fold(0, |sum, (count, bytes): (u64, u64)| sum.saturating_add(count.saturating_mul(bytes)))
}

/// Fails if the `jobs` largest of these do not fit into memory at the same time.
///
/// # Errors
///
/// The error states the memory needed and available.
pub fn check<'a>(
    experiments: impl Iterator<Item = &'a Experiment>,
    jobs: usize,
) -> anyhow::Result<()> {
    let mut needed: Vec<u64> = experiments.map(estimate).collect();
    needed.sort_unstable_by(|a, b| b.cmp(a));
    let needed = needed.into_iter().take(jobs).fold(0, u64::saturating_add);
    let advice =
        if jobs > 1 { ", fewer cache entries or fewer --jobs" } else { " or fewer cache entries" };
    fits(needed, &format!(" for {jobs} at a time"), advice)
}

/// Fails if a trace of this many rows does not fit, before they are generated.
///
/// # Errors
///
/// The error states the memory needed and available.
pub fn check_rows(rows: f64) -> anyhow::Result<()> {
    fits((rows * BYTES_PER_ROW as f64) as u64, &format!(" for {rows:.0} rows"), "")
}

/// The longest text of a trace whose run might fit, in bytes.
#[must_use]
pub fn text_bytes_max() -> u64 {
    available().map_or(u64::MAX, |available| available / BYTES_PER_ROW * BYTES_PER_LINE)
}

fn fits(needed: u64, what: &str, advice: &str) -> anyhow::Result<()> {
    let Some(available) = available().filter(|&available| needed > available) else {
        return Ok(());
    };
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    bail!(TooLarge(format!(
        "about {:.1} GiB of memory would be needed{what}, {:.1} GiB are available; take a shorter \
         trace{advice}",
        gib(needed),
        gib(available),
    )));
}

/// Memory available to this process, in bytes: of the system or of its control group.
fn available() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let of_group = |limit, used| Some(number(limit)?.saturating_sub(number(used)?));
    let groups = [
        of_group("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        of_group(
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ];
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let system = line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024;
    groups.into_iter().flatten().chain([system]).min()
}
