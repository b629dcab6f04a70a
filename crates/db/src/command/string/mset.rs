//! MSET and MSETNX.

use crate::{call::Call, failure::Failure, outcome::Outcome};

pub(crate) fn mset(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    store(call, "mset")?;
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn msetnx(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    odd(call, "msetnx")?;
    let args = call.args;
    if args[1..].chunks_exact(2).any(|pair| call.keys.exists(pair[0])) {
        call.reply.flag(false);
        return Ok(Outcome::Done);
    }
    store(call, "msetnx")?;
    call.reply.flag(true);
    Ok(Outcome::Done)
}

fn odd(call: &Call<'_, '_>, command: &str) -> Result<(), Failure> {
    if call.args.len().is_multiple_of(2) {
        return Err(Failure::new(format!("ERR wrong number of arguments for '{command}' command")));
    }
    Ok(())
}

fn store(call: &mut Call<'_, '_>, command: &str) -> Result<(), Failure> {
    odd(call, command)?;
    for pair in call.args[1..].chunks_exact(2) {
        call.keys.put(pair[0], pair[1], None)?;
    }
    Ok(())
}
