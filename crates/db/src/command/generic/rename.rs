//! RENAME, RENAMENX, COPY, MOVE.

use super::database;
use crate::{
    call::Call,
    failure::{Failure, NO_SUCH_KEY, SYNTAX},
    outcome::Outcome,
    row::Row,
};

const SAME: Failure =
    Failure(std::borrow::Cow::Borrowed("ERR source and destination objects are the same"));

pub(crate) fn rename(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    replace(call, false)?;
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn renamenx(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let renamed = replace(call, true)?;
    call.reply.flag(renamed);
    Ok(Outcome::Done)
}

fn replace(call: &mut Call<'_, '_>, only_absent: bool) -> Result<bool, Failure> {
    let (from, to) = (call.args[1], call.args[2]);
    let entry = call.keys.get(from).ok_or(NO_SUCH_KEY)?;
    let (value, expires_at) = (entry.value.to_vec(), entry.expires_at);
    if from == to {
        return Ok(!only_absent);
    }
    if only_absent && call.keys.exists(to) {
        return Ok(false);
    }
    call.keys.put(to, &value, expires_at)?;
    call.keys.delete(from)
}

/// The database COPY writes to.
fn target(arguments: &[&[u8]], own: u8) -> Result<(u8, bool), Failure> {
    let (mut target, mut replace) = (own, false);
    let mut rest = arguments;
    loop {
        match rest {
            [] => return Ok((target, replace)),
            [word, after @ ..] if word.eq_ignore_ascii_case(b"REPLACE") => {
                replace = true;
                rest = after;
            }
            [word, index, after @ ..] if word.eq_ignore_ascii_case(b"DB") => {
                target = database(index)?;
                rest = after;
            }
            _ => return Err(SYNTAX),
        }
    }
}

/// The database beside the selected one that COPY or MOVE touches.
pub(crate) fn other_database(row: &Row, args: &[Box<[u8]>]) -> Option<u8> {
    let args: Vec<&[u8]> = args.iter().map(|argument| &**argument).collect();
    match row.name() {
        "copy" => {
            target(&args[3..], u8::MAX).ok().map(|(target, _)| target).filter(|&at| at != u8::MAX)
        }
        "move" => database(args[2]).ok(),
        _ => None,
    }
}

pub(crate) fn copy(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let (from, to) = (call.args[1], call.args[2]);
    let (target, replace) = target(&call.args[3..], call.keys.database)?;
    if target == call.keys.database && from == to {
        return Err(SAME);
    }
    call.keys.load(target, to, true)?;
    if let Some(pending) = call.keys.pending() {
        return Ok(pending);
    }
    let Some(entry) = call.keys.get(from) else {
        call.reply.flag(false);
        return Ok(Outcome::Done);
    };
    let (value, expires_at) = (entry.value.to_vec(), entry.expires_at);
    let copies = replace || call.keys.get_of(target, to).is_none();
    if copies {
        call.keys.put_of(target, to, &value, expires_at)?;
    }
    call.reply.flag(copies);
    Ok(Outcome::Done)
}

pub(crate) fn move_key(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let key = call.args[1];
    let target = database(call.args[2])?;
    if target == call.keys.database {
        return Err(SAME);
    }
    call.keys.load(target, key, true)?;
    if let Some(pending) = call.keys.pending() {
        return Ok(pending);
    }
    let free = call.keys.get_of(target, key).is_none();
    let entry = call.keys.get(key).filter(|_| free);
    let moved = entry.map(|entry| (entry.value.to_vec(), entry.expires_at));
    if let Some((value, expires_at)) = &moved {
        call.keys.put_of(target, key, value, *expires_at)?;
        call.keys.delete(key)?;
    }
    call.reply.flag(moved.is_some());
    Ok(Outcome::Done)
}
