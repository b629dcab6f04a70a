//! TTL, PTTL, EXPIRETIME, PEXPIRETIME, PERSIST.

use crate::{call::Call, failure::Failure, outcome::Outcome};

pub(crate) fn ttl(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let now_ms = call.now_ms();
    tell(call, |at| (at.saturating_sub(now_ms) + 500) / 1_000)
}

pub(crate) fn pttl(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let now_ms = call.now_ms();
    tell(call, |at| at.saturating_sub(now_ms))
}

pub(crate) fn expiretime(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    tell(call, |at| (at + 500) / 1_000)
}

pub(crate) fn pexpiretime(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    tell(call, |at| at)
}

fn tell(call: &mut Call<'_, '_>, of: impl Fn(u64) -> u64) -> Result<Outcome, Failure> {
    let answer = match call.keys.get(call.args[1]) {
        None => -2,
        Some(entry) => entry.expires_at.map_or(-1, |at| of(at) as i64),
    };
    call.reply.integer(answer);
    Ok(Outcome::Done)
}

pub(crate) fn persist(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let key = call.args[1];
    let ending = call.keys.get(key).filter(|entry| entry.expires_at.is_some());
    let value = ending.map(|entry| entry.value.to_vec());
    if let Some(value) = &value {
        call.keys.put(key, value, None)?;
    }
    call.reply.flag(value.is_some());
    Ok(Outcome::Done)
}
