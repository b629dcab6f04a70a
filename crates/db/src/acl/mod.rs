//! Users and their rights, as Redis access rules.
//!
//! **Read first:** `rules.rs`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use parking_lot::RwLock;

mod rules;

pub(crate) use rules::Access;
pub use rules::Rules;

use crate::{failure::Failure, row::Row};

/// The initial user of every connection.
pub const DEFAULT: &str = "default";

/// A user as seen by a connection.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) rules: Arc<Rules>,
    /// Number of the user's creation: different for each user, also for two with the same name.
    born: u64,
}

impl User {
    /// Whether this is the same user, possibly with other rules.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.born == other.born
    }
}

/// All users. The rules of a user are never changed in place but replaced, and every replacement
/// increments the generation, so that a connection detects it by one load.
pub struct Acl {
    /// Every command.
    rows: &'static [Row],
    users: RwLock<BTreeMap<String, User>>,
    generation: AtomicU64,
}

impl Acl {
    /// Creates the default user, which has all rights; `rows` are all commands.
    pub(crate) fn new(rows: &'static [Row]) -> Self {
        let everything = User { rules: Arc::new(Rules::everything(rows)), born: 1 };
        let users = BTreeMap::from([(DEFAULT.to_owned(), everything)]);
        Self { rows, users: RwLock::new(users), generation: AtomicU64::new(1) }
    }

    /// A user without rights.
    pub(crate) fn user_without_rights(&self) -> User {
        User { rules: Arc::new(Rules::nothing(self.rows)), born: 0 }
    }

    /// Incremented whenever any user changes.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(std::sync::atomic::Ordering::Acquire)
    }

    /// The user of this name.
    pub(crate) fn find(&self, name: &str) -> Option<User> {
        self.users.read().get(name).cloned()
    }

    /// The user of this name, if this is a password of it.
    pub(crate) fn authenticate(&self, name: &str, password: &[u8]) -> Option<User> {
        self.find(name).filter(|user| user.rules.accepts(password))
    }

    /// Whether every client becomes the default user without a password.
    pub fn is_open(&self) -> bool {
        self.users.read().get(DEFAULT).is_some_and(|user| user.rules.needs_no_password())
    }

    /// Applies rules to a user, made if absent; all or none.
    ///
    /// # Errors
    /// The invalid rule, and the reason.
    pub fn set(&self, name: &str, rules: &[&str]) -> Result<(), Failure> {
        let mut users = self.users.write();
        let present = users.get(name);
        let mut changed =
            present.map_or_else(|| Rules::nothing(self.rows), |user| Rules::clone(&user.rules));
        for rule in rules {
            changed.apply(rule)?;
        }
        let generation = self.generation.fetch_add(1, SeqCst) + 1;
        let born = present.map_or(generation, |user| user.born);
        users.insert(name.to_owned(), User { rules: Arc::new(changed), born });
        Ok(())
    }

    /// Drops a user; returns whether it existed.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let mut users = self.users.write();
        self.generation.fetch_add(1, SeqCst);
        users.remove(name).is_some()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.users.read().keys().cloned().collect()
    }

    /// Every user as one line `user NAME RULES…`.
    pub(crate) fn lines(&self) -> Vec<String> {
        let users = self.users.read();
        users.iter().map(|(name, user)| format!("user {name} {}", user.rules)).collect()
    }

    /// Replaces all users by those of `text`; all or none. A text without the default user leaves
    /// that one as it is at the start.
    ///
    /// # Errors
    /// The invalid line, and the reason.
    pub fn load(&self, text: &str) -> Result<(), Failure> {
        let mut users = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            let wrong = |why: &str| Failure::new(format!("ERR users, line {}: {why}", number + 1));
            match (words.next(), words.next()) {
                (None, _) => {}
                (Some(comment), _) if comment.starts_with('#') => {}
                (Some("user"), Some(name)) => {
                    let mut rules = Rules::nothing(self.rows);
                    for rule in words {
                        rules.apply(rule).map_err(|Failure(why)| wrong(&why))?;
                    }
                    if users.insert(name.to_owned(), rules).is_some() {
                        return Err(wrong("the user was there before"));
                    }
                }
                _ => return Err(wrong("expected `user NAME RULES…`")),
            }
        }
        users.entry(DEFAULT.to_owned()).or_insert_with(|| Rules::everything(self.rows));
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
