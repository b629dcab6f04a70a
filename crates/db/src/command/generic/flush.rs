//! FLUSHALL and FLUSHDB.

use super::{super::Call, scan};
use crate::{
    failure::{Failure, SYNTAX},
    keyspace::DATABASES,
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

pub(crate) fn flushall(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    options(call)?;
    clear(call)
}

pub(crate) fn flushdb(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    options(call)?;
    let own = call.keys.database;
    call.keys.load_counts()?;
    if !call.keys.missing.is_empty() {
        return Ok(());
    }
    if (0..DATABASES).all(|other| other == own || call.keys.len(other) == 0) {
        return clear(call);
    }
    // The keys of one database lie among those of the others: they are dropped one by one.
    let Some(found) = scan::walk_all(call)? else { return Ok(()) };
    for key in found {
        call.keys.load(own, &key, true)?;
        if call.keys.missing.is_empty() {
            call.keys.delete(&key)?;
        }
    }
    if call.keys.missing.is_empty() {
        call.reply.ok();
    }
    Ok(())
}

fn clear(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    let now = call.keys.now;
    for shard in call.keys.held() {
        shard.clear(now)?;
    }
    call.session.flushed = true;
    call.reply.ok();
    Ok(())
}
