//! Storage of a private key in a database: sealed twice (`docs/formats/keyserver-record.md`).
//!
//! Each key is sealed under a data key of its own, which is sealed under a key-encryption key. So
//! rotating the latter touches no private key, and a record reveals nothing but its size.

use aws_lc_rs::aead::NONCE_LEN;
use wire::ski::KeyId;
use zeroize::Zeroizing;

use crate::{
    Error, Keyring, Random, Result, SigningKey,
    keyring::{self, KEK_ID_BYTES, KekId},
};

/// The only version there is.
const VERSION: u8 = 1;
const DATA_KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
const WRAPPED_BYTES: usize = DATA_KEY_BYTES + TAG_BYTES;
/// Longest record in bytes: RSA-4096 takes 2.4 KiB, the rest is server names.
pub const RECORD_BYTES_MAX: usize = 16 << 10;
/// Server names of one key at most.
pub const SERVER_NAMES_MAX: usize = 32;
const SERVER_NAME_BYTES_MAX: usize = 253;
/// Associated data of a wrapped data key, before the key's id.
const WRAP_CONTEXT: &[u8] = b"enroute data key 1";
/// Associated data of a sealed private key, before the key's id.
const SEAL_CONTEXT: &[u8] = b"enroute private key 1";

/// Returns the database key of a private key's record.
pub fn name(id: KeyId) -> String {
    format!("enroute:key:{id}")
}

/// The id in a record's name.
pub fn id_of(name: &[u8]) -> Option<KeyId> {
    KeyId::decode(std::str::from_utf8(name).ok()?.strip_prefix("enroute:key:")?)
}

/// A record, its parts not yet opened.
struct Parts<'a> {
    kek: KekId,
    wrap_nonce: [u8; NONCE_LEN],
    wrapped: &'a [u8],
    seal_nonce: [u8; NONCE_LEN],
    sealed: &'a [u8],
}

/// Seals the PKCS #8 document `der` with the names it is for. Says whose record it is, too.
pub fn seal(
    der: &[u8],
    server_names: &[String],
    keyring: &Keyring,
    random: Random<'_>,
) -> Result<(KeyId, Vec<u8>)> {
    let id = SigningKey::from_pkcs8(der, Vec::new())?.id();
    let mut content = encode_names(id, server_names)?;
    content.extend_from_slice(der);

    let mut data_key = Zeroizing::new([0; DATA_KEY_BYTES]);
    random(data_key.as_mut());
    let mut seal_nonce = [0; NONCE_LEN];
    random(&mut seal_nonce);
    keyring::seal(
        &keyring::cipher(&data_key)?,
        seal_nonce,
        &about(SEAL_CONTEXT, id),
        &mut content,
    )?;

    let mut record = wrap(&data_key, id, keyring, random)?;
    record.extend_from_slice(&seal_nonce);
    record.extend_from_slice(&content);
    if record.len() > RECORD_BYTES_MAX {
        return Err(Error::Record { id, reason: "longer than 16 KiB; give it fewer names" });
    }
    Ok((id, record))
}

/// Opens and parses a record; the key in it must be the one of `id`.
pub fn open(id: KeyId, record: &[u8], keyring: &Keyring) -> Result<SigningKey> {
    let wrong = |reason| Error::Record { id, reason };
    let parts = Parts::of(id, record)?;
    let data_key = unwrap(&parts, id, keyring)?;
    let about = about(SEAL_CONTEXT, id);
    let content =
        keyring::open(&keyring::cipher(&data_key)?, parts.seal_nonce, &about, parts.sealed)
            .ok_or_else(|| wrong("was changed since it was sealed"))?;
    let (server_names, der) = decode_names(&content).ok_or_else(|| wrong("has no server names"))?;
    let key = SigningKey::from_pkcs8(der, server_names)?;
    // The seal says so already; a mistake at import must not let a key serve under another name.
    if key.id() == id { Ok(key) } else { Err(wrong("holds another key")) }
}

/// The id of the key-encryption key that a record is sealed under.
pub fn sealed_under(id: KeyId, record: &[u8]) -> Result<KekId> {
    Ok(Parts::of(id, record)?.kek)
}

/// The same record with its data key under the keyring's first key, or `None` if it is already.
pub fn rewrap(
    id: KeyId,
    record: &[u8],
    keyring: &Keyring,
    random: Random<'_>,
) -> Result<Option<Vec<u8>>> {
    let parts = Parts::of(id, record)?;
    if keyring.current() == Some(parts.kek) {
        return Ok(None);
    }
    let data_key = unwrap(&parts, id, keyring)?;
    let mut anew = wrap(&data_key, id, keyring, random)?;
    anew.extend_from_slice(&parts.seal_nonce);
    anew.extend_from_slice(parts.sealed);
    Ok(Some(anew))
}

/// Version, key-encryption key, nonce, wrapped data key: how each record begins.
fn wrap(
    data_key: &[u8; DATA_KEY_BYTES],
    id: KeyId,
    keyring: &Keyring,
    random: Random<'_>,
) -> Result<Vec<u8>> {
    let kek = keyring.first().ok_or(Error::NoKek)?;
    let mut nonce = [0; NONCE_LEN];
    random(&mut nonce);
    // Room for the tag, so that growing leaves no copy behind.
    let mut wrapped = Vec::with_capacity(WRAPPED_BYTES);
    wrapped.extend_from_slice(data_key);
    kek.seal(nonce, &about(WRAP_CONTEXT, id), &mut wrapped)?;
    let mut record = vec![VERSION];
    record.extend_from_slice(&kek.id);
    record.extend_from_slice(&nonce);
    record.extend_from_slice(&wrapped);
    Ok(record)
}

fn unwrap(
    parts: &Parts<'_>,
    id: KeyId,
    keyring: &Keyring,
) -> Result<Zeroizing<[u8; DATA_KEY_BYTES]>> {
    let wrong = |reason| Error::Record { id, reason };
    let kek = keyring
        .find(&parts.kek)
        .ok_or_else(|| wrong("is sealed under a key-encryption key that is not in the keyring"))?;
    let opened = kek
        .open(parts.wrap_nonce, &about(WRAP_CONTEXT, id), parts.wrapped)
        .ok_or_else(|| wrong("was changed since it was sealed"))?;
    let mut data_key = Zeroizing::new([0; DATA_KEY_BYTES]);
    data_key.copy_from_slice(opened.get(..DATA_KEY_BYTES).ok_or_else(|| wrong("is incomplete"))?);
    Ok(data_key)
}

impl<'a> Parts<'a> {
    fn of(id: KeyId, record: &'a [u8]) -> Result<Self> {
        let short = || Error::Record { id, reason: "is incomplete" };
        if record.len() > RECORD_BYTES_MAX {
            return Err(Error::Record { id, reason: "is longer than 16 KiB" });
        }
        let (version, rest) = record.split_first().ok_or_else(short)?;
        if *version != VERSION {
            return Err(Error::Record { id, reason: "is of a version other than 1" });
        }
        let (kek, rest) = rest.split_first_chunk::<KEK_ID_BYTES>().ok_or_else(short)?;
        let (wrap_nonce, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (wrapped, rest) = rest.split_at_checked(WRAPPED_BYTES).ok_or_else(short)?;
        let (seal_nonce, sealed) = rest.split_first_chunk().ok_or_else(short)?;
        Ok(Self { kek: *kek, wrap_nonce: *wrap_nonce, wrapped, seal_nonce: *seal_nonce, sealed })
    }
}

fn about(context: &[u8], id: KeyId) -> Vec<u8> {
    [context, &id.0].concat()
}

/// Count, then length and bytes of each.
fn encode_names(id: KeyId, server_names: &[String]) -> Result<Vec<u8>> {
    let count = u8::try_from(server_names.len()).unwrap_or(u8::MAX);
    if usize::from(count) > SERVER_NAMES_MAX {
        return Err(Error::Record { id, reason: "has more than 32 server names" });
    }
    // Room for any key and the tag, so that growing leaves no copy of the key behind.
    let mut out = Vec::with_capacity(RECORD_BYTES_MAX);
    out.push(count);
    for name in server_names {
        let bytes = name.strip_prefix("*.").unwrap_or(name).bytes();
        let is_of_dns =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let length = u8::try_from(name.len()).ok().filter(|length| *length > 0);
        let (Some(length), true) = (length, bytes.clone().all(is_of_dns)) else {
            return Err(Error::ServerName(name.chars().take(SERVER_NAME_BYTES_MAX).collect()));
        };
        out.push(length);
        out.extend(name.to_ascii_lowercase().bytes());
    }
    Ok(out)
}

fn decode_names(content: &[u8]) -> Option<(Vec<String>, &[u8])> {
    let (count, mut rest) = content.split_first()?;
    let mut names = Vec::new();
    for _ in 0..*count {
        let (length, behind) = rest.split_first()?;
        let (name, behind) = behind.split_at_checked(usize::from(*length))?;
        names.push(std::str::from_utf8(name).ok()?.to_owned());
        rest = behind;
    }
    Some((names, rest))
}

#[cfg(test)]
mod tests;
