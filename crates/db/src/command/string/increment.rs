//! INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT.

use crate::{
    call::Call,
    failure::{Failure, OVERFLOW},
    number::{LongDouble, integer},
    outcome::Outcome,
};

pub(crate) fn incr(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    add(call, 1)
}

pub(crate) fn decr(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    add(call, -1)
}

pub(crate) fn incrby(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let by = integer(call.args[2])?;
    add(call, by)
}

pub(crate) fn decrby(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let by = integer(call.args[2])?;
    add(call, by.checked_neg().ok_or_else(|| Failure("ERR decrement would overflow".into()))?)
}

fn add(call: &mut Call<'_, '_>, by: i64) -> Result<Outcome, Failure> {
    let key = call.args[1];
    let (old, expires_at) = match call.keys.get(key) {
        Some(entry) => (integer(entry.value)?, entry.expires_at),
        None => (0, None),
    };
    let sum = old.checked_add(by).ok_or(OVERFLOW)?;
    call.keys.put(key, sum.to_string().as_bytes(), expires_at)?;
    call.reply.integer(sum);
    Ok(Outcome::Done)
}

pub(crate) fn incrbyfloat(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let key = call.args[1];
    let (old, expires_at) = match call.keys.get(key) {
        Some(entry) => (LongDouble::parse(entry.value)?, entry.expires_at),
        None => (LongDouble::parse(b"0")?, None),
    };
    let by = LongDouble::parse(call.args[2])?;
    let not_finite = || Failure("ERR increment would produce NaN or Infinity".into());
    let sum = old.plus(by).ok_or_else(not_finite)?.text();
    call.keys.put(key, sum.as_bytes(), expires_at)?;
    call.reply.text(&sum);
    Ok(Outcome::Done)
}
