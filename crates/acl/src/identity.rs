//! As which user a connection acts, and with what rights.

use crate::{Acl, DEFAULT, Rules, User};

/// User of a connection, and its rights.
#[derive(Debug)]
pub struct Identity {
    /// Name of the user.
    pub user: String,
    /// The client has logged in, or connected when the default user needed no password. Holds until
    /// it logs in as another user, resets or is closed.
    pub authenticated: bool,
    /// The default user needs no password now.
    is_open: bool,
    rights: User,
    /// The number of changes to users that this state takes into account.
    generation: u64,
}

impl Identity {
    /// The default user, logged in if that needs no password.
    pub fn new(acl: &Acl) -> Self {
        let generation = acl.generation();
        let rights = acl.find(DEFAULT).unwrap_or_else(|| acl.user_without_rights());
        let is_open = rights.rules.needs_no_password();
        Self { user: DEFAULT.to_owned(), authenticated: is_open, is_open, rights, generation }
    }

    /// Makes this its user, logged in.
    pub fn become_user(&mut self, name: &str, user: User) {
        self.user = name.to_owned();
        self.rights = user;
        self.authenticated = true;
    }

    /// Whether it may execute commands that need a login.
    #[inline]
    pub fn is_let_in(&self) -> bool {
        self.authenticated || self.is_open
    }

    /// The rights of its user.
    #[inline]
    pub fn rules(&self) -> &Rules {
        &self.rights.rules
    }

    /// Looks up the user's rights again if any user has changed; false if the user no longer
    /// exists.
    #[inline]
    pub fn refresh(&mut self, acl: &Acl) -> bool {
        let generation = acl.generation();
        self.generation == generation || self.look_up(acl, generation)
    }

    #[cold]
    fn look_up(&mut self, acl: &Acl, generation: u64) -> bool {
        self.generation = generation;
        self.is_open = acl.is_open();
        // One of the same name that came after its own was removed is another.
        let found = acl.find(&self.user).filter(|user| user.is(&self.rights));
        let is_there = found.is_some();
        self.authenticated &= is_there;
        self.rights = found.unwrap_or_else(|| acl.user_without_rights());
        is_there
    }
}
