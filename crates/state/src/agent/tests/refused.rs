//! The guide lists the commands that the agent refuses, each by its name.

use std::collections::BTreeSet;

use wire::resp::command::{self, Command};

use super::*;
use crate::agent::{client::Client, here};

const GUIDE: &str = include_str!("../../../../../docs/guide/state.md");
const HEADING: &str = "### Refused commands";

/// The names in the first column of the guide's table.
fn listed() -> BTreeSet<String> {
    let (_, section) = GUIDE.split_once(HEADING).expect("the guide has the section");
    let rows = section.lines().skip(1).take_while(|line| !line.starts_with('#'));
    let cells = rows.filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let names = cells.filter(|cell| *cell != "command").flat_map(|cell| cell.split(", "));
    names.map(|name| name.trim().to_owned()).collect()
}

/// Whether the agent refuses the shortest call of a command that a node would accept.
fn is_refused(command: &Command) -> bool {
    let mut words: Vec<&str> = command.name.split('|').collect();
    words.resize(usize::from(command.arity.unsigned_abs()).max(words.len()), "1");
    let mut bytes = Vec::new();
    request::write_command(&mut bytes, &words);
    let (request, _) = request::decode(&bytes, &Limits::default()).expect("valid").expect("whole");
    match route(&request) {
        Route::Refused(_) => true,
        Route::Here(name) => {
            let rights = Rights::new(&Limits::default());
            let mut client = Client::new(1, address(0), &rights);
            let answer = here::answer(&mut client, name, &request, rights.users());
            answer.starts_with(b"-ERR the agent does not support")
        }
        _ => false,
    }
}

#[test]
fn the_guide_lists_every_command_that_is_refused_and_no_other() {
    let rows = command::all().flat_map(|row| match row.subcommands {
        [] => std::slice::from_ref(row),
        subcommands => subcommands,
    });
    let refused: BTreeSet<String> = rows
        .filter(|command| is_refused(command))
        .map(|command| command.name.replace('|', " ").to_uppercase())
        .collect();
    let listed = listed();
    let missing: Vec<&String> = refused.difference(&listed).collect();
    let wrong: Vec<&String> = listed.difference(&refused).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "missing: {missing:?}\nnot refused: {wrong:?}");
    assert!(refused.len() > 50, "{refused:?}");
}
