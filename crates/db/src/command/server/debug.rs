//! DEBUG, as far as tests need it.

use std::time::Duration;

use crate::{
    call::Call,
    failure::{Failure, NO_SUCH_KEY, NOT_A_FLOAT, SYNTAX},
    outcome::Outcome,
};

/// Longest pause.
const SLEEP_MAX: Duration = Duration::from_secs(60);

pub(crate) fn debug(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    match (call.args[1].to_ascii_uppercase().as_slice(), &call.args[2..]) {
        (b"SLEEP", [seconds]) => {
            let seconds = std::str::from_utf8(seconds).ok().and_then(|text| text.parse().ok());
            let pause = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            // Only this connection sleeps.
            let pause = pause.ok_or(NOT_A_FLOAT)?.min(SLEEP_MAX);
            call.reply.ok();
            return Ok(Outcome::Sleep(pause));
        }
        (b"OBJECT", [key]) => {
            let key = *key;
            let database = call.keys.database;
            call.keys.load(database, key, false)?;
            if let Some(pending) = call.keys.pending() {
                return Ok(pending);
            }
            let length = call.keys.get(key).ok_or(NO_SUCH_KEY)?.value.len();
            call.reply.simple(&format!("Value at:0x0 refcount:1 encoding:raw serializedlength:{length} lru:0 lru_seconds_idle:0"));
        }
        (b"SET-ACTIVE-EXPIRE" | b"JMAP" | b"RELOAD" | b"LOADAOF", _) => call.reply.ok(),
        _ => return Err(SYNTAX),
    }
    Ok(Outcome::Done)
}
