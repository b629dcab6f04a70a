//! PING, ECHO, SELECT, QUIT, RESET.

use wire::resp::Version;

use super::super::{Call, Outcome, generic::database};
use crate::{acl::DEFAULT, failure::Failure, session::ReplyMode};

pub(crate) fn ping(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let text = match call.args {
        [_] => None,
        [_, text] => Some(*text),
        _ => return Err(Failure("ERR wrong number of arguments for 'ping' command".into())),
    };
    if !call.session.channels.is_empty() && call.session.version == Version::Resp2 {
        call.reply.array(2);
        call.reply.text("pong");
        call.reply.bulk(text.unwrap_or_default());
        return Ok(Outcome::Done);
    }
    match text {
        Some(text) => call.reply.bulk(text),
        None => call.reply.simple("PONG"),
    }
    Ok(Outcome::Done)
}

pub(crate) fn echo(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.bulk(call.args[1]);
    Ok(Outcome::Done)
}

pub(crate) fn select(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let database = database(call.args[1])?;
    call.session.database = database;
    call.session.client.details.lock().database = database;
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn quit(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.session.closing = true;
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn reset(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let session = &mut *call.session;
    session.leave_transaction();
    session.database = 0;
    session.version = Version::Resp2;
    session.reply_mode = ReplyMode::On;
    session.channels.clear();
    session.tracking.reset(&session.client);
    if let Some(user) = call.server.acl.find(DEFAULT) {
        let open = user.rules.needs_no_password();
        session.become_user(DEFAULT, user);
        session.authenticated = open;
    }
    {
        let mut details = session.client.details.lock();
        (details.database, details.subscriptions) = (0, 0);
        details.name.clear();
        details.version = Version::Resp2;
    }
    call.reply.version = Version::Resp2;
    call.reply.simple("RESET");
    Ok(Outcome::Done)
}
