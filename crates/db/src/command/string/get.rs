//! GET, MGET, STRLEN, GETDEL.

use crate::{call::Call, failure::Failure, outcome::Outcome};

pub(crate) fn get(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.optional(call.keys.get(call.args[1]).map(|entry| entry.value));
    Ok(Outcome::Done)
}

pub(crate) fn mget(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.array(call.args.len() - 1);
    for key in &call.args[1..] {
        call.reply.optional(call.keys.get(key).map(|entry| entry.value));
    }
    Ok(Outcome::Done)
}

pub(crate) fn strlen(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.count(call.keys.get(call.args[1]).map_or(0, |entry| entry.value.len()));
    Ok(Outcome::Done)
}

pub(crate) fn getdel(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    get(call)?;
    call.keys.delete(call.args[1])?;
    Ok(Outcome::Done)
}
