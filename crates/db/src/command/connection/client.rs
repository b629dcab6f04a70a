//! CLIENT: names, lists, ends.

use std::sync::Arc;

use crate::{
    call::Call,
    clients::Client,
    connection::ReplyMode,
    failure::{Failure, NO_CLIENT, SYNTAX},
    number::integer,
    outcome::Outcome,
};

/// Gives the connection a name.
pub(super) fn rename(call: &mut Call<'_, '_>, name: &[u8]) -> Result<(), Failure> {
    call.connection.client.details.lock().name = plain(name, "Client names")?;
    Ok(())
}

/// Text that does not break the lines of CLIENT LIST.
/// Whether a client is meant.
type Chooses = Box<dyn Fn(&Client) -> bool>;

fn plain(text: &[u8], what: &str) -> Result<String, Failure> {
    if !text.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(Failure::new(format!(
            "ERR {what} cannot contain spaces, newlines or special characters."
        )));
    }
    Ok(String::from_utf8_lossy(text).into_owned())
}

pub(crate) fn setname(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    rename(call, call.args[2])?;
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn getname(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let name = call.connection.client.details.lock().name.clone();
    if name.is_empty() {
        call.reply.null();
    } else {
        call.reply.text(&name);
    }
    Ok(Outcome::Done)
}

pub(crate) fn setinfo(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let attribute = call.args[2].to_ascii_lowercase();
    let value = plain(call.args[3], &String::from_utf8_lossy(&attribute))?;
    let mut details = call.connection.client.details.lock();
    match attribute.as_slice() {
        b"lib-name" => details.library = value,
        b"lib-ver" => details.library_version = value,
        _ => {
            let named = String::from_utf8_lossy(call.args[2]);
            return Err(Failure::new(format!("ERR Unrecognized option '{named}'")));
        }
    }
    call.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn id(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.integer(call.connection.client.id as i64);
    Ok(Outcome::Done)
}

pub(crate) fn info(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let line = call.connection.client.line(call.now_ms(), &call.server.rows);
    call.reply.verbatim(&format!("{line}\n"));
    Ok(Outcome::Done)
}

pub(crate) fn list(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let mut clients = call.server.clients.all();
    match &call.args[2..] {
        [] => {}
        [word, kind] if word.eq_ignore_ascii_case(b"TYPE") => {
            let wanted = Kind::parse(kind)?;
            clients.retain(|client| wanted.is(client));
        }
        [word, ids @ ..] if word.eq_ignore_ascii_case(b"ID") && !ids.is_empty() => {
            let ids: Result<Vec<u64>, _> =
                ids.iter().map(|id| integer(id).map(|id| id as u64)).collect();
            let ids = ids.map_err(|_| Failure("ERR Invalid client ID".into()))?;
            clients.retain(|client| ids.contains(&client.id));
        }
        _ => return Err(SYNTAX),
    }
    let (now_ms, rows) = (call.now_ms(), &call.server.rows);
    let text: String = clients.iter().map(|client| client.line(now_ms, rows) + "\n").collect();
    call.reply.verbatim(&text);
    Ok(Outcome::Done)
}

enum Kind {
    Normal,
    Subscriber,
    Absent,
}

impl Kind {
    fn parse(text: &[u8]) -> Result<Self, Failure> {
        match text.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Self::Normal),
            b"pubsub" => Ok(Self::Subscriber),
            b"master" | b"replica" | b"slave" => Ok(Self::Absent),
            _ => {
                let text = String::from_utf8_lossy(text);
                Err(Failure::new(format!("ERR Unknown client type '{text}'")))
            }
        }
    }

    fn is(&self, client: &Client) -> bool {
        let subscribes = client.details.lock().subscriptions > 0;
        match self {
            Self::Normal => !subscribes,
            Self::Subscriber => subscribes,
            Self::Absent => false,
        }
    }
}

pub(crate) fn kill(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let own = call.connection.client.id;
    if let [_, _, address] = call.args {
        let address = String::from_utf8_lossy(address);
        let found = call.server.clients.all().into_iter().find(|client| client.address == address);
        found.ok_or(NO_CLIENT)?.kill();
        call.reply.ok();
        return Ok(Outcome::Done);
    }
    let (mut filters, mut skip_self): (Vec<Chooses>, _) = (Vec::new(), true);
    let pairs = &call.args[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    for pair in pairs.chunks_exact(2) {
        let text = String::from_utf8_lossy(pair[1]).into_owned();
        match pair[0].to_ascii_uppercase().as_slice() {
            b"ID" => {
                let id = integer(pair[1]).ok().filter(|&id| id > 0);
                let id =
                    id.ok_or_else(|| Failure("ERR client-id should be greater than 0".into()))?;
                filters.push(Box::new(move |client| client.id == id as u64));
            }
            b"ADDR" => filters.push(Box::new(move |client| client.address == text)),
            b"LADDR" => filters.push(Box::new(move |client| client.local_address == text)),
            b"USER" => {
                if call.server.acl.find(&text).is_none() {
                    return Err(Failure::new(format!("ERR No such user '{text}'")));
                }
                filters.push(Box::new(move |client| client.details.lock().user == text));
            }
            b"TYPE" => {
                let kind = Kind::parse(pair[1])?;
                filters.push(Box::new(move |client| kind.is(client)));
            }
            b"SKIPME" => match pair[1].to_ascii_lowercase().as_slice() {
                b"yes" => skip_self = true,
                b"no" => skip_self = false,
                _ => return Err(SYNTAX),
            },
            _ => return Err(SYNTAX),
        }
    }
    let matching = |client: &Arc<Client>| {
        filters.iter().all(|filter| filter(client)) && !(skip_self && client.id == own)
    };
    let chosen: Vec<_> = call.server.clients.all().into_iter().filter(matching).collect();
    chosen.iter().for_each(|client| client.kill());
    call.reply.count(chosen.len());
    Ok(Outcome::Done)
}

pub(crate) fn reply(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    match call.args[2].to_ascii_uppercase().as_slice() {
        b"ON" => {
            call.connection.reply_mode = ReplyMode::On;
            call.reply.ok();
        }
        b"OFF" => call.connection.reply_mode = ReplyMode::Off,
        b"SKIP" if call.connection.reply_mode == ReplyMode::On => {
            call.connection.reply_mode = ReplyMode::SkipNext;
        }
        b"SKIP" => {}
        _ => return Err(SYNTAX),
    }
    Ok(Outcome::Done)
}

pub(crate) fn no_evict(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let on = match call.args[2].to_ascii_uppercase().as_slice() {
        b"ON" => true,
        b"OFF" => false,
        _ => return Err(SYNTAX),
    };
    call.connection.client.details.lock().unevictable = on;
    call.reply.ok();
    Ok(Outcome::Done)
}

/// Answers CLIENT UNPAUSE. Clients are never paused.
pub(crate) fn unpause(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.ok();
    Ok(Outcome::Done)
}
