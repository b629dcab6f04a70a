//! EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT.

use crate::{call::Call, failure::Failure, number::integer, outcome::Outcome};

pub(crate) fn expire(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let now = call.now_ms() as i64;
    set(call, now, 1_000, "expire")
}

pub(crate) fn pexpire(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let now = call.now_ms() as i64;
    set(call, now, 1, "pexpire")
}

pub(crate) fn expireat(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    set(call, 0, 1_000, "expireat")
}

pub(crate) fn pexpireat(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    set(call, 0, 1, "pexpireat")
}

#[derive(Default)]
struct Condition {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
}

impl Condition {
    fn parse(arguments: &[&[u8]]) -> Result<Self, Failure> {
        let mut condition = Self::default();
        for option in arguments {
            match option.to_ascii_uppercase().as_slice() {
                b"NX" => condition.absent = true,
                b"XX" => condition.present = true,
                b"GT" => condition.greater = true,
                b"LT" => condition.less = true,
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Err(Failure::new(format!("ERR Unsupported option {option}")));
                }
            }
        }
        let Self { absent, present, greater, less } = condition;
        if absent && (present || greater || less) {
            return Err(Failure(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into(),
            ));
        }
        if greater && less {
            return Err(Failure(
                "ERR GT and LT options at the same time are not compatible".into(),
            ));
        }
        Ok(condition)
    }

    /// Whether the expiry `old` may be replaced by `new`. No expiry counts as later than any.
    fn allows(&self, old: Option<u64>, new: i64) -> bool {
        let later = old.is_some_and(|old| new > old as i64);
        let earlier = old.is_none_or(|old| new < old as i64);
        !(self.absent && old.is_some()
            || self.present && old.is_none()
            || self.greater && !later
            || self.less && !earlier)
    }
}

fn set(call: &mut Call<'_, '_>, base: i64, scale: i64, command: &str) -> Result<Outcome, Failure> {
    let condition = Condition::parse(&call.args[3..])?;
    let time = integer(call.args[2])?;
    let at = time.checked_mul(scale).and_then(|time| time.checked_add(base));
    let at =
        at.ok_or_else(|| Failure::new(format!("ERR invalid expire time in '{command}' command")))?;
    let (key, now_ms) = (call.args[1], call.now_ms());
    let Some(entry) = call.keys.get(key).filter(|entry| condition.allows(entry.expires_at, at))
    else {
        call.reply.flag(false);
        return Ok(Outcome::Done);
    };
    if at <= now_ms as i64 {
        call.keys.delete(key)?;
    } else {
        let value = entry.value.to_vec();
        call.keys.put(key, &value, Some(at as u64))?;
    }
    call.reply.flag(true);
    Ok(Outcome::Done)
}
