//! Which requests a client may make: its user, and the rules of that user.
//!
//! Clients are the agent's, and nodes know only the agent's own user. The agent therefore checks
//! every request before it is routed. Where the rules need to know how a command accesses a key, it
//! asks for no less than Redis does: a command that is not a read needs the right to read and to
//! write each of its keys.

use std::{collections::HashMap, sync::Arc};

use acl::{Acl, Identity, NO_AUTH, Rules};
use wire::resp::{
    Limits, Request,
    command::{self, Command, Effect, Flags},
};

use super::{Agent, client::Client, subscriptions::Kind};

/// Users, and the limits of clients that must log in first.
#[derive(Debug)]
pub(super) struct Rights {
    users: Arc<Acl>,
    /// Places of commands in the rules.
    places: HashMap<&'static str, usize>,
    before_login: Limits,
}

impl Rights {
    /// The default user may do everything, without a password.
    pub(super) fn new(limits: &Limits) -> Self {
        let rows = || command::all().flat_map(|row| std::iter::once(row).chain(row.subcommands));
        Self {
            users: Arc::new(Acl::new(rows())),
            places: rows().map(|row| row.name).zip(0..).collect(),
            before_login: limits.before_login(),
        }
    }

    /// The limits of the next request of a client, if it must log in first. A client whose user was
    /// removed is closed.
    pub(super) fn limits(&self, client: &mut Client) -> Option<&Limits> {
        client.closing |= !client.identity.refresh(&self.users);
        (!client.identity.is_let_in()).then_some(&self.before_login)
    }

    pub(super) fn users(&self) -> &Acl {
        &self.users
    }

    /// Checks whether a client may make a request, after [`Self::limits`].
    ///
    /// # Errors
    /// The text of the error reply.
    pub(super) fn permit(&self, identity: &Identity, request: &Request<'_>) -> Result<(), String> {
        let is_let_in = identity.is_let_in();
        if is_let_in && identity.rules().is_unrestricted() {
            return Ok(());
        }
        match command::find(request) {
            Some(command) if command.flags.contains(Flags::NO_AUTH) => Ok(()),
            _ if !is_let_in => Err(NO_AUTH.to_owned()),
            Some(command) => self.permit_command(identity, command, request),
            // It is refused for every user.
            None => Ok(()),
        }
    }

    /// Whether a client that is blocked or subscribed may be so with the present users.
    pub(super) fn still_permits(&self, client: &mut Client) -> bool {
        let before = client.blocked.then(|| client.identity.rules().to_string());
        let is_there = client.identity.refresh(&self.users) && client.identity.is_let_in();
        let rules = client.identity.rules();
        let mut heard = client.heard.iter().flat_map(|heard| heard.names());
        is_there
            && before.is_none_or(|before| before == rules.to_string())
            && heard.all(|(kind, name)| match kind {
                Kind::Pattern => may_hear_pattern(rules, name),
                Kind::Channel | Kind::Shard => rules.may_hear(name),
            })
    }

    fn permit_command(
        &self,
        identity: &Identity,
        command: &Command,
        request: &Request<'_>,
    ) -> Result<(), String> {
        let rules = identity.rules();
        let place = self.places.get(command.name);
        if !place.is_some_and(|&place| rules.may_execute(place)) {
            let name = command.name;
            return Err(format!("NOPERM this user has no permissions to run the '{name}' command"));
        }
        if command.flags.contains(Flags::SCRIPT) {
            return Err(SCRIPT.to_owned());
        }
        // Every node refuses it, before it accesses a key.
        if !command.accepts(request.len()) {
            return Ok(());
        }
        let keys = command.keys(request).map_err(|_| NO_KEY.to_owned())?;
        let looks = command.effect.is_read() || command.effect == Effect::Transaction;
        for key in keys {
            if !rules.may_touch(key, true, !looks) {
                return Err(NO_KEY.to_owned());
            }
        }
        if reads_by_pattern(command, request) && !rules.has_all_keys() {
            return Err(NO_KEY.to_owned());
        }
        let mut channels = request.arguments().skip(1);
        let may_use = match command.name {
            "publish" | "spublish" => channels.take(1).all(|channel| rules.may_hear(channel)),
            "subscribe" | "ssubscribe" => channels.all(|channel| rules.may_hear(channel)),
            "psubscribe" => channels.all(|pattern| may_hear_pattern(rules, pattern)),
            _ => true,
        };
        if may_use { Ok(()) } else { Err(NO_CHANNEL.to_owned()) }
    }
}

/// As in Redis: the pattern must be one of the rules'.
fn may_hear_pattern(rules: &Rules, pattern: &[u8]) -> bool {
    rules.channels.iter().any(|rule| rule == "*" || rule.as_bytes() == pattern)
}

const NO_KEY: &str =
    "NOPERM this user has no permissions to access one of the keys used as arguments";
const NO_CHANNEL: &str =
    "NOPERM this user has no permissions to access one of the channels used as arguments";
const SCRIPT: &str = "NOPERM a script would have the rights of the agent at the nodes: only a user \
     with ~*, &* and +@all may run one";

/// Whether a command may read keys whose names contain values of others: BY and GET of SORT.
fn reads_by_pattern(command: &Command, request: &Request<'_>) -> bool {
    let is_option =
        |word: &[u8]| word.eq_ignore_ascii_case(b"BY") || word.eq_ignore_ascii_case(b"GET");
    matches!(command.name, "sort" | "sort_ro") && request.arguments().skip(2).any(is_option)
}

impl Agent {
    /// Users of its clients. As long as nothing changes them, every client may do everything.
    #[must_use]
    pub fn users(&self) -> &Arc<Acl> {
        &self.rights.users
    }

    /// Closes a client that violates the protocol of its connection, after it has read `error`.
    pub fn reject(&mut self, client: usize, error: &wire::Error) {
        let Some(found) = self.clients.get_mut(client) else { return };
        found.tell(&wire::resp::request::error_line(error));
        found.closing = true;
        self.spoken_to.push(client);
    }
}

#[cfg(test)]
mod tests {
    use wire::resp::request;

    use super::*;

    /// What a user with these rules gets for a request; nothing if it is permitted.
    fn refusal(rules: &str, line: &str) -> Option<String> {
        let rights = Rights::new(&Limits::default());
        rights.users.load(&format!("user default {rules}")).expect("rules");
        let identity = Identity::new(&rights.users);
        let line = format!("{line}\r\n");
        let (request, _) = request::decode(line.as_bytes(), &Limits::default()).unwrap().unwrap();
        rights.permit(&identity, &request).err()
    }

    #[test]
    fn a_client_without_login_may_only_log_in() {
        for line in ["AUTH x", "HELLO 3 AUTH a b", "QUIT", "RESET"] {
            assert_eq!(refusal("on >x ~* &* +@all", line), None, "{line}");
        }
        for line in ["GET a", "PING", "NOSUCH", "CLUSTER SLOTS", "MULTI", "CLIENT ID"] {
            assert_eq!(refusal("on >x ~* &* +@all", line).as_deref(), Some(NO_AUTH), "{line}");
        }
        assert_eq!(refusal("on nopass ~* &* +@all", "EVAL x 1 a"), None);
    }

    #[test]
    fn a_client_without_login_has_small_limits() {
        let limits = crate::agent::limits();
        let node = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let mut agent = Agent::new(&[node], None, limits, 7, std::time::Duration::ZERO);
        agent.users().load("user default on >x ~* &* +@all").expect("rules");
        let now = std::time::Duration::ZERO;
        let client = agent.open(node);
        let wrong = b"*2\r\n$4\r\nAUTH\r\n$5\r\nwrong\r\n".repeat(1_000);
        agent.receive(client, &wrong, now).expect("valid");
        let unread = agent.output(client).expect("it is there").bytes().len();
        assert!(unread < 2 * acl::OUTPUT_BYTES_BEFORE_LOGIN_MAX, "{unread} bytes unread");
        assert!(!agent.listens_to(client));
        let long = b"*2\r\n$4\r\nAUTH\r\n$16385\r\n";
        let other = agent.open(node);
        let error = agent.receive(other, long, now).expect_err("it is too long");
        assert!(error.to_string().contains("before login"), "{error}");
        let known = agent.open(node);
        let login = b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n";
        agent.receive(known, &[&login[..], long].concat(), now).expect("it has logged in");
    }

    #[test]
    fn rules_limit_commands_keys_and_channels() {
        const RULES: &str =
            "on nopass ~app:* %R~config:* &news:* +@all -flushall -@admin -config|get";
        for line in [
            "GET app:1",
            "GET config:1",
            "MGET app:1 config:1",
            "SET app:1 x",
            "WATCH config:1",
            "XREAD COUNT 1 STREAMS app:1 config:1 0 0",
            "PUBLISH news:1 x",
            "SUBSCRIBE news:1 news:2",
            "PSUBSCRIBE news:*",
            "SORT app:1 LIMIT 0 1",
            "SET app:1",
            "DBSIZE",
        ] {
            assert_eq!(refusal(RULES, line), None, "{line}");
        }
        for (line, word) in [
            ("GET other", "keys"),
            ("SET config:1 x", "keys"),
            ("GETDEL config:1", "keys"),
            ("MGET app:1 other", "keys"),
            ("COPY config:1 app:1", "keys"),
            ("XREAD STREAMS app:1 other 0 0", "keys"),
            ("EVAL x 1 app:1", "script"),
            ("FCALL_RO x 1 app:1", "script"),
            ("SORT app:1 BY app:*", "keys"),
            ("SORT_RO app:1 GET other*", "keys"),
            ("ZUNION x app:1", "keys"),
            ("FLUSHALL", "'flushall'"),
            ("CONFIG GET x", "'config|get'"),
            ("CONFIG SET x y", "'config|set'"),
            ("PUBLISH other x", "channels"),
            ("SPUBLISH other x", "channels"),
            ("SUBSCRIBE news:1 other", "channels"),
            ("SSUBSCRIBE other", "channels"),
            ("PSUBSCRIBE news:1*", "channels"),
        ] {
            let told = refusal(RULES, line).unwrap_or_else(|| panic!("{line} is permitted"));
            assert!(told.starts_with("NOPERM ") && told.contains(word), "{line}: {told}");
        }
    }
}
