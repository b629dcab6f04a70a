//! COMMAND: reports the command table to clients.

use notation::glob;
use wire::resp::command::Categories;

use crate::{
    call::Call,
    failure::{Failure, SYNTAX},
    outcome::Outcome,
    reply::Reply,
    row::{Row, Rows, Touch},
};

pub(crate) fn command(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let rows = &call.server.rows;
    call.reply.array(rows.commands().count());
    rows.commands().for_each(|row| describe(&mut call.reply, rows, row));
    Ok(Outcome::Done)
}

fn describe(reply: &mut Reply<'_>, rows: &Rows, row: &Row) {
    reply.array(10);
    reply.text(row.name());
    reply.integer(row.spec.arity.into());
    let flags: Vec<_> = row.spec.flags.names().collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    reply.integer(row.keys.first.into());
    reply.integer(row.keys.last.into());
    reply.integer(row.keys.step.into());
    let categories: Vec<_> = row.spec.categories().names().collect();
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(&format!("@{category}")));
    reply.array(0);
    let specifications = row.keys.specifications();
    reply.array(specifications.len());
    for specification in specifications {
        specify(reply, row.keys.step, specification);
    }
    let subcommands = rows.subcommands(row);
    reply.array(subcommands.len());
    subcommands.iter().for_each(|row| describe(reply, rows, row));
}

/// Writes the positions of some keys, and how the command accesses them.
fn specify(reply: &mut Reply<'_>, step: u8, (first, last, touch, varies): (u8, i8, Touch, bool)) {
    reply.map(3);
    reply.text("flags");
    let mut flags = touch.names();
    flags.extend(varies.then_some("variable_flags"));
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    reply.text("begin_search");
    reply.map(2);
    reply.text("type");
    reply.text("index");
    reply.text("spec");
    reply.map(1);
    reply.text("index");
    reply.integer(first.into());
    reply.text("find_keys");
    reply.map(2);
    reply.text("type");
    reply.text("range");
    reply.text("spec");
    reply.map(3);
    reply.text("lastkey");
    reply.integer(if last < 0 { last.into() } else { i64::from(last) - i64::from(first) });
    reply.text("keystep");
    reply.integer(step.into());
    reply.text("limit");
    reply.integer(0);
}

pub(crate) fn count(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    call.reply.count(call.server.rows.commands().count());
    Ok(Outcome::Done)
}

fn find(rows: &Rows, name: &[u8]) -> Option<&'static Row> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let container = rows.lookup(parts.next()?)?;
    match parts.next() {
        Some(own) => rows.subcommand(container, own),
        None => Some(container),
    }
}

pub(crate) fn info(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let (rows, names) = (&call.server.rows, &call.args[2..]);
    if names.is_empty() {
        return command(call);
    }
    call.reply.array(names.len());
    for name in names {
        match find(rows, name) {
            Some(row) => describe(&mut call.reply, rows, row),
            None => call.reply.null_array(),
        }
    }
    Ok(Outcome::Done)
}

pub(crate) fn docs(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let rows = &call.server.rows;
    let found: Vec<&Row> = match &call.args[2..] {
        [] => rows.commands().collect(),
        names => names.iter().filter_map(|name| find(rows, name)).collect(),
    };
    call.reply.map(found.len());
    found.iter().for_each(|row| document(&mut call.reply, rows, row));
    Ok(Outcome::Done)
}

fn document(reply: &mut Reply<'_>, rows: &Rows, row: &Row) {
    let subcommands = rows.subcommands(row);
    reply.text(row.name());
    reply.map(1 + usize::from(!subcommands.is_empty()));
    reply.text("group");
    reply.text(row.group.name());
    if !subcommands.is_empty() {
        reply.text("subcommands");
        reply.map(subcommands.len());
        subcommands.iter().for_each(|row| document(reply, rows, row));
    }
}

pub(crate) fn list(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let mut rows: Vec<&Row> = call.server.rows.commands().collect();
    match &call.args[2..] {
        [] => {}
        [filter, by, what] if filter.eq_ignore_ascii_case(b"FILTERBY") => {
            let folded = what.to_ascii_lowercase();
            let of = Categories::named(&String::from_utf8_lossy(&folded));
            match by.to_ascii_uppercase().as_slice() {
                b"PATTERN" => rows.retain(|row| glob::matches(&folded, row.name().as_bytes())),
                b"ACLCAT" => {
                    rows.retain(|row| of.is_some_and(|of| row.spec.categories().contains(of)));
                }
                b"MODULE" => rows.clear(),
                _ => return Err(SYNTAX),
            }
        }
        _ => return Err(SYNTAX),
    }
    call.reply.set(rows.len());
    rows.iter().for_each(|row| call.reply.text(row.name()));
    Ok(Outcome::Done)
}

/// Returns the row of the command in question and the positions of its keys.
fn keyed<'c>(rows: &Rows, args: &[&'c [u8]]) -> Result<Vec<(&'c [u8], Touch)>, Failure> {
    let invalid = |text: &'static str| Failure(text.into());
    let row = rows.find(args).ok_or_else(|| invalid("ERR Invalid command specified"))?;
    if row.keys.first == 0 {
        return Err(invalid("ERR The command has no key arguments"));
    }
    if !row.spec.accepts(args.len()) {
        return Err(invalid("ERR Invalid number of arguments specified for command"));
    }
    let keys: Vec<_> = row.touched(args).map(|(at, touch)| (args[at], touch)).collect();
    if keys.is_empty() {
        return Err(invalid("ERR The command has no key arguments"));
    }
    Ok(keys)
}

pub(crate) fn getkeys(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let keys = keyed(&call.server.rows, &call.args[2..])?;
    call.reply.array(keys.len());
    keys.iter().for_each(|(key, _)| call.reply.bulk(key));
    Ok(Outcome::Done)
}

pub(crate) fn getkeysandflags(call: &mut Call<'_, '_>) -> Result<Outcome, Failure> {
    let keys = keyed(&call.server.rows, &call.args[2..])?;
    call.reply.array(keys.len());
    for (key, touch) in keys {
        call.reply.array(2);
        call.reply.bulk(key);
        let flags = touch.names();
        call.reply.set(flags.len());
        flags.iter().for_each(|flag| call.reply.simple(flag));
    }
    Ok(Outcome::Done)
}
