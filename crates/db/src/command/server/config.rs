//! CONFIG GET, SET, RESETSTAT, REWRITE.

use std::sync::atomic::Ordering::Relaxed;

use acl::DEFAULT;
use notation::glob;

use crate::{call::Call, failure::Failure, outcome::Outcome, parameters::Change, shard::Counters};

pub(crate) fn get(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let all = call.server.parameters.all("");
    let patterns: Vec<Vec<u8>> =
        call.args[2..].iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    let matching =
        |name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes()));
    let found: Vec<_> = all.iter().filter(|(name, _)| matching(name)).collect();
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.text(name);
        call.reply.text(value);
    }
    Ok(Outcome::Done)
}

pub(crate) fn set(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let pairs = &call.args[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(Failure("ERR wrong number of arguments for 'config|set' command".into()));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let changes: Result<Vec<Change>, Failure> = pairs
        .chunks_exact(2)
        .map(|pair| {
            let name = text(pair[0]).to_ascii_lowercase();
            call.server.parameters.check(&name, &text(pair[1]))
        })
        .collect();
    for change in changes? {
        apply(call, change)?;
    }
    call.reply.ok();
    Ok(Outcome::Done)
}

fn apply(call: &mut Call<'_, '_>, change: Change) -> Result<(), Failure> {
    let parameters = &call.server.parameters;
    match change {
        Change::Memory(bytes) => super::memory::apply(call, bytes),
        Change::Clients(count) => parameters.clients_max.store(count, Relaxed),
        Change::Timeout(seconds) => parameters.timeout_seconds.store(seconds, Relaxed),
        Change::Sync(sync) => {
            parameters.set_sync(sync);
            call.keys.held().for_each(|shard| shard.store.set_sync(sync));
        }
        Change::TrackedKeys(keys_max) => {
            parameters.tracked_keys_max.store(keys_max, Relaxed);
            let count = call.keys.count;
            for (index, shard) in call.keys.held_with_index() {
                let share = keys_max / count + usize::from(index < keys_max % count);
                shard.tracking.limit(share);
            }
        }
        Change::Goal(goal) => parameters.set_goal(goal),
        Change::Password(password) if password.is_empty() => {
            call.server.acl.set(DEFAULT, &["nopass"])?;
        }
        Change::Password(password) => {
            call.server.acl.set(DEFAULT, &["resetpass", &format!(">{password}")])?;
        }
        Change::Nothing => {}
    }
    Ok(())
}

pub(crate) fn resetstat(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let stats = &call.server.stats;
    for counter in [
        &stats.commands,
        &stats.connections,
        &stats.rejected,
        &stats.input_bytes,
        &stats.output_bytes,
        &stats.errors,
        &stats.waits,
    ] {
        counter.store(0, Relaxed);
    }
    call.keys.held().for_each(|shard| shard.counters = Counters::default());
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn rewrite(_: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    Err(Failure("ERR The server is running without a config file".into()))
}
