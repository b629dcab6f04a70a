//! Reads by key.

use std::borrow::Cow;

use crate::key::Key;

/// A read of one key.
#[derive(Debug)]
pub struct Read<'a> {
    /// The key.
    pub key: Key<'a>,
    /// Selects one of the key's answers: the command, its options, the user.
    pub variant: &'a [u8],
    /// Database and collection by name, for a probe; a table alone, or nothing.
    pub place: (&'a str, &'a str),
}

impl Read<'_> {
    /// What the patterns of rules are matched with: `database.collection`, the table, or the key.
    pub(crate) fn subject(&self) -> Cow<'_, [u8]> {
        subject(self.key, self.place)
    }
}

/// The same of a key in a place.
pub(crate) fn subject<'a>(key: Key<'a>, place: (&'a str, &'a str)) -> Cow<'a, [u8]> {
    match place {
        ("", "") => Cow::Borrowed(key.bytes),
        (table, "") => Cow::Borrowed(table.as_bytes()),
        (database, collection) => Cow::Owned(format!("{database}.{collection}").into_bytes()),
    }
}

/// A read of several keys.
#[derive(Debug)]
pub struct ReadMany<'a> {
    /// The keys in the requested order.
    pub keys: Vec<Key<'a>>,
    /// Selects one of each key's answers.
    pub answers: Answers<'a>,
}

/// Which of its answers each key is asked for.
#[derive(Debug)]
pub enum Answers<'a> {
    /// The same for all keys.
    Same {
        /// The variant.
        variant: &'a [u8],
        /// The same for a principal without all rights: the right to read one key does not include
        /// the right to read several at once.
        restricted: &'a [u8],
    },
    /// A variant and a table for each key, in their order. They are those of reads of several keys
    /// alone: a principal may combine what it was given by such reads. The reply tells a record
    /// that does not exist from one that cannot be stored.
    Each(Vec<(&'a [u8], &'a str)>),
}

impl<'a> ReadMany<'a> {
    /// The read of the key at a place, for a principal with all rights or another.
    pub(crate) fn single(&self, place: usize, key: Key<'a>, has_all_rights: bool) -> Read<'a> {
        let (variant, table) = match &self.answers {
            Answers::Same { variant, .. } if has_all_rights => (*variant, ""),
            Answers::Same { restricted, .. } => (*restricted, ""),
            Answers::Each(all) => all.get(place).copied().unwrap_or_default(),
        };
        Read { key, variant, place: (table, "") }
    }
}
