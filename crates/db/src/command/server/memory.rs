//! MEMORY, RESCALE, and what there is to compact.

use std::sync::atomic::Ordering::Relaxed;

use super::super::Call;
use crate::{
    failure::{Failure, SYNTAX},
    parameters::{MEMORY_BYTES_MIN, parse_bytes},
};

/// What one entry costs beside its key and value: header in the log, index, alignment.
const ENTRY_BYTES: usize = 48;

/// Sets the memory of the whole process, in bytes. All shards are held.
pub(super) fn apply(call: &mut Call<'_, '_>, bytes: u64) {
    call.server.parameters.memory_bytes.store(bytes, Relaxed);
    let resident = call.server.host.memory_for_shards(bytes);
    let share = resident as usize / call.keys.count;
    call.keys.held().for_each(|shard| shard.store.rescale(share));
}

/// RESCALE: what memory there is. RESCALE 1GiB: what there shall be.
pub(crate) fn rescale(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    match call.args {
        [_] => call.reply.integer(call.server.parameters.memory_bytes.load(Relaxed) as i64),
        [_, wanted] => {
            let wanted = std::str::from_utf8(wanted).ok().and_then(parse_bytes);
            let wanted = wanted.filter(|&bytes| bytes >= MEMORY_BYTES_MIN).ok_or_else(|| {
                Failure("ERR expected a number of bytes of at least 8MiB, such as 512MiB".into())
            })?;
            apply(call, wanted);
            call.reply.ok();
        }
        _ => return Err(SYNTAX),
    }
    Ok(())
}

pub(crate) fn usage(call: &mut Call<'_, '_>) -> Result<(), Failure> {
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
    Ok(())
}

pub(crate) fn stats(call: &mut Call<'_, '_>) -> Result<(), Failure> {
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
    Ok(())
}

pub(crate) fn doctor(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    let resident = call.server.host.resident_bytes();
    let budget = call.server.parameters.memory_bytes.load(Relaxed);
    call.reply.verbatim(&format!(
        "{resident} bytes are resident of a budget of {budget}. `enroute db advise` says what other budgets would give."
    ));
    Ok(())
}

/// Space is reclaimed all the time; there is nothing to start.
pub(crate) fn compact(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    call.reply.simple("Background append only file rewriting started");
    Ok(())
}
