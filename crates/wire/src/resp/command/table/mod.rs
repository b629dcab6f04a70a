//! The rows, one file per type of value. The subcommands of a container follow it.

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

use super::{Command, Effect, Flags, Merge, Shards, Split};

/// Every row except those of subcommands.
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

// Short names, so that a row fits on one line.
const ELEMENTS: Effect = Effect::ReadMany(Split::Elements);
const SUM: Effect = Effect::ReadMany(Split::Sum);
const WHOLE: Effect = Effect::ReadMany(Split::Whole);

/// Split by key: one reply for each key, the sum, or one for all.
const EACH_KEY: Shards = Shards::OfKeys(Merge::ByKey);
const SUM_OF_KEYS: Shards = Shards::OfKeys(Merge::Sum);
const ALL_OF_KEYS: Shards = Shards::OfKeys(Merge::Same);
/// Executed by every shard.
const EVERY: Shards = Shards::All(Merge::Same);

const NONE: Flags = Flags::NONE;
const R: Flags = Flags::READONLY;
const W: Flags = Flags::WRITE;
const WM: Flags = W.and(Flags::DENYOOM);
const F: Flags = Flags::FAST;
const RF: Flags = R.and(F);
const WF: Flags = W.and(F);
const WMF: Flags = WM.and(F);
/// Answered while the server loads its data, and by a replica that lost its master.
const ALWAYS: Flags = Flags::LOADING.and(Flags::STALE);
/// The same, for the client's own connection or user.
const OWN: Flags = ALWAYS.and(Flags::NOSCRIPT);
/// The same, also before a client has logged in.
const OPEN: Flags = OWN.and(Flags::NO_AUTH).and(F);
const ADMIN_ALWAYS: Flags = OWN.and(Flags::ADMIN);
