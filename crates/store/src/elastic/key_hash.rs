//! Hashes of keys.

use siphasher::sip::SipHasher13;

use super::table::HASH_BITS;

/// Owns the secret of the hash. The superblock stores it, so a key has the same hash for the whole
/// life of the store.
#[derive(Debug, Clone)]
pub(super) struct KeyHasher(SipHasher13);

impl KeyHasher {
    pub(super) fn new([first, second]: [u64; 2]) -> Self {
        Self(SipHasher13::new_with_keys(first, second))
    }

    /// The bits of the hash of `key` that the storage table keeps.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.0.hash(key) >> (64 - HASH_BITS)
    }
}
