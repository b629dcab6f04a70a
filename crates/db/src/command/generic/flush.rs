//! FLUSHALL and FLUSHDB.

use super::{super::Call, scan};
use crate::failure::{Failure, SYNTAX};

fn options(call: &Call<'_, '_>) -> Result<(), Failure> {
    match call.args {
        [_] => Ok(()),
        [_, mode] if mode.eq_ignore_ascii_case(b"SYNC") || mode.eq_ignore_ascii_case(b"ASYNC") => {
            Ok(())
        }
        _ => Err(SYNTAX),
    }
}

pub(crate) fn flushall(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    options(call)?;
    clear(call)
}

pub(crate) fn flushdb(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    options(call)?;
    let (own, now) = (call.keys.database, call.keys.now);
    call.keys.load_counts()?;
    if call.keys.must_wait() {
        return Ok(());
    }
    if own == 0 && call.keys.held().all(|shard| shard.only_database_0(now)) {
        return clear(call);
    }
    // The keys of one database lie among those of the others: they are dropped one by one.
    let mut walk = call.session.walk.take().unwrap_or_else(|| {
        // Who keeps keys is told at once, of all; of what is read from now on, by name.
        call.keys.held().for_each(|shard| shard.tracking.flushed());
        call.server.clients.invalidate_all();
        scan::Walk::default()
    });
    for _ in 0..PAGES {
        if !scan::turn_page(call, &mut walk) {
            call.session.walk = Some(walk);
            return Ok(());
        }
        for key in &walk.found {
            call.keys.load(own, key, true)?;
        }
        if call.keys.must_wait() {
            call.session.walk = Some(walk);
            return Ok(());
        }
        for key in std::mem::take(&mut walk.found) {
            call.keys.delete(&key)?;
        }
        if walk.is_over() {
            call.reply.ok();
            return Ok(());
        }
    }
    call.session.walk = Some(walk);
    call.session.again = true;
    Ok(())
}

/// Pages dropped in one portion.
const PAGES: usize = 8;

fn clear(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    let now = call.keys.now;
    for shard in call.keys.held() {
        shard.clear(now)?;
    }
    call.session.flushed = true;
    call.reply.ok();
    Ok(())
}
