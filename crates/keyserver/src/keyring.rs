//! Key-encryption keys: what seals the data keys that seal the private keys.
//!
//! A keyring is a text of one key a line, 64 hexadecimal digits each. The first seals; all open. To
//! rotate, put a new line on top, seal every record anew, then remove the old line.

use std::fmt;

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest::{SHA256, digest},
};
use zeroize::Zeroizing;

use crate::{Error, Result};

/// Keys in one keyring at most.
const KEYS_MAX: usize = 16;
/// Bytes that tell one key-encryption key from another.
pub const KEK_ID_BYTES: usize = 8;
/// Prefix of the hash that gives a key-encryption key its id.
const ID_CONTEXT: &[u8] = b"enroute key-encryption key id";

/// Names a key-encryption key without telling anything about it.
pub type KekId = [u8; KEK_ID_BYTES];

/// Key-encryption keys, the one in use first.
pub struct Keyring {
    keys: Vec<Kek>,
}

/// One key-encryption key.
pub(crate) struct Kek {
    pub(crate) id: KekId,
    key: LessSafeKey,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Keyring({} keys)", self.keys.len())
    }
}

impl Keyring {
    /// Reads lines of 64 hexadecimal digits. Empty lines and those that begin with `#` are skipped.
    pub fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().map(str::trim);
        let mut keys = Vec::new();
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if keys.len() == KEYS_MAX {
                let got = format!("more than {KEYS_MAX} keys");
                return Err(Error::Kek { number: KEYS_MAX + 1, got });
            }
            keys.push(Kek::parse(line, keys.len() + 1)?);
        }
        if keys.is_empty() { Err(Error::NoKek) } else { Ok(Self { keys }) }
    }

    /// The id of the one that seals.
    pub fn current(&self) -> Option<KekId> {
        self.first().map(|kek| kek.id)
    }

    pub(crate) fn first(&self) -> Option<&Kek> {
        self.keys.first()
    }

    pub(crate) fn find(&self, id: &KekId) -> Option<&Kek> {
        self.keys.iter().find(|kek| kek.id == *id)
    }
}

impl Kek {
    fn parse(digits: &str, number: usize) -> Result<Self> {
        let wrong = |got| Error::Kek { number, got };
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong(format!("{} bytes", digits.len())));
        }
        let mut key = Zeroizing::new([0u8; 32]);
        for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            for digit in pair {
                let value = char::from(*digit).to_digit(16);
                let value = value.ok_or_else(|| wrong("another character".to_owned()))?;
                *byte = *byte << 4 | value as u8;
            }
        }
        let hash = digest(&SHA256, &Zeroizing::new([ID_CONTEXT, &key[..]].concat()));
        let id = hash.as_ref().first_chunk().copied().unwrap_or_default();
        Ok(Self { id, key: cipher(&key)? })
    }

    /// Seals in place and appends the tag.
    pub(crate) fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        about: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<()> {
        seal(&self.key, nonce, about, data)
    }

    /// Opens what [`seal`](Self::seal) sealed, if nothing was changed.
    pub(crate) fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        about: &[u8],
        sealed: &[u8],
    ) -> Option<Zeroizing<Vec<u8>>> {
        open(&self.key, nonce, about, sealed)
    }
}

/// AES-256-GCM under `key`.
pub(crate) fn cipher(key: &[u8; 32]) -> Result<LessSafeKey> {
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| Error::Library("make a cipher"))?;
    Ok(LessSafeKey::new(key))
}

pub(crate) fn seal(
    key: &LessSafeKey,
    nonce: [u8; NONCE_LEN],
    about: &[u8],
    data: &mut Vec<u8>,
) -> Result<()> {
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(about), data)
        .map_err(|_| Error::Library("seal a record"))
}

pub(crate) fn open(
    key: &LessSafeKey,
    nonce: [u8; NONCE_LEN],
    about: &[u8],
    sealed: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let mut data = Zeroizing::new(sealed.to_vec());
    let nonce = Nonce::assume_unique_for_key(nonce);
    let length = key.open_in_place(nonce, Aad::from(about), &mut data).ok()?.len();
    data.truncate(length);
    Some(data)
}
