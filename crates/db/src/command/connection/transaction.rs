//! Arguments and replies of MULTI, EXEC, DISCARD, WATCH, UNWATCH; `session/transaction.rs` executes
//! them.

use crate::{
    call::Call,
    connection::{Queue, Watched},
    failure::Failure,
    outcome::Outcome,
};

/// Keys one client may watch at once.
const WATCHED_MAX: usize = 65_536;

pub(crate) fn multi(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    if call.connection.transaction.queue.is_some() {
        return Err(Failure("ERR MULTI calls can not be nested".into()));
    }
    call.connection.transaction.queue = Some(Queue::default());
    call.connection.client.details.lock().queued = Some(0);
    call.reply.ok();
    Ok(Outcome::Done)
}

/// Reached only without MULTI.
pub(crate) fn exec(_: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    Err(Failure("ERR EXEC without MULTI".into()))
}

pub(crate) fn discard(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    if call.connection.transaction.queue.is_none() {
        return Err(Failure("ERR DISCARD without MULTI".into()));
    }
    call.connection.leave_transaction();
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn watch(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let database = call.keys.database;
    if call.connection.transaction.queue.is_some() {
        return Err(Failure("ERR WATCH inside MULTI is not allowed".into()));
    }
    if call.connection.transaction.watched.len() + call.args.len() > WATCHED_MAX {
        return Err(Failure::new(format!("ERR more than {WATCHED_MAX} keys watched")));
    }
    for &key in &call.args[1..] {
        let key: Box<[u8]> = key.into();
        let watched = &mut call.connection.transaction.watched;
        if !watched.iter().any(|one| one.database == database && one.key == key) {
            let version = call.keys.get(&key).map(|entry| entry.version);
            watched.push(Watched { database, key, version });
        }
    }
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn unwatch(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.connection.transaction.watched.clear();
    call.reply.ok();
    Ok(Outcome::Done)
}
