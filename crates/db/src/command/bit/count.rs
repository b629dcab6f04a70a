//! BITCOUNT.

use super::{Span, in_bits};
use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    number::integer,
    outcome::Outcome,
};

pub(crate) fn bitcount(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let Some(entry) = call.keys.get(call.args[1]) else {
        call.reply.integer(0);
        return Ok(Outcome::Done);
    };
    let span = match call.args.len() {
        2 => Span::whole(entry.value),
        4 | 5 => {
            let (start, end) = (integer(call.args[2])?, integer(call.args[3])?);
            if start < 0 && end < 0 && start > end {
                call.reply.integer(0);
                return Ok(Outcome::Done);
            }
            Span::of(entry.value, start, end, in_bits(call.args.get(4))?)
        }
        _ => return Err(SYNTAX),
    };
    let ones = if span.is_empty() {
        0
    } else {
        span.bytes(entry.value, false).map(|byte| i64::from(byte.count_ones())).sum()
    };
    call.reply.integer(ones);
    Ok(Outcome::Done)
}
