//! State of a connection that its commands read and change.
//!
//! [`Session`](crate::Session) executes the commands; it is above them, and this below.

use std::{collections::BTreeSet, sync::Arc};

use acl::{Acl, Identity, User};
use wire::resp::Version;

use crate::clients::Client;

mod progress;
mod tracking;
mod transaction;

pub(crate) use progress::{Cursor, Names, Progress, Walk};
pub(crate) use tracking::{Mode, Tracking};
pub(crate) use transaction::{Queue, Queued, Transaction, Watched};

/// Whether answers are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReplyMode {
    #[default]
    On,
    Off,
    /// No reply to the next command.
    SkipNext,
}

/// State of a connection.
pub(crate) struct Connection {
    /// The same as other connections see it.
    pub(crate) client: Arc<Client>,
    pub(crate) version: Version,
    /// The database it has selected.
    pub(crate) database: u8,
    pub(crate) reply_mode: ReplyMode,
    /// The connection is to be closed once the replies written so far are sent.
    pub(crate) closing: bool,
    pub(crate) identity: Identity,
    pub(crate) transaction: Transaction,
    pub(crate) tracking: Tracking,
    /// The channels it has subscribed to.
    pub(crate) channels: BTreeSet<Box<[u8]>>,
    /// Progress of a command that must be repeated.
    pub(crate) progress: Progress,
}

impl Connection {
    /// Creates the state of a new connection.
    pub(crate) fn new(client: Arc<Client>, acl: &Acl) -> Self {
        Self {
            client,
            version: Version::Resp2,
            database: 0,
            reply_mode: ReplyMode::On,
            closing: false,
            identity: Identity::new(acl),
            transaction: Transaction::default(),
            tracking: Tracking::default(),
            channels: BTreeSet::new(),
            progress: Progress::default(),
        }
    }

    /// Makes this the connection's user.
    pub(crate) fn become_user(&mut self, name: &str, user: User) {
        self.identity.become_user(name, user);
        self.client.details.lock().user = name.to_owned();
    }

    /// Looks up the user's rights again if any user has changed; the connection closes if its user
    /// no longer exists.
    #[inline]
    pub(crate) fn refresh(&mut self, acl: &Acl) {
        self.closing |= !self.identity.refresh(acl);
    }

    /// Drops the queued commands and the watched keys.
    pub(crate) fn leave_transaction(&mut self) {
        self.transaction = Transaction::default();
        self.client.details.lock().queued = None;
    }
}
