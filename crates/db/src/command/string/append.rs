//! APPEND.

use crate::{
    call::Call,
    failure::{Failure, TOO_LONG},
    keyspace::VALUE_BYTES_MAX,
    outcome::Outcome,
};

pub(crate) fn append(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let (key, tail) = (call.args[1], call.args[2]);
    let (value, expires_at) = match call.keys.get(key) {
        Some(entry) if entry.value.len() + tail.len() > VALUE_BYTES_MAX => return Err(TOO_LONG),
        Some(entry) => ([entry.value, tail].concat(), entry.expires_at),
        None => (tail.to_vec(), None),
    };
    call.keys.put(key, &value, expires_at)?;
    call.reply.count(value.len());
    Ok(Outcome::Done)
}
