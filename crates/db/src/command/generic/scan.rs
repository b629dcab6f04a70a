//! SCAN, KEYS, RANDOMKEY, DBSIZE: which keys there are.
//!
//! Keys whose names lie on disk have to be read, so a walk over all of them goes in portions and
//! leaves the shards to others between two: [`Walk`].

use super::super::Call;
use crate::{
    failure::{Failure, SYNTAX},
    glob,
    number::integer,
};

/// Keys looked at in one portion of a walk.
const PORTION: usize = 4_096;
/// Keys asked of a shard at once during a walk.
const PAGE: usize = 256;
/// Keys drawn in search of one of the right database that has not expired.
const DRAWS_MAX: usize = 64;
/// Bits of a cursor that name the shard.
const SHARD_BITS: u32 = 8;

/// A place in a scan over all shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor(pub(crate) u64);

/// Names of keys.
type Names = Vec<Box<[u8]>>;

/// Keys of the database from `cursor` on, about `count` of those looked at; `None` while the disk
/// is asked. The cursor is 0 again once all were seen.
pub(crate) fn page(
    call: &mut Call<'_, '_>,
    cursor: Cursor,
    count: usize,
) -> Result<Option<(Cursor, Names)>, Failure> {
    let (client, now, database) = (call.keys.client, call.keys.now, call.keys.database);
    let index = (cursor.0 & ((1 << SHARD_BITS) - 1)) as usize;
    let inner = cursor.0 >> SHARD_BITS;
    let Some(shard) = call.keys.at(index) else { return Ok(Some((Cursor(0), Vec::new()))) };
    let found = shard.scan(inner, count, client, now);
    let Some((inner, stored)) = call.keys.unless_missing(index, found)? else { return Ok(None) };
    let next = match inner {
        0 if index + 1 == call.keys.count => 0,
        0 => index as u64 + 1,
        inner => inner << SHARD_BITS | index as u64,
    };
    let own = stored.iter().filter(|key| key.first() == Some(&database));
    Ok(Some((Cursor(next), own.map(|key| key[1..].into()).collect())))
}

/// A walk over all keys that is under way: where it goes on, and what it has found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    cursor: Cursor,
    found: Vec<Box<[u8]>>,
}

/// Goes on with the walk of this command; what it found once it is over.
fn walk(
    call: &mut Call<'_, '_>,
    keep: impl Fn(&[u8]) -> bool,
) -> Result<Option<Vec<Box<[u8]>>>, Failure> {
    let mut walk = call.session.walk.take().unwrap_or_default();
    let mut seen = 0;
    while seen < PORTION {
        let Some((cursor, keys)) = page(call, walk.cursor, PAGE)? else {
            call.session.walk = Some(walk);
            return Ok(None);
        };
        seen += PAGE;
        walk.cursor = cursor;
        walk.found.extend(keys.into_iter().filter(|key| keep(key)));
        if cursor == Cursor(0) {
            return Ok(Some(walk.found));
        }
    }
    call.session.walk = Some(walk);
    call.session.again = true;
    Ok(None)
}

/// Every key of the database, by portions; `None` as long as there are more.
pub(crate) fn walk_all(call: &mut Call<'_, '_>) -> Result<Option<Vec<Box<[u8]>>>, Failure> {
    walk(call, |_| true)
}

pub(crate) fn keys(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    let pattern = call.args[1];
    if let Some(found) = walk(call, |key| glob::matches(pattern, key))? {
        call.reply.array(found.len());
        found.iter().for_each(|key| call.reply.bulk(key));
    }
    Ok(())
}

pub(crate) fn scan(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    let text = std::str::from_utf8(call.args[1]).ok();
    let cursor = text.and_then(|text| text.parse().ok());
    let cursor = Cursor(cursor.ok_or_else(|| Failure("ERR invalid cursor".into()))?);
    let (mut count, mut pattern, mut strings) = (10, None, true);
    let mut arguments = &call.args[2..];
    while let [option, value, rest @ ..] = arguments {
        if option.eq_ignore_ascii_case(b"COUNT") {
            count = usize::try_from(integer(value)?).unwrap_or(0);
            if count == 0 {
                return Err(SYNTAX);
            }
        } else if option.eq_ignore_ascii_case(b"MATCH") {
            pattern = Some(*value);
        } else if option.eq_ignore_ascii_case(b"TYPE") {
            strings = value.eq_ignore_ascii_case(b"string");
        } else {
            return Err(SYNTAX);
        }
        arguments = rest;
    }
    if !arguments.is_empty() {
        return Err(SYNTAX);
    }
    let mut walk = Walk { cursor, found: Vec::new() };
    loop {
        let wanted = count.saturating_sub(walk.found.len()).clamp(1, PORTION);
        let Some((next, keys)) = page(call, walk.cursor, wanted)? else { return Ok(()) };
        walk.cursor = next;
        walk.found.extend(keys);
        if next == Cursor(0) || walk.found.len() >= count.min(PORTION) {
            break;
        }
    }
    walk.found.retain(|key| strings && pattern.is_none_or(|pattern| glob::matches(pattern, key)));
    call.reply.array(2);
    call.reply.text(&walk.cursor.0.to_string());
    call.reply.array(walk.found.len());
    walk.found.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

pub(crate) fn randomkey(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    let (client, now, database) = (call.keys.client, call.keys.now, call.keys.database);
    let total: u64 = call.keys.held().map(|shard| shard.store.len()).sum();
    call.keys.load_counts()?;
    if !call.keys.missing.is_empty() {
        return Ok(());
    }
    if call.keys.len(database) == 0 {
        call.reply.null();
        return Ok(());
    }
    // The same draws again when what they need has come from disk.
    let seed = *call.session.draw.get_or_insert_with(|| call.server.random());
    for turn in 0..DRAWS_MAX as u64 {
        let random = crate::server::mix(seed.wrapping_add(turn));
        let mut place = ((u128::from(random) * u128::from(total)) >> 64) as u64;
        let lengths: Vec<u64> = call.keys.held().map(|shard| shard.store.len()).collect();
        let index = lengths.iter().position(|&length| match place.checked_sub(length) {
            Some(rest) => {
                place = rest;
                false
            }
            None => true,
        });
        let Some(shard) = index.and_then(|index| call.keys.at(index)) else { break };
        let found = shard.random_key(crate::server::mix(random), client, now);
        let Some(key) = call.keys.unless_missing(index.unwrap_or(0), found)? else { return Ok(()) };
        let Some(key) = key.filter(|key| key.first() == Some(&database)) else { continue };
        call.keys.load(database, &key[1..], false)?;
        if !call.keys.missing.is_empty() {
            return Ok(());
        }
        if call.keys.exists(&key[1..]) {
            call.session.draw = None;
            call.reply.bulk(&key[1..]);
            return Ok(());
        }
    }
    call.session.draw = None;
    call.reply.null();
    Ok(())
}

pub(crate) fn dbsize(call: &mut Call<'_, '_>) -> Result<(), Failure> {
    let database = call.keys.database;
    call.keys.load_counts()?;
    let count = call.keys.len(database);
    call.reply.integer(count as i64);
    Ok(())
}
