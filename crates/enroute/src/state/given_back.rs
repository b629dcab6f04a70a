//! The steps by which a target gives keys back, each a script: what a node does in one is done before
//! anybody else is served, and a script may say for a moment that a slot is not open.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use state::{
    migration::Value,
    scripts::{DROP, READ, RESTORE, Script},
    slot::Slot,
};

use wire::resp::Reply;

use super::{lease::Actor, note};

/// What the target has of `keys`; from then on it serves nobody who wants a key of the slot.
pub(super) fn read(
    actor: Actor<'_>,
    target: SocketAddr,
    slot: Slot,
    source: &str,
    keys: &[Vec<u8>],
) -> anyhow::Result<Vec<Value>> {
    let words: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let reply = run(actor, target, READ, slot, source, &words)?;
    let said = reply.list();
    if said.len() != keys.len() * 2 {
        bail!("{target}: expected the values of {1} keys, got {0}", said.len() / 2, keys.len());
    }
    let value = |(key, said): (&Vec<u8>, &[Reply])| match said {
        // It has expired.
        [Reply::Null, _] => None,
        [Reply::Bytes(value), Reply::Integer(expires)] => {
            let (key, value) = (key.clone(), value.clone());
            Some(Ok(Value { key, value, expires_ms: u64::try_from(*expires).unwrap_or(0) }))
        }
        other => Some(Err(anyhow::anyhow!("{target}: expected a value, got {other:?}"))),
    };
    keys.iter().zip(said.chunks_exact(2)).filter_map(value).collect()
}

/// The source takes those that it does not have.
pub(super) fn restore(
    actor: Actor<'_>,
    source: SocketAddr,
    slot: Slot,
    target: &str,
    values: &[Value],
) -> anyhow::Result<()> {
    let expires: Vec<String> = values.iter().map(|value| value.expires_ms.to_string()).collect();
    let words = values
        .iter()
        .zip(&expires)
        .flat_map(|(Value { key, value, .. }, expires)| [&key[..], &value[..], expires.as_bytes()]);
    run(actor, source, RESTORE, slot, target, &words.collect::<Vec<_>>())?;
    Ok(())
}

/// The target forgets `keys`, and serves whoever is sent there for others.
pub(super) fn drop(
    actor: Actor<'_>,
    target: SocketAddr,
    slot: Slot,
    source: &str,
    keys: &[Vec<u8>],
) -> anyhow::Result<()> {
    let words: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    run(actor, target, DROP, slot, source, &words)?;
    Ok(())
}

fn run(
    actor: Actor<'_>,
    node: SocketAddr,
    script: Script,
    slot: Slot,
    other: &str,
    words: &[&[u8]],
) -> anyhow::Result<Reply> {
    let number = slot.number().to_string();
    let words = [&[number.as_bytes(), other.as_bytes()], words].concat();
    let reply = actor.run(node, script, &words).and_then(note::done);
    reply.with_context(|| format!("{node} failed to give back slot {number}"))
}
