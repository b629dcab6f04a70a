//! The rows, and what does each command.

use super::{bit, connection, generic, server, string};
use crate::{
    call::Handler,
    row::{Group, Row, Scope, Touch, Touches, Written},
};

const LOOK: Touch = Touch::LOOK;
const READ: Touch = Touch::READ;
const CHANGE: Touch = Touch::CHANGE;
const ADD: Touch = Touch::ADD;
const READ_CHANGE: Touch = Touch::READ_CHANGE;
const READ_DELETE: Touch = Touch::READ_DELETE;
const REPLACE: Touch = Touch::REPLACE;
const CREATE: Touch = Touch::CREATE;
const DELETE: Touch = Touch::DELETE;
/// Writes an integer of 64 bits as text.
const INTEGER: Written = Written::Arguments(20);
/// Writes a float of 80 bits as text, without an exponent.
const FLOAT: Written = Written::Arguments(4_960);
/// No keys.
const NONE: Touches = Touches::NONE;

/// One command: its row, its handler, and its supported sub-commands.
struct Command {
    row: Row,
    handler: Handler,
    subcommands: &'static [Command],
}

const fn row(name: &'static str, group: Group, touches: Touches, handler: Handler) -> Command {
    Command { row: Row::new(name, group, touches), handler, subcommands: &[] }
}

const fn all(touch: Touch) -> Touches {
    Touches::all(touch)
}

const fn touched(first: Touch, others: Touch) -> Touches {
    Touches::first_and_others(first, others)
}

const fn string(name: &'static str, touches: Touches, handler: Handler) -> Command {
    row(name, Group::String, touches, handler)
}

const fn bitmap(name: &'static str, touches: Touches, handler: Handler) -> Command {
    row(name, Group::Bitmap, touches, handler)
}

const fn generic(name: &'static str, touches: Touches, handler: Handler) -> Command {
    row(name, Group::Generic, touches, handler)
}

const fn connection(name: &'static str, handler: Handler) -> Command {
    row(name, Group::Connection, NONE, handler)
}

const fn server(name: &'static str, handler: Handler) -> Command {
    row(name, Group::Server, NONE, handler)
}

const fn transaction(name: &'static str, touches: Touches, handler: Handler) -> Command {
    row(name, Group::Transactions, touches, handler)
}

impl Command {
    const fn everywhere(mut self) -> Self {
        self.row.scope = Scope::All;
        self
    }

    const fn containing(mut self, subcommands: &'static [Command]) -> Self {
        self.subcommands = subcommands;
        self
    }

    const fn unqueued(mut self) -> Self {
        self.row.unqueued = true;
        self
    }

    const fn freeing(mut self) -> Self {
        self.row.frees = true;
        self
    }

    const fn replacing(mut self) -> Self {
        self.row.replaces_key = true;
        self
    }

    const fn writing(mut self, written: Written) -> Self {
        self.row.written = written;
        self
    }
}

const COMMANDS: &[Command] = &[
    string("append", all(ADD), string::append::append).writing(Written::Held),
    string("decr", all(READ_CHANGE), string::increment::decr).writing(INTEGER),
    string("decrby", all(READ_CHANGE), string::increment::decrby).writing(INTEGER),
    string("get", all(READ), string::get::get),
    string("getdel", all(READ_DELETE), string::get::getdel).freeing(),
    string("getex", all(READ_CHANGE), string::getex::getex).writing(Written::Held),
    string("getrange", all(READ), string::range::getrange),
    string("getset", all(READ_CHANGE), string::set::getset),
    string("incr", all(READ_CHANGE), string::increment::incr).writing(INTEGER),
    string("incrby", all(READ_CHANGE), string::increment::incrby).writing(INTEGER),
    string("incrbyfloat", all(READ_CHANGE), string::increment::incrbyfloat).writing(FLOAT),
    string("lcs", all(READ), string::lcs::lcs),
    string("mget", all(READ), string::get::mget),
    string("mset", all(REPLACE), string::mset::mset),
    string("msetnx", all(CREATE), string::mset::msetnx),
    string("psetex", all(REPLACE), string::set::psetex).replacing(),
    string("set", all(READ_CHANGE).or(string::set::touch), string::set::set).replacing(),
    string("setex", all(REPLACE), string::set::setex).replacing(),
    string("setnx", all(CREATE), string::set::setnx),
    string("setrange", all(CHANGE), string::range::setrange)
        .writing(Written::Lengthened(string::range::end)),
    string("strlen", all(LOOK), string::get::strlen),
    string("substr", all(READ), string::range::getrange),
    bitmap("bitcount", all(READ), bit::count::bitcount),
    bitmap("bitfield", all(READ_CHANGE).or(bit::field::touch), bit::field::bitfield)
        .writing(Written::Lengthened(bit::field::end)),
    bitmap("bitfield_ro", all(READ), bit::field::bitfield_ro),
    bitmap("bitop", touched(REPLACE, READ), bit::operation::bitop).writing(Written::Held),
    bitmap("bitpos", all(READ), bit::position::bitpos),
    bitmap("getbit", all(READ), bit::single::getbit),
    bitmap("setbit", all(READ_CHANGE), bit::single::setbit)
        .writing(Written::Lengthened(bit::single::end)),
    generic("copy", touched(READ, REPLACE), generic::rename::copy)
        .everywhere()
        .writing(Written::Held),
    generic("del", all(DELETE), generic::delete::del).freeing().replacing(),
    generic("exists", all(LOOK), generic::delete::exists),
    generic("expire", all(CHANGE), generic::expire::expire).writing(Written::Held),
    generic("expireat", all(CHANGE), generic::expire::expireat).writing(Written::Held),
    generic("expiretime", all(READ), generic::ttl::expiretime),
    generic("keys", NONE, generic::scan::keys).everywhere(),
    generic("move", all(READ_CHANGE), generic::rename::move_key)
        .everywhere()
        .writing(Written::Held),
    generic("object", NONE, server::help::object).containing(OBJECT),
    generic("persist", all(CHANGE), generic::ttl::persist).writing(Written::Held),
    generic("pexpire", all(CHANGE), generic::expire::pexpire).writing(Written::Held),
    generic("pexpireat", all(CHANGE), generic::expire::pexpireat).writing(Written::Held),
    generic("pexpiretime", all(READ), generic::ttl::pexpiretime),
    generic("pttl", all(READ), generic::ttl::pttl),
    generic("randomkey", NONE, generic::scan::randomkey).everywhere(),
    generic("rename", touched(READ_DELETE, REPLACE), generic::rename::rename)
        .writing(Written::Held),
    generic("renamenx", touched(READ_DELETE, CREATE), generic::rename::renamenx)
        .writing(Written::Held),
    generic("scan", NONE, generic::scan::scan).everywhere(),
    generic("touch", all(LOOK), generic::delete::exists),
    generic("ttl", all(READ), generic::ttl::ttl),
    generic("type", all(LOOK), generic::delete::kind),
    generic("unlink", all(DELETE), generic::delete::del).freeing().replacing(),
    generic("wait", NONE, server::help::wait),
    server("dbsize", generic::scan::dbsize).everywhere(),
    server("flushall", generic::flush::flushall).freeing().everywhere(),
    server("flushdb", generic::flush::flushdb).freeing().everywhere(),
    transaction("discard", NONE, connection::transaction::discard).unqueued(),
    transaction("exec", NONE, connection::transaction::exec).unqueued(),
    transaction("multi", NONE, connection::transaction::multi).unqueued(),
    transaction("unwatch", NONE, connection::transaction::unwatch),
    transaction("watch", all(LOOK), connection::transaction::watch).unqueued(),
    connection("auth", connection::auth::auth),
    connection("client", server::help::client).containing(CLIENT),
    connection("echo", connection::ping::echo),
    connection("hello", connection::hello::hello),
    connection("ping", connection::ping::ping),
    connection("quit", connection::ping::quit).unqueued(),
    connection("reset", connection::ping::reset).unqueued(),
    connection("select", connection::ping::select),
    row("subscribe", Group::Pubsub, NONE, connection::subscribe::subscribe),
    row("unsubscribe", Group::Pubsub, NONE, connection::subscribe::unsubscribe),
    server("acl", server::help::acl).containing(ACL),
    server("bgrewriteaof", server::memory::compact),
    server("command", server::commands::command).containing(COMMAND),
    server("config", server::help::config).containing(CONFIG),
    server("debug", server::debug::debug).everywhere(),
    server("function", server::help::function).containing(FUNCTION),
    server("info", server::info::info).everywhere(),
    server("lastsave", server::help::lastsave),
    server("latency", server::help::latency).containing(LATENCY),
    server("memory", server::help::memory).containing(MEMORY),
    server("rescale", server::memory::rescale).everywhere(),
    server("role", server::help::role),
    server("shutdown", server::help::shutdown),
    server("slowlog", server::help::slowlog).containing(SLOWLOG),
    server("time", server::help::time),
];

const OBJECT: &[Command] = &[
    generic("object|encoding", all(LOOK), generic::object::encoding),
    generic("object|freq", all(LOOK), generic::object::freq),
    generic("object|help", NONE, server::help::object),
    generic("object|idletime", all(LOOK), generic::object::idletime),
    generic("object|refcount", all(LOOK), generic::object::refcount),
];

const CLIENT: &[Command] = &[
    connection("client|caching", connection::tracking::caching),
    connection("client|getname", connection::client::getname),
    connection("client|getredir", connection::tracking::getredir),
    connection("client|help", server::help::client),
    connection("client|id", connection::client::id),
    connection("client|info", connection::client::info),
    connection("client|kill", connection::client::kill),
    connection("client|list", connection::client::list),
    connection("client|no-evict", connection::client::no_evict),
    connection("client|reply", connection::client::reply),
    connection("client|setinfo", connection::client::setinfo),
    connection("client|setname", connection::client::setname),
    connection("client|tracking", connection::tracking::tracking).everywhere(),
    connection("client|trackinginfo", connection::tracking::trackinginfo),
    connection("client|unpause", connection::client::unpause),
];

const ACL: &[Command] = &[
    server("acl|cat", server::acl::cat),
    server("acl|deluser", server::acl::deluser),
    server("acl|dryrun", server::acl::dryrun),
    server("acl|genpass", server::acl::genpass),
    server("acl|getuser", server::acl::getuser),
    server("acl|help", server::help::acl),
    server("acl|list", server::acl::list),
    server("acl|load", server::acl::load),
    server("acl|save", server::acl::save),
    server("acl|setuser", server::acl::setuser),
    server("acl|users", server::acl::users),
    server("acl|whoami", server::acl::whoami),
];

const COMMAND: &[Command] = &[
    connection("command|count", server::commands::count),
    connection("command|docs", server::commands::docs),
    connection("command|getkeys", server::commands::getkeys),
    connection("command|getkeysandflags", server::commands::getkeysandflags),
    connection("command|info", server::commands::info),
    connection("command|list", server::commands::list),
];

const CONFIG: &[Command] = &[
    server("config|get", server::config::get),
    server("config|help", server::help::config),
    server("config|resetstat", server::config::resetstat).everywhere(),
    server("config|rewrite", server::config::rewrite),
    server("config|set", server::config::set).everywhere(),
];

/// FUNCTION for an empty library: test suites call it.
const FUNCTION: &[Command] =
    &[server("function|flush", server::help::ok), server("function|list", server::help::nothing)];

const LATENCY: &[Command] =
    &[server("latency|latest", server::help::nothing), server("latency|reset", server::help::zero)];

const MEMORY: &[Command] = &[
    server("memory|doctor", server::memory::doctor),
    server("memory|help", server::help::memory),
    server("memory|purge", server::help::ok),
    server("memory|stats", server::memory::stats).everywhere(),
    row("memory|usage", Group::Server, all(LOOK), server::memory::usage),
];

const SLOWLOG: &[Command] = &[
    server("slowlog|get", server::help::nothing),
    server("slowlog|len", server::help::zero),
    server("slowlog|reset", server::help::ok),
];

const COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < COMMANDS.len() {
        count += 1 + COMMANDS[at].subcommands.len();
        at += 1;
    }
    count
};

/// Rows and handlers by the place of the command. It runs in the compiler.
const fn placed() -> ([Row; COUNT], [Handler; COUNT]) {
    let (mut rows, mut handlers) = ([COMMANDS[0].row; COUNT], [COMMANDS[0].handler; COUNT]);
    let (mut place, mut at) = (0, 0);
    while at < COMMANDS.len() {
        let command = &COMMANDS[at];
        (rows[place], handlers[place]) = (command.row, command.handler);
        rows[place].place = place as u16;
        rows[place].subcommands = command.subcommands.len() as u16;
        place += 1;
        let mut own = 0;
        while own < command.subcommands.len() {
            let command = &command.subcommands[own];
            (rows[place], handlers[place]) = (command.row, command.handler);
            rows[place].place = place as u16;
            place += 1;
            own += 1;
        }
        at += 1;
    }
    (rows, handlers)
}

/// Every command's row, sub-commands behind their containers.
pub static ROWS: [Row; COUNT] = placed().0;

static HANDLERS: [Handler; COUNT] = placed().1;

/// Returns the function that executes the command of this row.
#[inline]
pub(crate) fn handler(row: &Row) -> Handler {
    HANDLERS[usize::from(row.place)]
}
