//! The destination of a request: the owner of its slot, any node, or none.

use wire::resp::{
    Request,
    command::{self, Command, Effect, Flags, Merge, Shards},
};

use super::{copies::is_in_order, subscriptions::Kind};
use crate::slot::Slot;

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// The owner of this slot must answer.
    Slot {
        slot: Slot,
        /// The request may change values.
        write: bool,
        /// It names more than one key: it may get TRYAGAIN.
        many: bool,
        /// It may use the connection of the copies.
        in_order: bool,
    },
    /// The owner of this slot must answer, over a connection of the client's own: the reply may
    /// wait for other clients.
    Block {
        slot: Slot,
        write: bool,
        many: bool,
    },
    /// The owner of this slot must watch keys for the client.
    Watch(Slot),
    Subscribe(Kind),
    Unsubscribe(Kind),
    /// All nodes give the same answer, or nearly.
    AnyNode,
    /// Its keys are in several slots: the owner of each must execute a part.
    Split(&'static Command, Merge),
    /// Every primary must execute it.
    All(&'static Command, Merge),
    /// One node after the other must execute it.
    Scan,
    /// The agent answers.
    Here(&'static str),
    Multi,
    Exec,
    Discard,
    /// It is rejected, with the reason.
    Refused(String),
}

impl Route {
    /// Whether replies of several nodes make up the answer.
    pub(super) fn is_of_several_nodes(&self) -> bool {
        matches!(self, Self::Split(..) | Self::All(..) | Self::Scan)
    }
}

impl Route {
    /// Whether a connection of the client's own is used.
    pub(super) fn is_of_own_connection(&self) -> bool {
        matches!(
            self,
            Self::Block { .. } | Self::Watch(_) | Self::Subscribe(_) | Self::Unsubscribe(_)
        )
    }
}

/// Commands without keys that any node may answer, by their names or those of their containers. The
/// answer to other commands depends on the node, or they change only one node.
const ANYWHERE: &[&str] = &[
    "command",
    "config|get",
    "function|dump",
    "function|list",
    "info",
    "lolwut",
    "publish",
    "pubsub",
    "spublish",
    "time",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "fcall",
    "fcall_ro",
];

/// Containers and commands that concern the connection to the agent, not that to a node.
const HERE: &[&str] = &[
    "acl|whoami",
    "auth",
    "client",
    "cluster",
    "echo",
    "hello",
    "ping",
    "quit",
    "readonly",
    "readwrite",
    "reset",
    "select",
    "unwatch",
];

/// Returns the destination of `request`.
pub(super) fn route(request: &Request<'_>) -> Route {
    let Some(command) = command::find(request) else { return unknown(request) };
    let name = command.name;
    let base = name.split('|').next().unwrap_or(name);
    match command.effect {
        _ if HERE.contains(&base) || HERE.contains(&name) => Route::Here(name),
        Effect::Transaction => match name {
            "multi" => Route::Multi,
            "exec" => Route::Exec,
            "discard" => Route::Discard,
            _ => match keyed(command, command.effect, request) {
                Route::Slot { slot, .. } => Route::Watch(slot),
                other => other,
            },
        },
        Effect::PubSub => match name {
            "subscribe" => Route::Subscribe(Kind::Channel),
            "psubscribe" => Route::Subscribe(Kind::Pattern),
            "ssubscribe" => Route::Subscribe(Kind::Shard),
            "unsubscribe" => Route::Unsubscribe(Kind::Channel),
            "punsubscribe" => Route::Unsubscribe(Kind::Pattern),
            "sunsubscribe" => Route::Unsubscribe(Kind::Shard),
            _ => refused(name, "needs a connection of its own; connect to a node of the cluster"),
        },
        Effect::Connection => refused(
            name,
            "changes a connection that all clients share; connect to a node of the cluster",
        ),
        _ if matches!(name, "wait" | "waitaof") => refused(
            name,
            "waits for replicas of what its own connection has written, and clients share \
             connections; connect to a node of the cluster",
        ),
        effect if waits(command, request) => match keyed(command, effect, request) {
            Route::Slot { slot, write, many, .. } => Route::Block { slot, write, many },
            // It would block other clients if the node found a key in it.
            Route::AnyNode if command.accepts(request.len()) => {
                Route::Refused("ERR syntax error".to_owned())
            }
            other => other,
        },
        _ if name == "migrate" || name == "restore-asking" => refused(
            name,
            "moves keys between nodes; use `enroute state move`, or let the placer do it",
        ),
        // A node reports the error in the request.
        _ if matches!(command.shards, Shards::All(_)) && !command.accepts(request.len()) => {
            Route::AnyNode
        }
        _ if let Shards::All(merge) = command.shards => Route::All(command, merge),
        _ if name == "scan" && command.accepts(request.len()) => Route::Scan,
        Effect::WriteDatabase | Effect::WriteEverything | Effect::Access => {
            refused(name, "concerns every node of the cluster; send it to each")
        }
        effect => keyed(command, effect, request),
    }
}

fn keyed(command: &'static Command, effect: Effect, request: &Request<'_>) -> Route {
    // Any node can report the error in the request.
    let Ok(mut keys) = command.keys(request) else { return Route::AnyNode };
    let Some(first) = keys.next() else {
        let base = command.name.split('|').next().unwrap_or(command.name);
        return match command.name {
            name if ANYWHERE.contains(&base) || ANYWHERE.contains(&name) => Route::AnyNode,
            _ if !command.accepts(request.len()) => Route::AnyNode,
            name => refused(name, "has a different answer at each node; send it to the nodes"),
        };
    };
    let slot = Slot::of(first);
    let mut many = false;
    for key in keys {
        many = true;
        if Slot::of(key) != slot {
            return match command.shards {
                Shards::OfKeys(merge) => Route::Split(command, merge),
                _ => Route::Refused(CROSS_SLOT.to_owned()),
            };
        }
    }
    let (write, in_order) = (!effect.is_read(), !many && is_in_order(command.name));
    Route::Slot { slot, write, many, in_order }
}

pub(super) const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot; give them \
     the same hash tag, as in {user:7}:name and {user:7}:age";

fn waits(command: &Command, request: &Request<'_>) -> bool {
    if !command.flags.contains(Flags::BLOCKING) {
        return false;
    }
    match command.name {
        // These block only with an option.
        "xread" | "xreadgroup" => request
            .arguments()
            .take_while(|argument| !argument.eq_ignore_ascii_case(b"STREAMS"))
            .any(|argument| argument.eq_ignore_ascii_case(b"BLOCK")),
        _ => true,
    }
}

fn refused(name: &str, why: &str) -> Route {
    Route::Refused(format!(
        "ERR {} through the agent: it {why}",
        name.replace('|', " ").to_uppercase()
    ))
}

fn unknown(request: &Request<'_>) -> Route {
    let shown = |argument: Option<&[u8]>| {
        String::from_utf8_lossy(argument.unwrap_or_default()).chars().take(64).collect::<String>()
    };
    let name = shown(Some(request.name()));
    Route::Refused(match command::lookup(request.name()) {
        Some(_) => format!("ERR unknown subcommand '{}' of '{name}'", shown(request.argument(1))),
        None => format!(
            "ERR unknown command '{name}': the agent cannot determine its keys; send it to a node"
        ),
    })
}

#[cfg(test)]
mod tests {
    use wire::resp::{Limits, request};

    use super::*;

    fn of(line: &str) -> Route {
        let line = format!("{line}\r\n");
        let (request, _) = request::decode(line.as_bytes(), &Limits::default()).unwrap().unwrap();
        route(&request)
    }

    #[test]
    fn keys_say_where() {
        let slot = Slot::of(b"a");
        assert_eq!(of("GET a"), Route::Slot { slot, write: false, many: false, in_order: true });
        assert_eq!(of("incr a"), Route::Slot { slot, write: true, many: false, in_order: true });
        assert_eq!(
            of("MSET {a}1 1 {a}2 2"),
            Route::Slot { slot, write: true, many: true, in_order: false }
        );
        assert_eq!(
            of("EVAL x 1 a"),
            Route::Slot { slot, write: true, many: false, in_order: false }
        );
        assert_eq!(
            of("XREAD STREAMS a 0"),
            Route::Slot { slot, write: false, many: false, in_order: false }
        );
        assert_eq!(of("EVAL x 0"), Route::AnyNode);
        // A node replies with the error.
        assert_eq!(of("GET"), Route::AnyNode);
        assert_eq!(of("INFO"), Route::AnyNode);
        assert_eq!(of("CONFIG GET save"), Route::AnyNode);
    }

    #[test]
    fn what_several_nodes_execute_is_sent_to_them() {
        for line in ["MGET a b", "MSET a 1 b 2", "DEL a b", "UNLINK a b", "EXISTS a b", "touch a b"]
        {
            assert!(matches!(of(line), Route::Split(..)), "{line}");
        }
        for line in
            ["KEYS *", "DBSIZE", "FLUSHALL ASYNC", "FLUSHDB", "SCRIPT LOAD x", "FUNCTION LOAD x"]
        {
            assert!(matches!(of(line), Route::All(..)), "{line}");
        }
        assert_eq!(of("SCAN 0 COUNT 9"), Route::Scan);
        // A node replies with the error.
        for line in ["SCAN", "KEYS", "DBSIZE x", "SCRIPT LOAD"] {
            assert_eq!(of(line), Route::AnyNode, "{line}");
        }
    }

    #[test]
    fn what_needs_a_connection_of_its_own_gets_one() {
        let slot = Slot::of(b"a");
        let block = |write, many| Route::Block { slot, write, many };
        for line in ["BLPOP a 0", "BZPOPMIN a 1", "BRPOPLPUSH a {a}b 0"] {
            assert_eq!(of(line), block(true, line.contains("{a}")), "{line}");
        }
        assert_eq!(of("BLMPOP 0 1 a LEFT"), block(true, false));
        assert_eq!(of("BLPOP a {a}b 0"), block(true, true));
        assert_eq!(of("XREAD BLOCK 0 STREAMS a 0"), block(false, false));
        assert_eq!(of("XREADGROUP GROUP g c BLOCK 0 STREAMS a 0"), block(true, false));
        assert_eq!(of("WATCH a {a}b"), Route::Watch(slot));
        assert_eq!(of("SSUBSCRIBE a"), Route::Subscribe(Kind::Shard));
        assert_eq!(of("PUNSUBSCRIBE"), Route::Unsubscribe(Kind::Pattern));
        // A node replies with the error.
        assert_eq!(of("BLPOP a"), Route::AnyNode);
    }

    #[test]
    fn what_cannot_be_right_is_refused_and_says_why() {
        for line in [
            "MSETNX a 1 b 2",
            "BLPOP a b 0",
            "BLMPOP 0 x a LEFT",
            "XREAD BLOCK 0 STREAMS",
            "WATCH a b",
            "MONITOR",
            "RANDOMKEY",
            "SWAPDB 0 1",
            "WAIT 1 0",
            "CONFIG SET a b",
            "MIGRATE h 1 a 0 1",
            "ASKING",
            "NOSUCH a",
            "SCRIPT KILL",
            "SAVE",
            "OBJECT NOSUCH a",
            "ACL SETUSER a",
        ] {
            let Route::Refused(why) = of(line) else {
                panic!("{line} is not refused: {:?}", of(line))
            };
            assert!(why.starts_with("ERR ") || why.starts_with("CROSSSLOT "), "{why}");
        }
    }

    #[test]
    fn every_command_has_a_place() {
        for command in command::all() {
            let row = |name: &str| of(&format!("{} x 1 y 1 z", name.replace('|', " ")));
            // It must not panic, and no command that changes a shared connection's state may be
            // forwarded.
            let found = row(command.name);
            if matches!(command.effect, Effect::Connection | Effect::PubSub) {
                assert!(
                    matches!(found, Route::Here(_) | Route::Refused(_))
                        || found.is_of_own_connection(),
                    "{}: {found:?}",
                    command.name
                );
            }
        }
    }
}
