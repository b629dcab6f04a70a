//! HELLO.

use acl::HELLO_NO_AUTH;
use wire::resp::Version;

use super::{auth::log_in, client::rename};
use crate::{call::Call, failure::Failure, number::parse_integer, outcome::Outcome};

/// The version of Redis whose behaviour is implemented; clients derive supported features from it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

pub(crate) fn hello(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let version = match call.args.get(1).map(|text| parse_integer(text)) {
        None => None,
        Some(Some(2)) => Some(Version::Resp2),
        Some(Some(3)) => Some(Version::Resp3),
        Some(Some(_)) => return Err(Failure("NOPROTO unsupported protocol version".into())),
        Some(None) => {
            return Err(Failure("ERR Protocol version is not an integer or out of range".into()));
        }
    };
    let mut options = call.args.get(2..).unwrap_or_default();
    loop {
        options = match options {
            [] => break,
            [word, user, password, rest @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                log_in(call, &[user, password])?;
                rest
            }
            [word, name, rest @ ..] if word.eq_ignore_ascii_case(b"SETNAME") => {
                rename(call, name)?;
                rest
            }
            [word, ..] => {
                let word = String::from_utf8_lossy(word);
                return Err(Failure::new(format!("ERR Syntax error in HELLO option '{word}'")));
            }
        };
    }
    if !call.connection.identity.authenticated {
        return Err(Failure(HELLO_NO_AUTH.into()));
    }
    if let Some(version) = version {
        call.connection.version = version;
        call.connection.client.details.lock().version = version;
    }
    let version = call.connection.version;
    let reply = &mut call.reply;
    reply.version = version;
    reply.map(7);
    reply.text("server");
    reply.text("redis");
    reply.text("version");
    reply.text(REDIS_VERSION);
    reply.text("proto");
    reply.integer(if version == Version::Resp3 { 3 } else { 2 });
    reply.text("id");
    reply.integer(call.connection.client.id as i64);
    reply.text("mode");
    reply.text("standalone");
    reply.text("role");
    reply.text("master");
    reply.text("modules");
    reply.array(0);
    Ok(Outcome::Done)
}
