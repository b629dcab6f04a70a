//! Writes of open transactions, kept until they commit.
//!
//! A transaction belongs to a session of the client, not to a connection: its statements and its
//! commit may arrive on different connections, so the scopes that they touch are kept for all
//! connections together. A commit of a transaction whose beginning was not seen here counts as a
//! write to everything.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use smallvec::SmallVec;
use wire::mongo::request::Request;

use crate::key::{Namespace, Scope};

/// Maximum number of followed sessions; above it, the state of all is dropped, and their commits
/// count as writes to everything.
const SESSIONS_MAX: usize = 4_096;
/// A transaction that touches more collections counts as a write to everything.
const COLLECTIONS_MAX: usize = 64;

/// The transactions of one origin's clients.
#[derive(Debug, Default)]
pub struct Transactions(Mutex<HashMap<Box<[u8]>, Transaction>>);

#[derive(Debug, Default)]
struct Transaction {
    number: i64,
    touched: Extent,
}

/// The scopes that a transaction touches: collections, databases or everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) collections: SmallVec<[Namespace; 2]>,
    pub(super) databases: SmallVec<[u64; 2]>,
    pub(super) everything: bool,
}

impl Extent {
    pub(super) fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    fn add(&mut self, other: &Self) {
        self.everything |= other.everything;
        for namespace in &other.collections {
            if !self.collections.contains(namespace) {
                self.collections.push(*namespace);
            }
        }
        for database in &other.databases {
            if !self.databases.contains(database) {
                self.databases.push(*database);
            }
        }
        self.everything |= self.collections.len() + self.databases.len() > COLLECTIONS_MAX;
    }

    /// Returns it as scopes of a write.
    pub(super) fn scopes<'m>(&self, origin: u64) -> SmallVec<[Scope<'m>; 1]> {
        if self.everything {
            return SmallVec::from_iter([Scope::Origin(origin)]);
        }
        let collections = self.collections.iter().copied().map(Scope::Collection);
        let databases = self.databases.iter().copied();
        collections.chain(databases.map(|database| Scope::Database { origin, database })).collect()
    }
}

/// Transaction of a statement: its session, the transaction number, and whether it begins here.
struct Statement {
    session: Box<[u8]>,
    number: i64,
    starts: bool,
}

impl Statement {
    /// Identifies the transaction of a request. Sessions of different users are different, even
    /// under one name.
    fn of(request: &Request<'_>, user: &[u8]) -> Option<Self> {
        let field = |name| request.body.element(name).ok().flatten();
        let session = field("lsid")?.document()?.bytes();
        Some(Self {
            session: [session, user].concat().into(),
            number: field("txnNumber")?.integer()?,
            starts: field("startTransaction").is_some_and(|starts| starts.is_true()),
        })
    }
}

impl Transactions {
    /// A statement inside a transaction touches `extent`; nothing if it only reads.
    pub(super) fn note(&self, request: &Request<'_>, user: &[u8], extent: &Extent) {
        let Some(statement) = Statement::of(request, user) else { return };
        let mut sessions = self.lock();
        if statement.starts {
            if sessions.len() >= SESSIONS_MAX && !sessions.contains_key(&statement.session) {
                sessions.clear();
            }
            let begun = Transaction { number: statement.number, touched: Extent::default() };
            sessions.insert(statement.session.clone(), begun);
        }
        if let Some(transaction) = sessions.get_mut(&statement.session)
            && transaction.number == statement.number
        {
            transaction.touched.add(extent);
        }
    }

    /// Returns the scopes that the commit `request` publishes. They are kept, because a commit may
    /// be sent again.
    pub(super) fn published(&self, request: &Request<'_>, user: &[u8]) -> Extent {
        let known = Statement::of(request, user).and_then(|statement| {
            let sessions = self.lock();
            let transaction = sessions.get(&statement.session)?;
            (transaction.number == statement.number).then(|| transaction.touched.clone())
        });
        known.unwrap_or_else(Extent::everything)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Transaction>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
