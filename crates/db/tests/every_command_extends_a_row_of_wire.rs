//! Name, arity, key positions, flags and categories of a command are defined once, in `wire`; a
//! cache and an agent use the same rows as the database.

use db::{ROWS, row::Row};
use wire::resp::command;

/// The row of `wire` that a client's words find.
fn found(row: &Row) -> &'static command::Command {
    let (container, own) = row.name().split_once('|').unwrap_or((row.name(), ""));
    let found = command::lookup(container.as_bytes())
        .unwrap_or_else(|| panic!("`wire` has no command {container}"));
    if own.is_empty() {
        return found;
    }
    let mut subcommands = found.subcommands.iter();
    subcommands.find(|each| each.name == row.name()).unwrap_or_else(|| {
        panic!("`wire` has no command {}", row.name());
    })
}

#[test]
fn every_command_extends_a_row_of_wire() {
    for row in &ROWS {
        let found = found(row);
        let said = |row: &command::Command| (row.arity, row.keys, row.flags, row.categories());
        assert_eq!(said(&row.spec), said(found), "{}", row.name());
    }
    assert!(ROWS.len() > 130, "only {} rows", ROWS.len());
}
