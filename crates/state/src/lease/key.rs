//! The key of the lease, in the commands of its node.

use wire::resp::Reply;

use super::{Answer, Ask, LEASE};
use crate::query::{Query, done, unexpected, words};

/// The key. Its hash tag is that of all keys of the state layer.
pub const KEY: &str = "{enroute}:placer";

/// Renews the lease; returns its holder if that is another. Key; holder, milliseconds.
const RENEW: &str = "\
    local holder = redis.call('GET', KEYS[1]) \
    if holder == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end \
    return holder or ''";

/// Gives the lease up. Key; holder.
const RELEASE: &str = "\
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
    return redis.call('DEL', KEYS[1])";

/// The value of the key: the name of a placer, and a number unique to its process.
#[must_use]
pub fn value(name: &str, number: u64) -> String {
    format!("{name} {number:016x}")
}

/// The name in a value.
fn named(value: &str) -> String {
    value.rsplit_once(' ').map_or(value, |(name, _)| name).to_owned()
}

/// Takes the lease ([`Ask::Take`]) or renews it. Returns the answer, and the name of the holder if
/// that is another and is known.
#[must_use]
pub fn ask(ask: Ask, value: &str) -> Query<'_, (Answer, Option<String>)> {
    let milliseconds = LEASE.as_millis() as u64;
    let takes = ask == Ask::Take;
    let words = if takes {
        words!["SET", KEY, value, "NX", "PX", milliseconds]
    } else {
        words!["EVAL", RENEW, 1, KEY, value, milliseconds]
    };
    Query::new(words, move |reply| match reply {
        Reply::Integer(1) => Ok((Answer::Held, None)),
        Reply::Bytes(_) if takes => Ok((Answer::Held, None)),
        Reply::Error(_) => Err(unexpected("the lease or its holder", &reply)),
        other => {
            let holder = other.text().map(|value| named(&value)).filter(|name| !name.is_empty());
            Ok((Answer::Refused, holder))
        }
    })
}

/// Gives the lease up, if it is still this holder's.
#[must_use]
pub fn release(value: &str) -> Query<'_, ()> {
    Query::new(words!["EVAL", RELEASE, 1, KEY, value], done)
}

/// The name of the holder.
#[must_use]
pub fn holder() -> Query<'static, Option<String>> {
    Query::new(words!["GET", KEY], |reply| match reply {
        Reply::Error(_) => Err(unexpected("the holder of the lease", &reply)),
        other => Ok(other.text().map(|value| named(&value))),
    })
}
