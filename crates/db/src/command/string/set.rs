//! SET with all its options, SETEX, PSETEX, SETNX, GETSET.

use super::Unit;
use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    outcome::Outcome,
    row::Touch,
};

/// Options of SET.
#[derive(Default)]
struct Options<'a> {
    only_absent: bool,
    only_present: bool,
    get: bool,
    keep: bool,
    expiry: Option<(Unit, &'a [u8])>,
}

impl<'a> Options<'a> {
    fn parse(mut arguments: &[&'a [u8]]) -> Result<Self, Failure> {
        let mut options = Self::default();
        while let [option, rest @ ..] = arguments {
            arguments = rest;
            if option.eq_ignore_ascii_case(b"NX") && !options.only_present {
                options.only_absent = true;
            } else if option.eq_ignore_ascii_case(b"XX") && !options.only_absent {
                options.only_present = true;
            } else if option.eq_ignore_ascii_case(b"GET") {
                options.get = true;
            } else if option.eq_ignore_ascii_case(b"KEEPTTL") && options.expiry.is_none() {
                options.keep = true;
            } else {
                let unit = Unit::of(option).ok_or(SYNTAX)?;
                let other = options.expiry.is_some_and(|(before, _)| before != unit);
                let ([time, after @ ..], false) = (arguments, options.keep || other) else {
                    return Err(SYNTAX);
                };
                options.expiry = Some((unit, *time));
                arguments = after;
            }
        }
        Ok(options)
    }
}

/// With GET the command returns the old value. As in Redis, the word counts at any position after
/// the value.
pub(crate) fn touch(args: &[&[u8]]) -> Touch {
    let options = args.get(3..).unwrap_or_default();
    let gets = options.iter().any(|option| option.eq_ignore_ascii_case(b"GET"));
    if gets { Touch::READ_CHANGE } else { Touch::REPLACE }
}

pub(crate) fn set(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let (key, value) = (call.args[1], call.args[2]);
    if call.args.len() == 3 {
        call.keys.put(key, value, None)?;
        call.reply.ok();
        return Ok(Outcome::Done);
    }
    let options = Options::parse(&call.args[3..])?;
    let now_ms = call.now_ms();
    let mut expires_at = match options.expiry {
        Some((unit, time)) => Some(unit.expires_at(time, now_ms, "set")?),
        None => None,
    };
    let old = call.keys.get(key);
    let exists = old.is_some();
    if options.keep {
        expires_at = old.and_then(|old| old.expires_at);
    }
    if options.get {
        call.reply.optional(old.map(|old| old.value));
    }
    if (options.only_absent && exists) || (options.only_present && !exists) {
        if !options.get {
            call.reply.null();
        }
        return Ok(Outcome::Done);
    }
    call.keys.put(key, value, expires_at)?;
    if !options.get {
        call.reply.ok();
    }
    Ok(Outcome::Done)
}

pub(crate) fn setex(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    set_until(call, Unit::Seconds, "setex")
}

pub(crate) fn psetex(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    set_until(call, Unit::Milliseconds, "psetex")
}

fn set_until(call: &mut Call<'_, '_>, unit: Unit, command: &str) -> Result<Outcome, Failure> {
    let expires_at = unit.expires_at(call.args[2], call.now_ms(), command)?;
    call.keys.put(call.args[1], call.args[3], Some(expires_at))?;
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn setnx(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let absent = !call.keys.exists(call.args[1]);
    if absent {
        call.keys.put(call.args[1], call.args[2], None)?;
    }
    call.reply.flag(absent);
    Ok(Outcome::Done)
}

pub(crate) fn getset(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.optional(call.keys.get(call.args[1]).map(|old| old.value));
    call.keys.put(call.args[1], call.args[2], None)?;
    Ok(Outcome::Done)
}
