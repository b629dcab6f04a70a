//! The rows, one file per kind of value. A container's sub-commands stand below it.

mod cluster;
mod connection;
mod generic;
mod geo;
mod hash;
mod list;
mod module;
mod pubsub;
mod scripting;
mod server;
mod set;
mod sorted_set;
mod stream;
mod string;

use super::{Command, Effect, Split};

/// Every row but those of sub-commands.
pub(super) const GROUPS: &[&[Command]] = &[
    string::COMMANDS,
    hash::COMMANDS,
    list::COMMANDS,
    set::COMMANDS,
    sorted_set::COMMANDS,
    stream::COMMANDS,
    geo::COMMANDS,
    generic::COMMANDS,
    scripting::COMMANDS,
    connection::COMMANDS,
    pubsub::COMMANDS,
    server::COMMANDS,
    cluster::COMMANDS,
    module::COMMANDS,
];

// Short names, so that a row stays one line.
const ELEMENTS: Effect = Effect::ReadMany(Split::Elements);
const SUM: Effect = Effect::ReadMany(Split::Sum);
const WHOLE: Effect = Effect::ReadMany(Split::Whole);
