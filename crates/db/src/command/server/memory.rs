//! MEMORY and RESCALE.

use std::{fmt::Write, sync::atomic::Ordering::Relaxed, time::Duration};

use notation::{parse_duration, parse_redis_size};
use store::elastic::Advice;

use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    memory::MEMORY_BYTES_MIN,
    outcome::Outcome,
};

/// Overhead of one entry besides its key and value: header in the log, index, alignment.
const ENTRY_BYTES: usize = 48;

/// Sets the memory of the whole process, in bytes. All shards are held.
pub(super) fn apply(call: &mut Call<'_, '_>, bytes: u64) {
    call.server.parameters.memory_bytes.store(bytes, Relaxed);
    let resident = call.server.host.memory_for_shards(bytes);
    let share = resident as usize / call.keys.count;
    call.keys.held().for_each(|shard| shard.store.rescale(share));
}

/// Maximum number of sizes that RESCALE ADVISE lists.
const ADVISED_MAX: usize = 24;

/// The goal for a size: a share of the lookups answered from memory, or an average wait for the
/// disk.
enum Target {
    Share(f64),
    Wait(Duration),
}

impl Target {
    fn parse(text: &[u8]) -> Result<Self, Failure> {
        let text = std::str::from_utf8(text).unwrap_or_default();
        let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        let wait = || parse_duration(text).ok().map(Self::Wait);
        share.map(Self::Share).or_else(wait).ok_or(Failure(
            "ERR expected a share of lookups from 0 to 1, or a mean wait such as 50us".into(),
        ))
    }

    /// The share of lookups that memory must answer where a read from disk takes `read_us`.
    fn hit_ratio(&self, read_us: f64) -> f64 {
        match self {
            Self::Share(share) => *share,
            Self::Wait(wait) => (1.0 - wait.as_secs_f64() * 1e6 / read_us).max(0.0),
        }
    }
}

/// RESCALE ADVISE: the effect of every size, from recent lookups. RESCALE ADVISE 0.95 and RESCALE
/// ADVISE 50us: also the smallest size that reaches the target.
fn advise(call: &mut Call<'_, '_>, options: &[&[u8]]) -> Result<(), Failure> {
    let target = match options {
        [] => None,
        [target] => Some((String::from_utf8_lossy(target), Target::parse(target)?)),
        _ => return Err(SYNTAX),
    };
    let shards: Vec<Advice> = call.keys.held().map(|shard| shard.store.advice()).collect();
    let advice = Advice::merge(&shards);
    if advice.points.is_empty() {
        call.reply
            .verbatim("no lookups were sampled yet; ask again after clients have read keys\n");
        return Ok(());
    }
    let stats = &call.server.stats;
    let reads = stats.disk_reads.load(Relaxed).max(1);
    let read_us = stats.disk_read_ns.load(Relaxed) as f64 / reads as f64 / 1e3;
    // What the process needs beside its shards.
    let whole = |bytes: usize| call.server.host.memory_for_process(bytes as u64) as f64 / MEBIBYTE;
    let mut text = format!(
        "lookups sampled: {}; mean disk read {read_us:.0} µs\n{:>12} {:>10} {:>16}\n",
        advice.lookups_sampled, "memory MiB", "hit ratio", "disk µs/lookup"
    );
    let mut rows = advice.points.clone();
    // Sizes that are printed alike have one row.
    rows.dedup_by_key(|point| (whole(point.memory_bytes) * 10.0).round() as u64);
    let step = rows.len().div_ceil(ADVISED_MAX).max(1);
    for point in rows.iter().step_by(step) {
        let wait = advice.mean_latency(point.memory_bytes, 0.0, read_us);
        let size = whole(point.memory_bytes);
        let _ = writeln!(text, "{size:>12.1} {:>10.4} {wait:>16.2}", point.hit_ratio);
    }
    let _ = writeln!(text, "memory beyond {:.1} MiB has no effect", whole(advice.enough_bytes()));
    if let Some((asked, target)) = target {
        let _ = match advice.smallest_for(target.hit_ratio(read_us)) {
            Some(bytes) => writeln!(text, "{asked} needs at least {:.1} MiB", whole(bytes)),
            None => writeln!(
                text,
                "{asked} cannot be reached with any size: some keys are looked up only once"
            ),
        };
    }
    call.reply.verbatim(&text);
    Ok(())
}

const MEBIBYTE: f64 = 1_048_576.0;

fn size(wanted: &[u8]) -> Result<u64, Failure> {
    let wanted = std::str::from_utf8(wanted).ok().and_then(parse_redis_size);
    wanted.filter(|&bytes| bytes >= MEMORY_BYTES_MIN).ok_or_else(|| {
        Failure("ERR expected a number of bytes of at least 32MiB, such as 512MiB".into())
    })
}

/// Without arguments returns the memory limit. RESCALE 1GiB sets it. RESCALE REQUEST 1GiB asks the
/// orchestrator for it.
pub(crate) fn rescale(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    match call.args {
        [_] => call.reply.integer(call.server.parameters.memory_bytes.load(Relaxed) as i64),
        [_, word, options @ ..] if word.eq_ignore_ascii_case(b"ADVISE") => advise(call, options)?,
        [_, wanted] => {
            apply(call, size(wanted)?);
            call.reply.ok();
        }
        [_, word, wanted] if word.eq_ignore_ascii_case(b"REQUEST") => {
            let wanted = size(wanted)?;
            if !call.server.host.has_orchestrator() {
                return Err(Failure(
                    "ERR no orchestrator is configured; set --orchestrator".into(),
                ));
            }
            call.server.parameters.memory_bytes_wanted.store(wanted, Relaxed);
            call.reply.ok();
        }
        _ => return Err(SYNTAX),
    }
    Ok(Outcome::Done)
}

pub(crate) fn usage(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    match &call.args[3..] {
        [] => {}
        [word, count] if word.eq_ignore_ascii_case(b"SAMPLES") => {
            crate::number::integer(count)?;
        }
        _ => return Err(SYNTAX),
    }
    let key = call.args[2];
    match call.keys.get(key) {
        Some(entry) => {
            let bytes = entry.value.len() + key.len() + ENTRY_BYTES;
            call.reply.count(bytes);
        }
        None => call.reply.null(),
    }
    Ok(Outcome::Done)
}

pub(crate) fn stats(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let keys: u64 = call.keys.held().map(|shard| shard.store.len()).sum();
    let resident = call.server.host.resident_bytes();
    let budget = call.server.parameters.memory_bytes.load(Relaxed);
    let reply = &mut call.reply;
    reply.map(5);
    for (name, value) in [
        ("total.allocated", resident),
        ("keys.count", keys),
        ("budget.bytes", budget),
        ("allocator.resident", resident),
        ("clients.count", call.server.clients.len() as u64),
    ] {
        reply.text(name);
        reply.integer(value as i64);
    }
    Ok(Outcome::Done)
}

pub(crate) fn doctor(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let resident = call.server.host.resident_bytes();
    let budget = call.server.parameters.memory_bytes.load(Relaxed);
    call.reply.verbatim(&format!(
        "{resident} bytes are resident of a budget of {budget}. `enroute db advise` shows the \
         effect of other budgets."
    ));
    Ok(Outcome::Done)
}

/// Starts nothing, because space is reclaimed all the time.
pub(crate) fn compact(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.simple("Background append only file rewriting started");
    Ok(Outcome::Done)
}
