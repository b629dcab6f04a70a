//! The rows, and the way from a name to its row.

use std::sync::LazyLock;

use hashbrown::HashMap;

use super::{
    Command, Flags, Group, Handler, Keys, Scope, Touch, bit, connection, generic, server, string,
};

const W: Flags = Flags::WRITE;
const WM: Flags = Flags::WRITE.and(Flags::DENYOOM);
const R: Flags = Flags::READONLY;
const F: Flags = Flags::FAST;
const RF: Flags = R.and(F);
const WF: Flags = W.and(F);
const FREES: Flags = W.and(Flags::FREES);
const REPLACES: Flags = Flags::REPLACES;
const WMF: Flags = WM.and(F);
/// Before AUTH too, and while loading.
const OPEN: Flags = Flags::NO_AUTH.and(Flags::LOADING).and(F).and(Flags::NOSCRIPT);
const NONE: Flags = Flags::NONE;
const LOADING: Flags = Flags::LOADING;
const SELF: Flags = Flags::LOADING.and(Flags::NOSCRIPT);
const ADMIN: Flags = Flags::ADMIN.and(Flags::LOADING).and(Flags::NOSCRIPT);
const TX: Flags = Flags::LOADING.and(Flags::NOSCRIPT).and(F).and(Flags::UNQUEUED);

const ONE: Keys = keys(1, 1, 1);
const TWO: Keys = keys(1, 2, 1);
const ALL: Keys = keys(1, -1, 1);
const PAIRS: Keys = keys(1, -1, 2);
const SECOND: Keys = keys(2, 2, 1);
const NO: Keys = Keys::NONE;

const LOOK: Touch = Touch::LOOK;
const READ: Touch = Touch::READ;
const CHANGE: Touch = Touch::CHANGE;
const ADD: Touch = Touch::ADD;
const READ_CHANGE: Touch = Touch::READ_CHANGE;
const READ_DELETE: Touch = Touch::READ_DELETE;
const REPLACE: Touch = Touch::REPLACE;
const CREATE: Touch = Touch::CREATE;
const DELETE: Touch = Touch::DELETE;

const fn keys(first: u8, last: i8, step: u8) -> Keys {
    Keys { first, last, step, ..NO }
}

const fn row(
    name: &'static str,
    arity: i8,
    flags: Flags,
    keys: Keys,
    group: Group,
    handler: Handler,
) -> Command {
    let scope = if keys.first == 0 { Scope::None } else { Scope::Keys };
    let category = group.category();
    Command { name, arity, flags, keys, scope, group, category, handler, subcommands: &[] }
}

const fn string(
    name: &'static str,
    arity: i8,
    flags: Flags,
    keys: Keys,
    handler: Handler,
) -> Command {
    row(name, arity, flags, keys, Group::String, handler)
}

const fn bitmap(
    name: &'static str,
    arity: i8,
    flags: Flags,
    keys: Keys,
    handler: Handler,
) -> Command {
    row(name, arity, flags, keys, Group::Bitmap, handler)
}

const fn generic(
    name: &'static str,
    arity: i8,
    flags: Flags,
    keys: Keys,
    handler: Handler,
) -> Command {
    row(name, arity, flags, keys, Group::Generic, handler)
}

const fn connection(name: &'static str, arity: i8, flags: Flags, handler: Handler) -> Command {
    row(name, arity, flags, NO, Group::Connection, handler)
}

const fn server(name: &'static str, arity: i8, flags: Flags, handler: Handler) -> Command {
    row(name, arity, flags, NO, Group::Server, handler)
}

const fn transaction(
    name: &'static str,
    arity: i8,
    flags: Flags,
    keys: Keys,
    handler: Handler,
) -> Command {
    row(name, arity, flags, keys, Group::Transactions, handler)
}

impl Command {
    const fn everywhere(mut self) -> Self {
        self.scope = Scope::All;
        self
    }

    const fn containing(mut self, subcommands: &'static [Command]) -> Self {
        self.subcommands = subcommands;
        self.category = None;
        self
    }

    const fn within(mut self, category: &'static str) -> Self {
        self.category = Some(category);
        self
    }
}

/// Every command.
pub static COMMANDS: &[Command] = &[
    string("append", 3, WMF, ONE.all(ADD), string::append::append),
    string("decr", 2, WMF, ONE.all(READ_CHANGE), string::increment::decr),
    string("decrby", 3, WMF, ONE.all(READ_CHANGE), string::increment::decrby),
    string("get", 2, RF, ONE.all(READ), string::get::get),
    string("getdel", 2, FREES.and(F), ONE.all(READ_DELETE), string::get::getdel),
    string("getex", -2, WF, ONE.all(READ_CHANGE), string::getex::getex),
    string("getrange", 4, R, ONE.all(READ), string::range::getrange),
    string("getset", 3, WMF, ONE.all(READ_CHANGE), string::set::getset),
    string("incr", 2, WMF, ONE.all(READ_CHANGE), string::increment::incr),
    string("incrby", 3, WMF, ONE.all(READ_CHANGE), string::increment::incrby),
    string("incrbyfloat", 3, WMF, ONE.all(READ_CHANGE), string::increment::incrbyfloat),
    string("lcs", -3, R, TWO.all(READ), string::lcs::lcs),
    string("mget", -2, RF, ALL.all(READ), string::get::mget),
    string("mset", -3, WM, PAIRS.all(REPLACE), string::mset::mset),
    string("msetnx", -3, WM, PAIRS.all(CREATE), string::mset::msetnx),
    string("psetex", 4, WM.and(REPLACES), ONE.all(REPLACE), string::set::psetex),
    string(
        "set",
        -3,
        WM.and(REPLACES),
        ONE.all(READ_CHANGE).or(string::set::touch),
        string::set::set,
    ),
    string("setex", 4, WM.and(REPLACES), ONE.all(REPLACE), string::set::setex),
    string("setnx", 3, WMF, ONE.all(CREATE), string::set::setnx),
    string("setrange", 4, WM, ONE.all(CHANGE), string::range::setrange),
    string("strlen", 2, RF, ONE.all(LOOK), string::get::strlen),
    string("substr", 4, R, ONE.all(READ), string::range::getrange),
    bitmap("bitcount", -2, R, ONE.all(READ), bit::count::bitcount),
    bitmap("bitfield", -2, WM, ONE.all(READ_CHANGE).or(bit::field::touch), bit::field::bitfield),
    bitmap("bitfield_ro", -2, RF, ONE.all(READ), bit::field::bitfield_ro),
    bitmap("bitop", -4, WM, keys(2, -1, 1).touched(REPLACE, READ), bit::operation::bitop),
    bitmap("bitpos", -3, R, ONE.all(READ), bit::position::bitpos),
    bitmap("getbit", 3, RF, ONE.all(READ), bit::single::getbit),
    bitmap("setbit", 4, WM, ONE.all(READ_CHANGE), bit::single::setbit),
    generic("copy", -3, WM, TWO.touched(READ, REPLACE), generic::rename::copy).everywhere(),
    generic("del", -2, FREES.and(REPLACES), ALL.all(DELETE), generic::delete::del),
    generic("exists", -2, RF, ALL.all(LOOK), generic::delete::exists),
    generic("expire", -3, WF, ONE.all(CHANGE), generic::expire::expire),
    generic("expireat", -3, WF, ONE.all(CHANGE), generic::expire::expireat),
    generic("expiretime", 2, RF, ONE.all(READ), generic::ttl::expiretime),
    generic("keys", 2, R.and(Flags::DANGEROUS), NO, generic::scan::keys).everywhere(),
    generic("move", 3, WF, ONE.all(READ_CHANGE), generic::rename::move_key).everywhere(),
    generic("object", -2, NONE, NO, server::help::object).containing(OBJECT),
    generic("persist", 2, WF, ONE.all(CHANGE), generic::ttl::persist),
    generic("pexpire", -3, WF, ONE.all(CHANGE), generic::expire::pexpire),
    generic("pexpireat", -3, WF, ONE.all(CHANGE), generic::expire::pexpireat),
    generic("pexpiretime", 2, RF, ONE.all(READ), generic::ttl::pexpiretime),
    generic("pttl", 2, RF, ONE.all(READ), generic::ttl::pttl),
    generic("randomkey", 1, R, NO, generic::scan::randomkey).everywhere(),
    generic("rename", 3, W, TWO.touched(READ_DELETE, REPLACE), generic::rename::rename),
    generic("renamenx", 3, WF, TWO.touched(READ_DELETE, CREATE), generic::rename::renamenx),
    generic("scan", -2, R, NO, generic::scan::scan).everywhere(),
    generic("touch", -2, RF, ALL.all(LOOK), generic::delete::exists),
    generic("ttl", 2, RF, ONE.all(READ), generic::ttl::ttl),
    generic("type", 2, RF, ONE.all(LOOK), generic::delete::kind),
    generic("unlink", -2, FREES.and(F).and(REPLACES), ALL.all(DELETE), generic::delete::del),
    generic("wait", 3, Flags::NOSCRIPT, NO, server::help::wait).within("connection"),
    server("dbsize", 1, RF, generic::scan::dbsize).within("keyspace").everywhere(),
    server("flushall", -1, FREES.and(Flags::DANGEROUS), generic::flush::flushall)
        .within("keyspace")
        .everywhere(),
    server("flushdb", -1, FREES.and(Flags::DANGEROUS), generic::flush::flushdb)
        .within("keyspace")
        .everywhere(),
    transaction("discard", 1, TX, NO, connection::transaction::discard),
    transaction("exec", 1, SELF.and(Flags::UNQUEUED), NO, connection::transaction::exec),
    transaction("multi", 1, TX, NO, connection::transaction::multi),
    transaction("unwatch", 1, SELF.and(F), NO, connection::transaction::unwatch),
    transaction("watch", -2, TX, ALL.all(LOOK), connection::transaction::watch),
    connection("auth", -2, OPEN, connection::auth::auth),
    connection("client", -2, NONE, server::help::client).containing(CLIENT),
    connection("echo", 2, F.and(Flags::LOADING), connection::ping::echo),
    connection("hello", -1, OPEN, connection::hello::hello),
    connection("ping", -1, F, connection::ping::ping),
    connection("quit", -1, OPEN.and(Flags::UNQUEUED), connection::ping::quit),
    connection("reset", 1, OPEN.and(Flags::UNQUEUED), connection::ping::reset),
    connection("select", 2, F.and(Flags::LOADING), connection::ping::select),
    row(
        "subscribe",
        -2,
        SELF.and(Flags::PUBSUB),
        NO,
        Group::Pubsub,
        connection::subscribe::subscribe,
    ),
    row(
        "unsubscribe",
        -1,
        SELF.and(Flags::PUBSUB),
        NO,
        Group::Pubsub,
        connection::subscribe::unsubscribe,
    ),
    server("acl", -2, NONE, server::help::acl).containing(ACL),
    server("bgrewriteaof", 1, Flags::ADMIN.and(Flags::NOSCRIPT), server::memory::compact),
    server("command", -1, LOADING, server::commands::command)
        .containing(COMMAND)
        .within("connection"),
    server("config", -2, NONE, server::help::config).containing(CONFIG),
    server("debug", -2, ADMIN.and(Flags::PROTECTED), server::debug::debug).everywhere(),
    server("function", -2, NONE, server::help::function).containing(FUNCTION),
    server("info", -1, Flags::LOADING.and(Flags::DANGEROUS), server::info::info).everywhere(),
    server("lastsave", 1, LOADING.and(F), server::help::lastsave).within("admin"),
    server("latency", -2, NONE, server::help::latency).containing(LATENCY),
    server("memory", -2, NONE, server::help::memory).containing(MEMORY),
    server("rescale", -1, ADMIN, server::memory::rescale).everywhere(),
    server("role", 1, SELF.and(F), server::help::role).within("admin"),
    server("shutdown", -1, ADMIN.and(Flags::NO_MULTI), server::help::shutdown),
    server("slowlog", -2, NONE, server::help::slowlog).containing(SLOWLOG),
    server("time", 1, Flags::LOADING.and(F), server::help::time),
];

static OBJECT: &[Command] = &[
    generic("object|encoding", 3, R, SECOND.all(LOOK), generic::object::encoding),
    generic("object|freq", 3, R, SECOND.all(LOOK), generic::object::freq),
    generic("object|help", 2, LOADING, NO, server::help::object),
    generic("object|idletime", 3, R, SECOND.all(LOOK), generic::object::idletime),
    generic("object|refcount", 3, R, SECOND.all(LOOK), generic::object::refcount),
];

static CLIENT: &[Command] = &[
    connection("client|caching", 3, SELF, connection::tracking::caching),
    connection("client|getname", 2, SELF, connection::client::getname),
    connection("client|getredir", 2, SELF, connection::tracking::getredir),
    connection("client|help", 2, LOADING, server::help::client),
    connection("client|id", 2, SELF, connection::client::id),
    connection("client|info", 2, SELF, connection::client::info),
    connection("client|kill", -3, ADMIN, connection::client::kill),
    connection("client|list", -2, ADMIN, connection::client::list),
    connection("client|no-evict", 3, ADMIN, connection::client::no_evict),
    connection("client|reply", 3, SELF, connection::client::reply),
    connection("client|setinfo", 4, SELF, connection::client::setinfo),
    connection("client|setname", 3, SELF, connection::client::setname),
    connection("client|tracking", -3, SELF, connection::tracking::tracking).everywhere(),
    connection("client|trackinginfo", 2, SELF, connection::tracking::trackinginfo),
    connection("client|unpause", 2, ADMIN, connection::client::unpause),
];

static ACL: &[Command] = &[
    server("acl|cat", -2, SELF, server::acl::cat),
    server("acl|deluser", -3, ADMIN, server::acl::deluser),
    server("acl|dryrun", -4, ADMIN, server::acl::dryrun),
    server("acl|genpass", -2, SELF, server::acl::genpass),
    server("acl|getuser", 3, ADMIN, server::acl::getuser),
    server("acl|help", 2, LOADING, server::help::acl),
    server("acl|list", 2, ADMIN, server::acl::list),
    server("acl|load", 2, ADMIN, server::acl::load),
    server("acl|save", 2, ADMIN, server::acl::save),
    server("acl|setuser", -3, ADMIN, server::acl::setuser),
    server("acl|users", 2, ADMIN, server::acl::users),
    server("acl|whoami", 2, SELF, server::acl::whoami),
];

static COMMAND: &[Command] = &[
    connection("command|count", 2, LOADING, server::commands::count),
    connection("command|docs", -2, LOADING, server::commands::docs),
    connection("command|getkeys", -4, LOADING, server::commands::getkeys),
    connection("command|getkeysandflags", -4, LOADING, server::commands::getkeysandflags),
    connection("command|info", -2, LOADING, server::commands::info),
    connection("command|list", -2, LOADING, server::commands::list),
];

static CONFIG: &[Command] = &[
    server("config|get", -3, ADMIN, server::config::get),
    server("config|help", 2, LOADING, server::help::config),
    server("config|resetstat", 2, ADMIN, server::config::resetstat).everywhere(),
    server("config|rewrite", 2, ADMIN, server::config::rewrite),
    server("config|set", -4, ADMIN, server::config::set).everywhere(),
];

/// There are no functions; test suites ask to be sure.
static FUNCTION: &[Command] = &[
    server("function|flush", -2, W.and(Flags::NOSCRIPT), server::help::ok).within("scripting"),
    server("function|list", -2, Flags::NOSCRIPT, server::help::nothing).within("scripting"),
];

static LATENCY: &[Command] = &[
    server("latency|latest", 2, ADMIN, server::help::nothing),
    server("latency|reset", -2, ADMIN, server::help::zero),
];

static MEMORY: &[Command] = &[
    server("memory|doctor", 2, NONE, server::memory::doctor),
    server("memory|help", 2, LOADING, server::help::memory),
    server("memory|purge", 2, NONE, server::help::ok),
    server("memory|stats", 2, NONE, server::memory::stats).everywhere(),
    row("memory|usage", -3, R, SECOND.all(LOOK), Group::Server, server::memory::usage),
];

static SLOWLOG: &[Command] = &[
    server("slowlog|get", -2, Flags::ADMIN.and(LOADING), server::help::nothing),
    server("slowlog|len", 2, Flags::ADMIN.and(LOADING), server::help::zero),
    server("slowlog|reset", 2, Flags::ADMIN.and(LOADING), server::help::ok),
];

/// Longest name looked up.
const NAME_BYTES_MAX: usize = 32;

static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command>> =
    LazyLock::new(|| COMMANDS.iter().map(|command| (command.name.as_bytes(), command)).collect());

/// Every row, sub-commands behind their containers, in an order that never changes.
pub(crate) static ROWS: LazyLock<Vec<&'static Command>> = LazyLock::new(|| {
    COMMANDS.iter().flat_map(|row| std::iter::once(row).chain(row.subcommands)).collect()
});

/// The row of a command's name in any case; of a container, the container's.
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    let mut folded = [0; NAME_BYTES_MAX];
    let folded = folded.get_mut(..name.len())?;
    folded.copy_from_slice(name);
    folded.make_ascii_lowercase();
    BY_NAME.get(&*folded).copied()
}

/// The row of a sub-command's name in any case.
pub(crate) fn subcommand(container: &'static Command, name: &[u8]) -> Option<&'static Command> {
    container.subcommands.iter().find(|row| {
        let own = row.name.split_once('|').map_or("", |(_, own)| own);
        own.as_bytes().eq_ignore_ascii_case(name)
    })
}
