//! BITOP.

use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    outcome::Outcome,
};

pub(crate) fn bitop(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let (name, target, sources) =
        (call.args[1].to_ascii_uppercase(), call.args[2], &call.args[3..]);
    let combine: fn(u8, u8) -> u8 = match name.as_slice() {
        b"AND" => |a, b| a & b,
        b"OR" => |a, b| a | b,
        b"XOR" => |a, b| a ^ b,
        b"NOT" if sources.len() == 1 => |a, _| !a,
        b"NOT" => {
            return Err(Failure("ERR BITOP NOT must be called with a single source key.".into()));
        }
        _ => return Err(SYNTAX),
    };
    let value = |call: &mut Call<'_, '_>, key| {
        call.keys.get(key).map_or(Vec::new(), |entry| entry.value.to_vec())
    };
    let mut result = value(call, sources[0]);
    if name == b"NOT" {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    for source in &sources[1..] {
        let other = value(call, source);
        result.resize(result.len().max(other.len()), 0);
        for (index, byte) in result.iter_mut().enumerate() {
            *byte = combine(*byte, other.get(index).copied().unwrap_or(0));
        }
    }
    if result.is_empty() {
        call.keys.delete(target)?;
    } else {
        call.keys.put(target, &result, None)?;
    }
    call.reply.count(result.len());
    Ok(Outcome::Done)
}
