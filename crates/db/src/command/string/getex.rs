//! GETEX: read, and set the expiry.

use super::Unit;
use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    outcome::Outcome,
};

pub(crate) fn getex(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let key = call.args[1];
    let (mut persist, mut expiry) = (false, None);
    let mut arguments = &call.args[2..];
    while let [option, rest @ ..] = arguments {
        arguments = rest;
        if option.eq_ignore_ascii_case(b"PERSIST") && expiry.is_none() {
            persist = true;
            continue;
        }
        let unit = Unit::of(option).ok_or(SYNTAX)?;
        let other = expiry.is_some_and(|(before, _)| before != unit);
        let ([time, after @ ..], false) = (arguments, persist || other) else { return Err(SYNTAX) };
        expiry = Some((unit, *time));
        arguments = after;
    }
    let now_ms = call.now_ms();
    let Some(entry) = call.keys.get(key) else {
        call.reply.null();
        return Ok(Outcome::Done);
    };
    let expires_at = match expiry {
        Some((unit, time)) => Some(unit.expires_at(time, now_ms, "getex")?),
        None => None,
    };
    call.reply.bulk(entry.value);
    let changes = expires_at.is_some() || (persist && entry.expires_at.is_some());
    if expires_at.is_some_and(|at| at <= now_ms) {
        call.keys.delete(key)?;
    } else if changes {
        let value = entry.value.to_vec();
        call.keys.put(key, &value, expires_at)?;
    }
    Ok(Outcome::Done)
}
