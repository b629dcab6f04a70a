//! BITPOS: the first bit that is set, or clear.

use super::{Span, in_bits};
use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    number::integer,
    outcome::Outcome,
};

pub(crate) fn bitpos(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let wanted = match integer(call.args[2])? {
        0 => false,
        1 => true,
        _ => return Err(Failure("ERR The bit argument must be 1 or 0.".into())),
    };
    let Some(entry) = call.keys.get(call.args[1]) else {
        // As if it went on with zeros for ever.
        call.reply.integer(if wanted { -1 } else { 0 });
        return Ok(Outcome::Done);
    };
    let value = entry.value;
    let span = match call.args.len() {
        3 => Span::whole(value),
        4..=6 => {
            let start = integer(call.args[3])?;
            let in_bits = in_bits(call.args.get(5))?;
            let end = call.args.get(4).map_or(Ok(i64::MAX), |end| integer(end))?;
            Span::of(value, start, end, in_bits)
        }
        _ => return Err(SYNTAX),
    };
    if span.is_empty() {
        call.reply.integer(-1);
        return Ok(Outcome::Done);
    }
    let none = if wanted { 0 } else { 0xff };
    let found = span.bytes(value, !wanted).enumerate().find(|&(_, byte)| byte != none);
    let position = match found {
        Some((index, byte)) => {
            let ahead = if wanted { byte.leading_zeros() } else { byte.leading_ones() };
            span.first / 8 * 8 + index as i64 * 8 + i64::from(ahead)
        }
        // Zeros follow the string, unless its end was named.
        None if !wanted && call.args.len() < 5 => value.len() as i64 * 8,
        None => -1,
    };
    call.reply.integer(position);
    Ok(Outcome::Done)
}
