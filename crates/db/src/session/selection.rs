//! The databases in which the commands of a transaction may run, known before its first command
//! runs.
//!
//! A SELECT that is refused leaves the database selected before it. Whether it will be refused is
//! known, unless a command before it changes the rights: other connections cannot change them
//! between the commands of a transaction, see [`changes_rights`].

use acl::Identity;
use smallvec::{SmallVec, smallvec};

use crate::{
    command,
    connection::{Connection, Queued},
    row::{Access, Row, Scope},
};

pub(super) struct Selection<'c> {
    identity: &'c Identity,
    databases: SmallVec<[u8; 2]>,
    /// The rights may be others than now.
    rights_change: bool,
}

impl<'c> Selection<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        let databases = smallvec![connection.database];
        Self { identity: &connection.identity, databases, rights_change: false }
    }

    /// Passes the next command; returns the databases it may run in.
    pub(super) fn pass(&mut self, queued: &Queued) -> &[u8] {
        let row = queued.row;
        if row.scope == Scope::None {
            if row.name() == "select"
                && let Some(database) = command::selected(&queued.args[1])
            {
                self.select(queued, database);
            }
            self.rights_change |= changes_rights(row);
        }
        &self.databases
    }

    fn select(&mut self, queued: &Queued, database: u8) {
        if !self.rights_change {
            let access = queued.with_args(|args| queued.row.access(self.identity.rules(), args));
            if !matches!(access, Access::Allowed) {
                return;
            }
            self.databases.clear();
        }
        if !self.databases.contains(&database) {
            self.databases.push(database);
        }
    }
}

/// Whether the command may change the connection's rights. Only after such a command does EXEC
/// check the rights again.
pub(super) fn changes_rights(row: &Row) -> bool {
    row.scope == Scope::None
        && (matches!(row.name(), "auth" | "hello") || row.name().starts_with("acl|"))
}
