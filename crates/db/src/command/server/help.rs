//! Small answers: containers without sub-command, TIME, ROLE, LASTSAVE, WAIT, SHUTDOWN.

use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    number::integer,
    outcome::Outcome,
};

/// Lists the sub-commands of the container called.
fn list(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let rows = &call.server.rows;
    let own = rows.lookup(call.args[0]).map_or(&[][..], |row| rows.subcommands(row));
    let name = String::from_utf8_lossy(call.args[0]).to_ascii_uppercase();
    call.reply.array(own.len() + 1);
    call.reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for row in own {
        call.reply.simple(&row.own_name().to_ascii_uppercase());
    }
    Ok(Outcome::Done)
}

pub(crate) fn object(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    list(call)
}

pub(crate) fn client(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    list(call)
}

pub(crate) fn acl(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    list(call)
}

pub(crate) fn config(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    list(call)
}

pub(crate) fn function(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    list(call)
}

pub(crate) fn memory(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    list(call)
}

pub(crate) fn latency(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    list(call)
}

pub(crate) fn slowlog(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    list(call)
}

pub(crate) fn ok(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn zero(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.integer(0);
    Ok(Outcome::Done)
}

pub(crate) fn nothing(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.array(0);
    Ok(Outcome::Done)
}

pub(crate) fn time(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.array(2);
    call.reply.text(&call.now().as_secs().to_string());
    call.reply.text(&call.now().subsec_micros().to_string());
    Ok(Outcome::Done)
}

pub(crate) fn role(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.array(3);
    call.reply.text("master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(Outcome::Done)
}

/// Returns the present time as that of the last save: acknowledged writes are on disk as
/// `appendfsync` requires.
pub(crate) fn lastsave(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.integer(call.now().as_secs() as i64);
    Ok(Outcome::Done)
}

/// WAIT returns at once, because there are no replicas.
pub(crate) fn wait(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    integer(call.args[1])?;
    if integer(call.args[2])
        .map_err(|_| Failure("ERR timeout is not an integer or out of range".into()))?
        < 0
    {
        return Err(Failure("ERR timeout is negative".into()));
    }
    call.reply.integer(0);
    Ok(Outcome::Done)
}

pub(crate) fn shutdown(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    const OPTIONS: [&[u8]; 5] = [b"NOSAVE", b"SAVE", b"NOW", b"FORCE", b"ABORT"];
    if !call.args[1..]
        .iter()
        .all(|word| OPTIONS.iter().any(|option| word.eq_ignore_ascii_case(option)))
    {
        return Err(SYNTAX);
    }
    if call.args[1..].iter().any(|word| word.eq_ignore_ascii_case(b"ABORT")) {
        return Err(Failure("ERR No shutdown in progress.".into()));
    }
    call.connection.closing = true;
    call.server.host.shut_down();
    Ok(Outcome::Done)
}
