//! PING, ECHO, SELECT, QUIT, RESET.

use acl::DEFAULT;
use wire::resp::Version;

use super::super::generic::database;
use crate::{call::Call, connection::ReplyMode, failure::Failure, outcome::Outcome};

pub(crate) fn ping(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let text = match call.args {
        [_] => None,
        [_, text] => Some(*text),
        _ => return Err(Failure("ERR wrong number of arguments for 'ping' command".into())),
    };
    if !call.connection.channels.is_empty() && call.connection.version == Version::Resp2 {
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
    call.connection.database = database;
    call.connection.client.details.lock().database = database;
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn quit(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.connection.closing = true;
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn reset(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let connection = &mut *call.connection;
    connection.leave_transaction();
    connection.database = 0;
    connection.version = Version::Resp2;
    connection.reply_mode = ReplyMode::On;
    connection.channels.clear();
    connection.tracking.reset(&connection.client);
    if let Some(user) = call.server.acl.find(DEFAULT) {
        let open = user.rules.needs_no_password();
        connection.become_user(DEFAULT, user);
        connection.identity.authenticated = open;
    }
    {
        let mut details = connection.client.details.lock();
        (details.database, details.subscriptions) = (0, 0);
        details.name.clear();
        details.version = Version::Resp2;
    }
    call.reply.version = Version::Resp2;
    call.reply.simple("RESET");
    Ok(Outcome::Done)
}
