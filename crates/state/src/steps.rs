//! Commands of a [`Step`] to its node, and the meaning of the replies. `migration/tests/real.rs`
//! compares each script, as it is sent, with the model of the step.

use std::net::SocketAddr;

use wire::resp::Reply;

use crate::{
    Node,
    agent::Login,
    clients,
    members::Member,
    migration::{KEYS_MAX, Migration, Outcome, Step, Value},
    note::{self, Note},
    query::{Query, Why, Word, done, list, number, unexpected, words},
    scripts::{
        Call, DROP, IMPORT, KEYS, MOVE, OWN, READ, RESTORE, SEND, SETTLE, STABLE, Script, TURN,
    },
    slot::Slot,
    view::{Missing, View},
};

/// Timeout of one MIGRATE, in milliseconds: less than the timeout of a node's answer.
const MIGRATE_MS: u64 = 1_500;
/// Prefix of an error of MIGRATE that comes from the target.
const OF_TARGET: &str = "ERR Target instance replied with error: ";
/// The last commands of connections that may belong to a MIGRATE, which sends nothing else.
const OF_MIGRATE: [&str; 4] = ["NULL", "auth", "select", "restore-asking"];

/// The nodes of a move, as commands name them.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Id of the source.
    pub from: &'a str,
    /// Id of the target.
    pub to: &'a str,
    /// Id of the node to which clients are redirected until they may be redirected to the target;
    /// the target if there is no third node.
    pub third: &'a str,
    /// Id of the source if the step is the target's, else of the target.
    pub other: &'a str,
    /// Address to which the source sends keys.
    pub target: SocketAddr,
    /// Login at the target.
    pub login: Option<&'a Login>,
}

/// Where a step of `migration` at `node` is taken, and the names of the nodes there.
///
/// # Errors
/// The source or the target is no primary now.
pub fn at<'a>(
    view: &'a View,
    migration: &Migration,
    node: Node,
    login: Option<&'a Login>,
) -> Result<(SocketAddr, Names<'a>), Missing> {
    let (slot, (from, to)) = (migration.slot(), migration.way());
    let (source, target) = (view.member(from)?, view.member(to)?);
    // Without a third node, clients are redirected to the target nevertheless.
    let bounces = |(node, member): &(Node, &Member)| {
        *node != from && *node != to && !member.importing.iter().any(|(open, _)| *open == slot)
    };
    let third = view.primaries().find(bounces).map_or(target, |(_, member)| member);
    let (here, other) = if node == to { (target, source) } else { (source, target) };
    let (from, to, third, other) = (&*source.id, &*target.id, &*third.id, &*other.id);
    Ok((here.address, Names { from, to, third, other, target: target.address, login }))
}

/// The script of a step. Without an outcome the node waits for an answer of [`Names::other`], and
/// the step must be repeated.
#[must_use]
pub fn call<'a>(step: &'a Step, slot: Slot, names: Names<'a>) -> Call<'a, Option<Outcome>> {
    let Names { from, to, third, other, .. } = names;
    let key = note::key(slot);
    let plain = |script: Script, words: Vec<Word<'a>>| {
        Call::new(script, words, |reply| done(reply).map(|()| Some(Outcome::Done)))
    };
    match step {
        Step::Import { .. } => plain(IMPORT, words![slot, from]),
        &Step::Turn { turn, .. } => {
            let meaning = move |reply| noted(slot, reply).map(Some);
            Call::new(TURN, words![slot, key, turn, to, third], meaning)
        }
        Step::Settle { batch, keys } => plain(SETTLE, behind(words![key, *batch], keys)),
        &Step::Send { turn, .. } => plain(SEND, words![slot, key, turn, turn + 1, to]),
        &Step::Move { turn, .. } => migrate(slot, turn, names),
        Step::Keys => {
            let meaning = move |reply| keys(&key, list(reply)?).map(Some);
            Call::new(KEYS, words![slot, KEYS_MAX as u64], meaning)
        }
        Step::Own { .. } => Call::new(OWN, words![key, slot, other, to], once_answered),
        Step::Stable => plain(STABLE, words![key, slot]),
        Step::Read { keys, .. } => {
            let meaning = |reply| values(keys, list(reply)?).map(Some);
            Call::new(READ, behind(words![slot, from], keys), meaning)
        }
        Step::Restore { values, .. } => {
            let each =
                |value: &'a Value| words![&value.key[..], &value.value[..], value.expires_ms];
            let words = words![slot, to].into_iter().chain(values.iter().flat_map(each));
            plain(RESTORE, words.collect())
        }
        Step::Drop { keys, .. } => plain(DROP, behind(words![slot, from], keys)),
    }
}

/// Whether a node waits for an answer of `other`, as for [`Step::Own`], without a change of the
/// owner. Asked of the target before the source gives a slot up, it leaves the slot without an
/// owner for a shorter time.
#[must_use]
pub fn answered(slot: Slot, other: &str) -> Call<'_, Option<Outcome>> {
    Call::new(OWN, words![note::key(slot), slot, other], once_answered)
}

/// Before [`Step::Settle`]: commands that close connections over which keys may still arrive that a
/// source sent before it gave up. They are sent on a new connection: connections that a MIGRATE
/// opened before are older and therefore known to the node.
#[must_use]
pub fn close_senders() -> Query<'static, Vec<Query<'static, ()>>> {
    let sends = |command: &str| OF_MIGRATE.contains(&command);
    clients::closing("normal", move |client| client.field("cmd=").is_some_and(sends))
}

fn behind<'a>(mut words: Vec<Word<'a>>, keys: &'a [Vec<u8>]) -> Vec<Word<'a>> {
    words.extend(keys.iter().map(|key| Word::from(&key[..])));
    words
}

fn migrate<'a>(slot: Slot, turn: u64, names: Names<'a>) -> Call<'a, Option<Outcome>> {
    let Names { to, third, target, login, .. } = names;
    // The note is one of them.
    let keys_max = KEYS_MAX as u64 + 1;
    let mut words = words![slot, note::key(slot), turn, turn + 1, to, third, keys_max];
    let (ip, port) = (target.ip().to_string(), u64::from(target.port()));
    words.extend(words![ip, port, "", 0, MIGRATE_MS, "REPLACE"]);
    words.extend(login.into_iter().flat_map(|login| {
        let Login { user, password } = login;
        words!["AUTH2", &user[..], &password[..]]
    }));
    words.extend(words!["KEYS"]);
    Call::new(MOVE, words, move |reply| {
        if let Reply::Error(error) = &reply
            && let Some(why) = error.strip_prefix(OF_TARGET)
        {
            return Ok(Some(Outcome::Refused(format!("{target} refuses keys: {why}"))));
        }
        number(&reply).map(|left| Some(Outcome::Left(left)))
    })
}

fn once_answered(reply: Reply) -> Result<Option<Outcome>, Why> {
    if reply == Reply::Integer(0) {
        return Ok(None);
    }
    done(reply).map(|()| Some(Outcome::Done))
}

fn noted(slot: Slot, reply: Reply) -> Result<Outcome, Why> {
    let elements = bytes(list(reply)?);
    let note = Note::read(slot, elements.iter().map(Vec::as_slice)).map_err(Box::new)?;
    // Nothing of an unnamed batch is to be dropped.
    let noted = note.map(|note| Outcome::Noted(note.batch.unwrap_or_default(), note.keys));
    Ok(noted.unwrap_or(Outcome::Done))
}

/// Those of a slot, without the note.
fn keys(note: &str, listed: Vec<Reply>) -> Result<Outcome, Why> {
    let mut keys = bytes(listed);
    keys.retain(|key| key != note.as_bytes());
    Ok(Outcome::Keys(keys))
}

/// Value and time of expiry of each of `keys`, in turn.
fn values(keys: &[Vec<u8>], listed: Vec<Reply>) -> Result<Outcome, Why> {
    let expected = "a value and a time of expiry for each key";
    if listed.len() != keys.len() * 2 {
        return Err(unexpected(expected, &Reply::List(listed)));
    }
    let value = |(key, said): (&Vec<u8>, &[Reply])| match said {
        // It has expired.
        [Reply::Null, _] => None,
        [Reply::Bytes(value), Reply::Integer(expires)] => {
            let (key, value) = (key.clone(), value.clone());
            Some(Ok(Value { key, value, expires_ms: u64::try_from(*expires).unwrap_or(0) }))
        }
        other => Some(Err(unexpected(expected, &Reply::List(other.to_vec())))),
    };
    let values = keys.iter().zip(listed.chunks_exact(2)).filter_map(value);
    Ok(Outcome::Values(values.collect::<Result<_, _>>()?))
}

fn bytes(list: Vec<Reply>) -> Vec<Vec<u8>> {
    let bytes = |reply| if let Reply::Bytes(bytes) = reply { Some(bytes) } else { None };
    list.into_iter().filter_map(bytes).collect()
}
