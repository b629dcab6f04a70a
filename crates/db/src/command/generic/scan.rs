//! SCAN, KEYS, RANDOMKEY, DBSIZE: listing keys.
//!
//! Keys whose names are on disk have to be read, so a walk over all keys is executed in portions,
//! between which other commands use the shards: [`Walk`].

use std::sync::atomic::Ordering::Relaxed;

use notation::glob;

use crate::{
    call::Call,
    connection::{Cursor, Names, Walk},
    failure::{Failure, SYNTAX},
    number::integer,
    outcome::Outcome,
    reply::Reply,
};

/// Keys looked at in one portion of a walk.
const PORTION: usize = 4_096;
/// Keys asked of a shard at once during a walk.
const PAGE: usize = 256;
/// Keys drawn in search of one of the right database that has not expired.
const DRAWS_MAX: usize = 64;
/// Bits of a cursor that name the shard.
const SHARD_BITS: u32 = 8;

/// A step of a scan over all shards.
pub(crate) struct Page {
    next: Cursor,
    keys: Names,
    /// Places that could not be read.
    passed_over: u64,
}

/// Keys of the database from `cursor` on, about `count` of those looked at; how the command ends if
/// that needs the disk. The cursor is 0 again once all were seen.
pub(crate) fn page(call: &mut Call<'_, '_>, cursor: Cursor, count: usize) -> Result<Page, Outcome> {
    let (client, now, database) = (call.keys.client, call.keys.now, call.keys.database);
    let index = (cursor.0 & ((1 << SHARD_BITS) - 1)) as usize;
    let inner = cursor.0 >> SHARD_BITS;
    call.keys.may_ask()?;
    let Some(shard) = call.keys.at(index) else {
        return Ok(Page { next: Cursor(0), keys: Names::new(), passed_over: 0 });
    };
    let found = shard.scan(inner, count, client, now);
    let (inner, stored, passed_over) = call.keys.unless_missing(index, found)?;
    let next = match inner {
        0 if index + 1 == call.keys.count => 0,
        0 => index as u64 + 1,
        inner => inner << SHARD_BITS | index as u64,
    };
    let own = stored.iter().filter(|key| key.first() == Some(&database));
    let keys = own.map(|key| key[1..].into()).collect();
    Ok(Page { next: Cursor(next), keys, passed_over })
}

/// Finds the keys of the next page, unless some are left that were found; how the command ends if
/// that needs the disk.
pub(super) fn turn_page(call: &mut Call<'_, '_>, walk: &mut Walk) -> Result<(), Outcome> {
    if walk.found.is_empty() && !walk.is_over() {
        let from = walk.cursor.unwrap_or_default();
        let page = page(call, from, PAGE)?;
        call.server.stats.passed_over.fetch_add(page.passed_over, Relaxed);
        (walk.cursor, walk.found) = (Some(page.next), page.keys);
    }
    Ok(())
}

/// Continues the walk of this command and keeps the keys that `keep` accepts. Answers when the walk
/// is complete or `most` keys are found.
fn walk(
    call: &mut Call<'_, '_>,
    most: usize,
    keep: impl Fn(&[u8]) -> bool,
    answer: impl FnOnce(&mut Reply<'_>, &Walk),
) -> Outcome {
    let mut walk = call.connection.progress.walk.take().unwrap_or_default();
    for _ in 0..PORTION / PAGE {
        let from = walk.cursor.unwrap_or_default();
        let page = match page(call, from, PAGE) {
            Ok(page) => page,
            Err(pending) => {
                call.connection.progress.walk = Some(walk);
                return pending;
            }
        };
        call.server.stats.passed_over.fetch_add(page.passed_over, Relaxed);
        walk.cursor = Some(page.next);
        walk.seen += page.keys.len() as u64;
        walk.found.extend(page.keys.into_iter().filter(|key| keep(key)));
        if walk.is_over() || walk.found.len() >= most {
            answer(&mut call.reply, &walk);
            return Outcome::Done;
        }
    }
    call.connection.progress.walk = Some(walk);
    Outcome::Again
}

pub(crate) fn keys(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let pattern = call.args[1];
    let keep = |key: &[u8]| glob::matches(pattern, key);
    Ok(walk(call, usize::MAX, keep, |reply, walk| {
        reply.array(walk.found.len());
        walk.found.iter().for_each(|key| reply.bulk(key));
    }))
}

pub(crate) fn scan(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
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
    let (mut next, mut found, mut passed_over) = (cursor, Names::new(), 0);
    loop {
        let wanted = count.saturating_sub(found.len()).clamp(1, PORTION);
        let page = match page(call, next, wanted) {
            Ok(page) => page,
            Err(pending) => return Ok(pending),
        };
        next = page.next;
        found.extend(page.keys);
        passed_over += page.passed_over;
        if next == Cursor(0) || found.len() >= count.min(PORTION) {
            break;
        }
    }
    // Now, as what waits for the disk on the way begins again.
    call.server.stats.passed_over.fetch_add(passed_over, Relaxed);
    found.retain(|key| strings && pattern.is_none_or(|pattern| glob::matches(pattern, key)));
    call.reply.array(2);
    call.reply.text(&next.0.to_string());
    call.reply.array(found.len());
    found.iter().for_each(|key| call.reply.bulk(key));
    Ok(Outcome::Done)
}

pub(crate) fn randomkey(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    if call.connection.progress.walk.is_none() {
        match draw(call)? {
            Draw::Key(key) => {
                call.reply.bulk(&key);
                return Ok(Outcome::Done);
            }
            Draw::Pending(pending) => return Ok(pending),
            Draw::Nothing => {}
        }
    }
    // Few of the keys are in this database: the first that is.
    Ok(walk(
        call,
        1,
        |_| true,
        |reply, walk| {
            reply.optional(walk.found.first().map(|key| &**key));
        },
    ))
}

enum Draw {
    Key(Box<[u8]>),
    Nothing,
    /// The command ends so, as it needs the disk.
    Pending(Outcome),
}

/// Draws random keys until one is of this database.
fn draw(call: &mut Call<'_, '_>) -> Result<Draw, Failure> {
    let (client, now, database) = (call.keys.client, call.keys.now, call.keys.database);
    if let Err(pending) = call.keys.may_ask() {
        return Ok(Draw::Pending(pending));
    }
    let lengths: Vec<u64> = call.keys.held().map(|shard| shard.store.len()).collect();
    let total: u64 = lengths.iter().sum();
    // The same random numbers are used again when the data has been read from disk.
    let seed = *call.connection.progress.draw.get_or_insert_with(|| call.server.random());
    for turn in 0..DRAWS_MAX as u64 {
        let random = crate::server::mix(seed.wrapping_add(turn));
        let mut place = ((u128::from(random) * u128::from(total)) >> 64) as u64;
        let index = lengths.iter().position(|&length| match place.checked_sub(length) {
            Some(rest) => {
                place = rest;
                false
            }
            None => true,
        });
        let Some(index) = index else { break };
        let Some(shard) = call.keys.at(index) else { break };
        let found = shard.random_key(crate::server::mix(random), client, now);
        let key = match call.keys.unless_missing(index, found) {
            Ok(key) => key.filter(|key| key.first() == Some(&database)),
            Err(pending) => return Ok(Draw::Pending(pending)),
        };
        let Some(key) = key else { continue };
        match call.keys.load(database, &key[1..], false) {
            // Its expiry cannot be read: draw another key.
            Err(failure) if failure.is_of_disk() => continue,
            loaded => loaded?,
        }
        if let Some(pending) = call.keys.pending() {
            return Ok(Draw::Pending(pending));
        }
        if call.keys.exists(&key[1..]) {
            return Ok(Draw::Key(key[1..].into()));
        }
    }
    Ok(Draw::Nothing)
}

pub(crate) fn dbsize(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let (database, now) = (call.keys.database, call.keys.now);
    call.keys.load_counts()?;
    if let Some(pending) = call.keys.pending() {
        return Ok(pending);
    }
    if call.keys.held().all(|shard| shard.counts_exactly(now)) {
        let count = call.keys.len(database);
        call.reply.integer(count as i64);
        return Ok(Outcome::Done);
    }
    Ok(walk(call, usize::MAX, |_| false, |reply, walk| reply.integer(walk.seen as i64)))
}
