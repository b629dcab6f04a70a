//! GETBIT and SETBIT.

use super::{lengthen, offset};
use crate::{call::Call, failure::Failure, outcome::Outcome};

pub(crate) fn getbit(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let offset = offset(call.args[2], None)?;
    let byte = call
        .keys
        .get(call.args[1])
        .and_then(|entry| entry.value.get((offset / 8) as usize).copied());
    call.reply.flag(byte.is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1));
    Ok(Outcome::Done)
}

/// Minimum length of the value after SETBIT; 0 if the command fails.
pub(crate) fn end(args: &[&[u8]]) -> usize {
    offset(args[2], None).map_or(0, |offset| (offset / 8) as usize + 1)
}

pub(crate) fn setbit(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let offset = offset(call.args[2], None)?;
    let on = match call.args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(Failure("ERR bit is not an integer or out of range".into())),
    };
    let old = call.keys.get(call.args[1]);
    let (mut value, expires_at) =
        old.map_or((Vec::new(), None), |old| (old.value.to_vec(), old.expires_at));
    let (at, mask) = ((offset / 8) as usize, 0x80 >> (offset % 8));
    let grows = value.len() <= at;
    lengthen(&mut value, at + 1)?;
    let before = value[at] & mask != 0;
    if !grows && before == on {
        call.reply.flag(before);
        return Ok(Outcome::Done);
    }
    if on {
        value[at] |= mask;
    } else {
        value[at] &= !mask;
    }
    call.keys.put(call.args[1], &value, expires_at)?;
    call.reply.flag(before);
    Ok(Outcome::Done)
}
