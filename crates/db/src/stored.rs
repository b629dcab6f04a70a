//! Stored form of data: keys of databases, and values that may expire.

use smallvec::SmallVec;

/// Databases a client can SELECT.
pub const DATABASES: u8 = 16;

/// A key as it is stored: behind the byte of its database.
pub(crate) struct StoredKey(pub(crate) SmallVec<[u8; 64]>);

impl StoredKey {
    #[inline]
    pub(crate) fn new(database: u8, key: &[u8]) -> Self {
        let mut short = [0; 64];
        short[0] = database;
        if let Some(place) = short.get_mut(1..1 + key.len()) {
            place.copy_from_slice(key);
            return Self(SmallVec::from_buf_and_len(short, 1 + key.len()));
        }
        let mut long = Vec::with_capacity(1 + key.len());
        long.push(database);
        long.extend_from_slice(key);
        Self(SmallVec::from_vec(long))
    }

    pub(crate) fn database(&self) -> u8 {
        self.0[0]
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.0[1..]
    }
}

/// A value and when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'e> {
    pub(crate) value: &'e [u8],
    /// Milliseconds since the Unix epoch.
    pub(crate) expires_at: Option<u64>,
    /// Another one after every write.
    pub(crate) version: u64,
}
