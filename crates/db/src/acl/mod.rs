//! Users: who may do what, in Redis's language of access rules.
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

pub use rules::Rules;
pub(crate) use rules::{Access, CATEGORIES, categories};

use crate::failure::Failure;

/// The user every connection begins as.
pub const DEFAULT: &str = "default";

/// All users. A user's rules are never changed but replaced, and every replacement counts up the
/// generation, so that a connection finds out with one load.
pub struct Acl {
    users: RwLock<BTreeMap<String, Arc<Rules>>>,
    generation: AtomicU64,
}

impl Default for Acl {
    fn default() -> Self {
        let users = BTreeMap::from([(DEFAULT.to_owned(), Arc::new(Rules::everything()))]);
        Self { users: RwLock::new(users), generation: AtomicU64::new(1) }
    }
}

impl Acl {
    /// Counts up whenever any user changes.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(std::sync::atomic::Ordering::Acquire)
    }

    /// The rules of a user.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Rules>> {
        self.users.read().get(name).cloned()
    }

    /// The rules of a user who says this password.
    pub(crate) fn authenticate(&self, name: &str, password: &[u8]) -> Option<Arc<Rules>> {
        self.find(name).filter(|rules| rules.accepts(password))
    }

    /// Applies rules to a user, made if absent; all or none.
    ///
    /// # Errors
    /// The rule that cannot be, and why.
    pub fn set(&self, name: &str, rules: &[&str]) -> Result<(), Failure> {
        let mut users = self.users.write();
        let mut changed =
            users.get(name).map_or_else(Rules::nothing, |present| Rules::clone(present));
        for rule in rules {
            changed.apply(rule)?;
        }
        users.insert(name.to_owned(), Arc::new(changed));
        self.generation.fetch_add(1, SeqCst);
        Ok(())
    }

    /// Drops a user; says whether there was one.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let removed = self.users.write().remove(name).is_some();
        self.generation.fetch_add(1, SeqCst);
        removed
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.users.read().keys().cloned().collect()
    }

    /// Every user as one line `user NAME RULES…`.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.users.read().iter().map(|(name, rules)| format!("user {name} {rules}")).collect()
    }

    /// Replaces all users by those of `text`; all or none. A text without the default user leaves
    /// that one as it is at the start.
    ///
    /// # Errors
    /// The line that cannot be, and why.
    pub fn load(&self, text: &str) -> Result<(), Failure> {
        let mut users = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            let wrong = |why: &str| Failure::new(format!("ERR users, line {}: {why}", number + 1));
            match (words.next(), words.next()) {
                (None, _) => {}
                (Some(comment), _) if comment.starts_with('#') => {}
                (Some("user"), Some(name)) => {
                    let mut rules = Rules::nothing();
                    for rule in words {
                        rules.apply(rule).map_err(|Failure(why)| wrong(&why))?;
                    }
                    if users.insert(name.to_owned(), Arc::new(rules)).is_some() {
                        return Err(wrong("the user was there before"));
                    }
                }
                _ => return Err(wrong("expected `user NAME RULES…`")),
            }
        }
        users.entry(DEFAULT.to_owned()).or_insert_with(|| Arc::new(Rules::everything()));
        *self.users.write() = users;
        self.generation.fetch_add(1, SeqCst);
        Ok(())
    }
}
