//! MULTI, EXEC, DISCARD, WATCH, UNWATCH, as far as they are said; `session/transaction.rs` does them.

use super::super::{Call, Outcome};
use crate::{
    failure::Failure,
    session::{Transaction, Watched},
};

/// Keys one client may watch at once.
const WATCHED_MAX: usize = 65_536;

pub(crate) fn multi(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    if call.session.transaction.is_some() {
        return Err(Failure("ERR MULTI calls can not be nested".into()));
    }
    call.session.transaction = Some(Transaction::default());
    call.session.client.details.lock().queued = Some(0);
    call.reply.ok();
    Ok(Outcome::Done)
}

/// Only said without MULTI.
pub(crate) fn exec(_: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    Err(Failure("ERR EXEC without MULTI".into()))
}

pub(crate) fn discard(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    if call.session.transaction.is_none() {
        return Err(Failure("ERR DISCARD without MULTI".into()));
    }
    call.session.leave_transaction();
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn watch(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let database = call.keys.database;
    if call.session.transaction.is_some() {
        return Err(Failure("ERR WATCH inside MULTI is not allowed".into()));
    }
    if call.session.watched.len() + call.args.len() > WATCHED_MAX {
        return Err(Failure::new(format!("ERR more than {WATCHED_MAX} keys watched")));
    }
    for &key in &call.args[1..] {
        let key: Box<[u8]> = key.into();
        let watched = &mut call.session.watched;
        if !watched.iter().any(|one| one.database == database && one.key == key) {
            let version = call.keys.get(&key).map(|entry| entry.version);
            watched.push(Watched { database, key, version });
        }
    }
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn unwatch(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.session.watched.clear();
    call.reply.ok();
    Ok(Outcome::Done)
}
