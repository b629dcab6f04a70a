//! GETRANGE (SUBSTR) and SETRANGE.

use crate::{
    call::Call,
    failure::{Failure, OFFSET_RANGE, TOO_LONG},
    keyspace::VALUE_BYTES_MAX,
    number::integer,
    outcome::Outcome,
};

pub(crate) fn getrange(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let (start, end) = (integer(call.args[2])?, integer(call.args[3])?);
    let value = call.keys.get(call.args[1]).map_or(&[][..], |entry| entry.value);
    let length = value.len() as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let backwards = start < 0 && end < 0 && start > end;
    let (start, end) = (from_end(start).max(0), from_end(end).max(0).min(length - 1));
    let empty = backwards || start > end;
    call.reply.bulk(if empty { b"" } else { &value[start as usize..=end as usize] });
    Ok(Outcome::Done)
}

/// Returns the end of the bytes that SETRANGE writes; 0 if it writes none.
pub(crate) fn end(args: &[&[u8]]) -> usize {
    let offset = integer(args[2]).ok().and_then(|offset| usize::try_from(offset).ok());
    offset.and_then(|offset| offset.checked_add(args[3].len())).unwrap_or(0)
}

pub(crate) fn setrange(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let (key, part) = (call.args[1], call.args[3]);
    let offset = usize::try_from(integer(call.args[2])?).map_err(|_| OFFSET_RANGE)?;
    let old = call.keys.get(key);
    if part.is_empty() {
        call.reply.count(old.map_or(0, |old| old.value.len()));
        return Ok(Outcome::Done);
    }
    let end =
        offset.checked_add(part.len()).filter(|&end| end <= VALUE_BYTES_MAX).ok_or(TOO_LONG)?;
    let (mut value, expires_at) =
        old.map_or((Vec::new(), None), |old| (old.value.to_vec(), old.expires_at));
    if value.len() < end {
        value.resize(end, 0);
    }
    value[offset..end].copy_from_slice(part);
    call.keys.put(key, &value, expires_at)?;
    call.reply.count(value.len());
    Ok(Outcome::Done)
}
