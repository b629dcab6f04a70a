//! FLUSHALL and FLUSHDB.

use super::scan;
use crate::{
    call::Call,
    connection::Walk,
    failure::{Failure, SYNTAX},
    outcome::Outcome,
};

fn options(call: &Call<'_, '_>) -> Result<(), Failure> {
    match call.args {
        [_] => Ok(()),
        [_, mode] if mode.eq_ignore_ascii_case(b"SYNC") || mode.eq_ignore_ascii_case(b"ASYNC") => {
            Ok(())
        }
        _ => Err(SYNTAX),
    }
}

pub(crate) fn flushall(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    options(call)?;
    clear(call)
}

pub(crate) fn flushdb(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    options(call)?;
    let (own, now) = (call.keys.database, call.keys.now);
    call.keys.load_counts()?;
    if let Some(pending) = call.keys.pending() {
        return Ok(pending);
    }
    if own == 0 && call.keys.held().all(|shard| shard.only_database_0(now)) {
        return clear(call);
    }
    // The keys of one database lie among those of the others: they are dropped one by one.
    let mut walk = call.connection.progress.walk.take().unwrap_or_else(|| {
        // Tracking clients get one invalidation of everything now, and per-key ones for later
        // reads.
        call.keys.held().for_each(|shard| shard.tracking.flushed());
        call.server.clients.invalidate_all();
        Walk::default()
    });
    for _ in 0..PAGES {
        if let Err(pending) = scan::turn_page(call, &mut walk) {
            call.connection.progress.walk = Some(walk);
            return Ok(pending);
        }
        for key in &walk.found {
            call.keys.load(own, key, true)?;
        }
        if let Some(pending) = call.keys.pending() {
            call.connection.progress.walk = Some(walk);
            return Ok(pending);
        }
        for key in std::mem::take(&mut walk.found) {
            call.keys.delete(&key)?;
        }
        if walk.is_over() {
            call.reply.ok();
            return Ok(Outcome::Done);
        }
    }
    call.connection.progress.walk = Some(walk);
    Ok(Outcome::Again)
}

/// Pages dropped in one portion.
const PAGES: usize = 8;

fn clear(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let now = call.keys.now;
    for shard in call.keys.held() {
        shard.clear(now)?;
    }
    call.reply.ok();
    Ok(Outcome::Flushed)
}
