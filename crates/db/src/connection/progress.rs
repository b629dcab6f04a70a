//! Progress of a command that is executed in portions.

/// A place in a scan over all shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor(pub(crate) u64);

/// Names of keys.
pub(crate) type Names = Vec<Box<[u8]>>;

/// A walk over all keys that is under way: the next cursor and the keys found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// `None` before the first page.
    pub(crate) cursor: Option<Cursor>,
    pub(crate) found: Names,
    /// Keys seen of the database, found or not.
    pub(crate) seen: u64,
}

impl Walk {
    /// Whether every key has been seen.
    pub(crate) fn is_over(&self) -> bool {
        self.cursor == Some(Cursor(0))
    }
}

/// Progress of a command that must be executed again; empty once the command is answered.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) walk: Option<Walk>,
    /// The random number that the command has drawn.
    pub(crate) draw: Option<u64>,
}
