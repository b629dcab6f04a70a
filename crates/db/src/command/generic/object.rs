//! OBJECT.

use crate::{call::Call, failure::Failure, number::parse_integer, outcome::Outcome};

/// Longest value Redis keeps beside its key's record.
const EMBEDDED_BYTES_MAX: usize = 44;

pub(crate) fn encoding(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let Some(entry) = call.keys.get(call.args[2]) else {
        call.reply.null();
        return Ok(Outcome::Done);
    };
    // The encoding that Redis would name for a value just set; here all values have the same
    // encoding.
    let name = match entry.value {
        value if parse_integer(value).is_some() => "int",
        value if value.len() <= EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    };
    call.reply.text(name);
    Ok(Outcome::Done)
}

pub(crate) fn refcount(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    if call.keys.exists(call.args[2]) {
        call.reply.integer(1);
    } else {
        call.reply.null();
    }
    Ok(Outcome::Done)
}

pub(crate) fn freq(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    unless_missing(
        call,
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
         that when switching between policies at runtime LRU and LFU data will take some time to \
         adjust.",
    )
}

pub(crate) fn idletime(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    unless_missing(call, "ERR idle time is not tracked: the replacement policy does not use it")
}

fn unless_missing(call: &mut Call<'_, '_>, text: &'static str) -> Result<Outcome, Failure> {
    if call.keys.exists(call.args[2]) {
        return Err(Failure(text.into()));
    }
    call.reply.null();
    Ok(Outcome::Done)
}
