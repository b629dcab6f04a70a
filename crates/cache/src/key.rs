//! Keys, and the scopes above them that a write can touch.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Names the origin called `name` in scopes. `secret` is mixed into every hash below it: random for
/// each process, so that no client can choose keys that collide.
#[must_use]
pub fn origin(secret: u64, name: &str) -> u64 {
    xxh3_64_with_seed(name.as_bytes(), secret)
}

/// Namespace of a key, outermost part first, as 64-bit hashes of the full names.
///
/// If two namespaces collide, they are merged for invalidation only: a write to one also drops the
/// entries of the other. An entry of one never answers a read of the other, because stored keys
/// contain the generation of the namespace, and generations are never shared (see
/// [`crate::lease`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    /// The origin, as [`origin`] names it.
    pub origin: u64,
    /// The database: of MongoDB, or the logical database number of Redis.
    pub database: u64,
    /// The collection within the database; for Redis the same value as `database`.
    pub collection: u64,
}

impl Namespace {
    /// Names `collection` in `database` behind the origin `name`; `secret` as for [`origin`].
    #[must_use]
    pub fn new(secret: u64, name: &str, database: &[u8], collection: &[u8]) -> Self {
        let origin = origin(secret, name);
        let database = xxh3_64_with_seed(database, origin);
        Self { origin, database, collection: xxh3_64_with_seed(collection, database) }
    }

    /// All of its database.
    #[must_use]
    pub fn whole_database(self) -> Scope<'static> {
        Scope::Database { origin: self.origin, database: self.database }
    }

    /// All of its origin.
    #[must_use]
    pub fn whole_origin(self) -> Scope<'static> {
        Scope::Origin(self.origin)
    }

    /// A namespace beside this one for entries that are reached by another unique field, so that
    /// they can be invalidated together without touching entries reached by `_id`.
    #[must_use]
    pub fn by_field(self, field: &[u8]) -> Self {
        Self { collection: xxh3_64_with_seed(field, !self.collection), ..self }
    }
}

/// One key of one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// Namespace of the key.
    pub namespace: Namespace,
    /// Canonical bytes: two requests for the same record have the same bytes.
    pub bytes: &'a [u8],
    /// Hash of namespace and bytes; picks the shard, the index slot and the lease.
    pub hash: u64,
}

impl<'a> Key<'a> {
    /// The key `bytes` in `namespace`.
    #[inline]
    #[must_use]
    pub fn new(namespace: Namespace, bytes: &'a [u8]) -> Self {
        Self { namespace, bytes, hash: xxh3_64_with_seed(bytes, namespace.collection) }
    }
}

/// Longest part of a key that is shown.
const SHOWN_BYTES_MAX: usize = 128;

/// The bytes of a key as the log shows them: escaped, and cut after 128 bytes.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..SHOWN_BYTES_MAX).unwrap_or(self.0);
        write!(out, "{}", shown.escape_ascii())?;
        if shown.len() < self.0.len() { out.write_str("...") } else { Ok(()) }
    }
}

/// The scope that a write can touch, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// One key.
    Key(Key<'a>),
    /// Every key of a collection.
    Collection(Namespace),
    /// Every key of every collection of a database.
    Database {
        /// The origin it belongs to.
        origin: u64,
        /// Hash of the database, as in [`Namespace`].
        database: u64,
    },
    /// Everything of one origin: the command was not understood, or affects everything.
    Origin(u64),
}

/// A scope whose write is under way. A key is named by its hash, which suffices to find its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sent {
    /// One key, by the hash of [`Key`].
    Key {
        /// Namespace of the key.
        namespace: Namespace,
        /// Hash of the key.
        hash: u64,
    },
    /// A collection.
    Collection(Namespace),
    /// A database.
    Database {
        /// The origin it belongs to.
        origin: u64,
        /// Hash of the database, as in [`Namespace`].
        database: u64,
    },
    /// Everything of one origin.
    Origin(u64),
}

impl Sent {
    /// What it is, for the log.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Key { .. } => "a key",
            Self::Collection(_) => "a collection",
            Self::Database { .. } => "a database",
            Self::Origin(_) => "everything of this origin",
        }
    }

    /// The origin of which it is a part.
    #[must_use]
    pub fn origin(self) -> u64 {
        match self {
            Self::Key { namespace, .. } | Self::Collection(namespace) => namespace.origin,
            Self::Database { origin, .. } | Self::Origin(origin) => origin,
        }
    }
}

impl From<Scope<'_>> for Sent {
    fn from(scope: Scope<'_>) -> Self {
        match scope {
            Scope::Key(key) => Self::Key { namespace: key.namespace, hash: key.hash },
            Scope::Collection(namespace) => Self::Collection(namespace),
            Scope::Database { origin, database } => Self::Database { origin, database },
            Scope::Origin(origin) => Self::Origin(origin),
        }
    }
}
