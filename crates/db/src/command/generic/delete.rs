//! DEL (UNLINK), EXISTS (TOUCH), TYPE.

use crate::{call::Call, failure::Failure, outcome::Outcome};

pub(crate) fn del(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let mut count = 0;
    for key in &call.args[1..] {
        count += usize::from(call.keys.delete(key)?);
    }
    call.reply.count(count);
    Ok(Outcome::Done)
}

pub(crate) fn exists(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let args = call.args;
    let count = args[1..].iter().filter(|key| call.keys.exists(key)).count();
    call.reply.count(count);
    Ok(Outcome::Done)
}

pub(crate) fn kind(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let exists = call.keys.exists(call.args[1]);
    call.reply.simple(if exists { "string" } else { "none" });
    Ok(Outcome::Done)
}
