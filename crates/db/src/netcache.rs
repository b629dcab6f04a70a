//! Keys of NetCache's protocol as the database keeps them, for a server agent that is a client of
//! the database.
//!
//! A value is the string `netcache:` and its key's 16 bytes; each writer's last sequence number is
//! at `netcache-writers:`, the same and its address, so that a write repeated after a restart is
//! applied once. Both are in one shard and are written by one EXEC, so a crash cannot separate
//! them.

use std::net::SocketAddr;

use wire::{
    netcache::Key,
    resp::{Frame, Limits, frame},
};

use crate::keyspace::shard_of;

/// Prefix of the keys of values.
const PREFIX: &[u8] = b"netcache:";
const WRITERS_PREFIX: &[u8] = b"netcache-writers:";
/// Time after a writer's last write to a key for which a repeated write is detected.
const WRITERS_LIVE_S: &[u8] = b"600";

/// The command that subscribes the agent to writes of other clients to values.
pub const TRACK: [&[u8]; 7] =
    [b"client", b"tracking", b"on", b"bcast", b"noloop", b"prefix", PREFIX];

/// The key of a value.
pub fn value(key: &Key) -> Vec<u8> {
    [PREFIX, key].concat()
}

/// The key of a writer's last sequence number: the first of a few names that lies in the shard of
/// the value.
pub fn last_write(key: &Key, writer: SocketAddr, shards: usize) -> Vec<u8> {
    let beside = shard_of(0, &value(key), shards);
    let writer = writer.to_string();
    let names = (0u32..).map(|attempt| {
        [WRITERS_PREFIX, key, b":", writer.as_bytes(), b":", attempt.to_string().as_bytes()]
            .concat()
    });
    let mut names = names.skip_while(|name| shard_of(0, name, shards) != beside);
    names.next().expect("about one name in `shards` does")
}

/// Passes to `execute` the commands that write or remove a value, and those that store its writer's
/// sequence number under `last_write`; the last one is `exec`.
///
/// # Errors
/// That of `execute`.
pub fn write<E>(
    key: &Key,
    content: Option<&[u8]>,
    last_write: &[u8],
    sequence: u32,
    mut execute: impl FnMut(&[&[u8]]) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let (name, sequence) = (value(key), sequence.to_string());
    execute(&[b"multi"])?;
    match content {
        Some(content) => execute(&[b"set", &name, content])?,
        None => execute(&[b"del", &name])?,
    };
    execute(&[b"set", last_write, sequence.as_bytes(), b"ex", WRITERS_LIVE_S])?;
    execute(&[b"exec"])
}

/// The reply in `bytes`.
///
/// # Errors
/// It is an error, or has one in it; it is not whole.
pub fn reply(bytes: &[u8]) -> Result<Frame<'_>, String> {
    let decoded = frame::decode(bytes, &Limits::default())
        .map_err(|error| format!("cannot decode the reply of the database: {error}"))?;
    let (reply, _) = decoded.ok_or("the reply of the database is incomplete")?;
    let refused = reply.elements().chain([reply]).find_map(|part| part.error());
    match refused {
        Some(why) => Err(String::from_utf8_lossy(why).into_owned()),
        None => Ok(reply),
    }
}

/// The keys of values that the invalidation messages in `pushed` name.
///
/// # Errors
/// A message is not as expected, or says that all keys have changed.
pub fn changed(pushed: &[u8]) -> Result<Vec<Key>, String> {
    let (mut rest, mut changed) = (pushed, Vec::new());
    while let Some((push, bytes)) =
        frame::decode(rest, &Limits::default()).map_err(|error| error.to_string())?
    {
        rest = &rest[bytes..];
        let names = push.elements().nth(1);
        let names = names.ok_or("expected an invalidation message with keys, got one without")?;
        if names.is_null() {
            return Err("all keys were invalidated (FLUSHALL or FLUSHDB)".to_owned());
        }
        let keys = names.elements().filter_map(|name| name.payload()?.strip_prefix(PREFIX));
        changed.extend(keys.filter_map(|key| Key::try_from(key).ok()));
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_s_number_lies_beside_the_value() {
        for number in 0..1_000u16 {
            let mut key = [7; 16];
            key[..2].copy_from_slice(&number.to_le_bytes());
            let writer = SocketAddr::from(([10, 0, 0, 1], number));
            let (value, last) = (value(&key), last_write(&key, writer, 4));
            assert_eq!(shard_of(0, &value, 4), shard_of(0, &last, 4), "{number}");
            assert!(!last.starts_with(PREFIX), "Redis's clients are not told of it");
        }
    }

    #[test]
    fn changes_are_the_keys_of_values_unless_all_have_changed() {
        let key = [b'k'; 16];
        let mut pushed = b">2\r\n$10\r\ninvalidate\r\n*2\r\n$25\r\n".to_vec();
        pushed.extend_from_slice(&value(&key));
        pushed.extend_from_slice(b"\r\n$5\r\nother\r\n");
        assert_eq!(changed(&pushed), Ok(vec![key]));
        assert!(changed(b">2\r\n$10\r\ninvalidate\r\n_\r\n").is_err());
        assert!(reply(b"*2\r\n+OK\r\n-ERR no\r\n").is_err() && reply(b"*2\r\n+OK\r\n").is_err());
        assert!(reply(b"+OK\r\n").is_ok());
    }
}
