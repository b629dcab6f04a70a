//! Users of services that speak RESP, and their rights, as Redis access rules.
//!
//! **What it is.** The users file in Redis's format, and for each connection its user and rights.
//!
//! **What it is not.** It does not know which keys a command accesses, and how: each service
//! decides that for the commands that it serves.
//!
//! **Read first:** `rules.rs`, then `identity.rs`.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, SeqCst},
        },
    },
};

use parking_lot::RwLock;

mod identity;
mod rules;

pub use identity::Identity;
pub use rules::Rules;

use wire::resp::command::Command;

/// Longest output that waits for a client that must log in first, in bytes: a few errors. Its
/// requests have the limits of [`wire::resp::Limits::before_login`].
pub const OUTPUT_BYTES_BEFORE_LOGIN_MAX: usize = 4 << 10;

/// Reasons why rules are refused; a reply to a client is `ERR` and this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rule that is not one of Redis's, or names something unknown.
    #[error("Error in ACL SETUSER modifier '{rule}': {why}")]
    Rule {
        /// As it was written.
        rule: String,
        /// Redis's explanation.
        why: &'static str,
    },
    /// A line of a users file, counted from 1.
    #[error("users, line {line}: {why}")]
    Line {
        /// Its number.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// Error reply to a request before a login that is required.
pub const NO_AUTH: &str = "NOAUTH Authentication required.";
/// Error reply to HELLO without AUTH before a login that is required.
pub const HELLO_NO_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";

/// The initial user of every connection.
pub const DEFAULT: &str = "default";

/// A user as seen by a connection.
#[derive(Debug, Clone)]
pub struct User {
    /// Its rights.
    pub rules: Arc<Rules>,
    /// Number of the user's creation: different for each user, also for two with the same name.
    born: u64,
}

impl User {
    /// Whether this is the same user, possibly with other rules.
    fn is(&self, other: &Self) -> bool {
        self.born == other.born
    }
}

/// All commands that rules can allow, by their places.
type Commands = Arc<[&'static Command]>;

/// All users. The rules of a user are never changed in place but replaced, and every replacement
/// increments the generation, so that a connection detects it by one load.
pub struct Acl {
    commands: Commands,
    users: RwLock<BTreeMap<String, User>>,
    generation: AtomicU64,
}

impl fmt::Debug for Acl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Acl").field("users", &self.names()).finish_non_exhaustive()
    }
}

impl Acl {
    /// Creates the default user, which has all rights; a command's place among `commands` names it
    /// in [`Rules::may_execute`].
    pub fn new(commands: impl IntoIterator<Item = &'static Command>) -> Self {
        let commands: Commands = commands.into_iter().collect();
        let everything = User { rules: Arc::new(Rules::everything(&commands)), born: 1 };
        let users = BTreeMap::from([(DEFAULT.to_owned(), everything)]);
        Self { commands, users: RwLock::new(users), generation: AtomicU64::new(1) }
    }

    /// A user without rights.
    fn user_without_rights(&self) -> User {
        User { rules: Arc::new(Rules::nothing(&self.commands)), born: 0 }
    }

    /// Incremented whenever any user changes.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// The user of this name.
    pub fn find(&self, name: &str) -> Option<User> {
        self.users.read().get(name).cloned()
    }

    /// The user that the arguments of AUTH name (a password, or a name and a password), and its
    /// name.
    ///
    /// # Errors
    /// The text of the error reply.
    pub fn log_in(&self, arguments: &[&[u8]]) -> Result<(String, User), &'static str> {
        let (name, password) = match arguments {
            [password] => {
                let default = self.find(DEFAULT);
                if default.is_some_and(|user| user.rules.without_password) {
                    return Err(NO_PASSWORD);
                }
                (DEFAULT.to_owned(), password)
            }
            [name, password] => (String::from_utf8_lossy(name).into_owned(), password),
            _ => return Err("ERR syntax error"),
        };
        let user = self.find(&name).filter(|user| user.rules.accepts(password));
        Ok((name, user.ok_or(WRONG_PASSWORD)?))
    }

    /// Whether every client becomes the default user without a password.
    pub fn is_open(&self) -> bool {
        self.users.read().get(DEFAULT).is_some_and(|user| user.rules.needs_no_password())
    }

    /// Applies rules to a user, made if absent; all or none.
    ///
    /// # Errors
    /// The invalid rule, and the reason.
    pub fn set(&self, name: &str, rules: &[&str]) -> Result<(), Error> {
        let mut users = self.users.write();
        let present = users.get(name);
        let mut changed = present
            .map_or_else(|| Rules::nothing(&self.commands), |user| Rules::clone(&user.rules));
        for rule in rules {
            changed.apply(rule)?;
        }
        let generation = self.generation.fetch_add(1, SeqCst) + 1;
        let born = present.map_or(generation, |user| user.born);
        users.insert(name.to_owned(), User { rules: Arc::new(changed), born });
        Ok(())
    }

    /// Drops a user; returns whether it existed.
    pub fn remove(&self, name: &str) -> bool {
        let mut users = self.users.write();
        self.generation.fetch_add(1, SeqCst);
        users.remove(name).is_some()
    }

    /// The names of all users.
    pub fn names(&self) -> Vec<String> {
        self.users.read().keys().cloned().collect()
    }

    /// Every user as one line `user NAME RULES…`.
    pub fn lines(&self) -> Vec<String> {
        let users = self.users.read();
        users.iter().map(|(name, user)| format!("user {name} {}", user.rules)).collect()
    }

    /// Replaces all users by those of `text`; all or none. A text without the default user leaves
    /// that one as it is at the start.
    ///
    /// # Errors
    /// The invalid line, and the reason.
    pub fn load(&self, text: &str) -> Result<(), Error> {
        let mut users = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            let wrong = |why: &str| Error::Line { line: number + 1, why: why.to_owned() };
            match (words.next(), words.next()) {
                (None, _) => {}
                (Some(comment), _) if comment.starts_with('#') => {}
                (Some("user"), Some(name)) => {
                    let mut rules = Rules::nothing(&self.commands);
                    for rule in words {
                        rules.apply(rule).map_err(|error| wrong(&error.to_string()))?;
                    }
                    if users.insert(name.to_owned(), rules).is_some() {
                        return Err(wrong("the user was there before"));
                    }
                }
                _ => return Err(wrong("expected `user NAME RULES…`")),
            }
        }
        users.entry(DEFAULT.to_owned()).or_insert_with(|| Rules::everything(&self.commands));
        let mut present = self.users.write();
        let generation = self.generation.fetch_add(1, SeqCst) + 1;
        let loaded = users.into_iter().map(|(name, rules)| {
            let born = present.get(&name).map_or(generation, |user| user.born);
            (name, User { rules: Arc::new(rules), born })
        });
        let loaded = loaded.collect();
        *present = loaded;
        Ok(())
    }
}
