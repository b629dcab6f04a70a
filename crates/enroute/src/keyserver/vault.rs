//! Keys in the database, from outside the service: bringing them in, sealing them anew, naming and
//! removing them.

use std::path::Path;

use anyhow::{Context, bail};
use keyserver::{Keyring, key::pkcs8_of, record};
use wire::{resp::Reply, ski::KeyId};
use zeroize::Zeroizing;

use super::database::Database;
use crate::{private_file, random};

mod inventory;

pub use inventory::{Listed, list, remove};

/// Environment variable with the key-encryption keys, used without `--kek-file`.
pub const KEK_VARIABLE: &str = "ENROUTE_KEK";
/// Names one step of a scan asks for.
const SCAN_COUNT: &[u8] = b"500";

/// The keyring in `path`, or in the environment.
pub fn keyring(path: Option<&Path>) -> anyhow::Result<Keyring> {
    let (text, from) = match path {
        Some(path) => {
            let text = private_file::read_secret_text(path, "key-encryption keys")?;
            (text, path.display().to_string())
        }
        None => {
            let text = std::env::var(KEK_VARIABLE).map_err(|_| {
                anyhow::anyhow!(
                    "expected a key-encryption key: set --kek-file or the environment \
                                 variable {KEK_VARIABLE}"
                )
            })?;
            (Zeroizing::new(text), KEK_VARIABLE.to_owned())
        }
    };
    Keyring::parse(&text).context(from)
}

/// How keys are sealed and stored.
#[derive(Clone, Copy)]
pub struct Sealing<'a> {
    /// Its first key seals.
    pub keyring: &'a Keyring,
    /// The names the keys are for; any, if there are none.
    pub server_names: &'a [String],
    /// A record that is there already may be replaced.
    pub replace: bool,
}

/// Seals the key in the file and stores it.
///
/// # Errors
/// Other users can read the file, it holds no key, or there is a record of the key that may not be
/// replaced.
pub async fn import(
    path: &Path,
    sealing: Sealing<'_>,
    database: &Database,
) -> anyhow::Result<KeyId> {
    let shown = path.display();
    let file = private_file::read_secret(path, "private key")?;
    let document = pkcs8_of(&file).with_context(|| shown.to_string())?;
    store(&document, sealing, database).await.with_context(|| shown.to_string())
}

/// Seals a key, PKCS #8 in DER, and stores it.
///
/// # Errors
/// As [`import`].
pub async fn store(
    document: &[u8],
    sealing: Sealing<'_>,
    database: &Database,
) -> anyhow::Result<KeyId> {
    let Sealing { keyring, server_names, replace } = sealing;
    let (id, record) = with_random(|random| record::seal(document, server_names, keyring, random))?;
    let name = record::name(id);
    let mut command: Vec<&[u8]> = vec![b"SET", name.as_bytes(), &record];
    // The database decides: another import may be on its way.
    command.extend((!replace).then_some(&b"NX"[..]));
    if database.ask(&command).await? == Reply::Null {
        bail!(
            "the database has a record of this key already ({id}), perhaps with other server names or under \
             another key-encryption key: see `enroute keyserver list`, and give --replace to overwrite it"
        );
    }
    Ok(id)
}

/// What sealing every record anew came to.
#[derive(Debug, Default)]
pub struct Rotated {
    /// Records sealed anew.
    pub anew: u64,
    /// Records that were under the first key already.
    pub already: u64,
    /// Records that stay as they are, and why: they are damaged, or the keyring does not open them.
    pub left: Vec<(KeyId, String)>,
    /// Places that the database could not read; the names of their records are unknown.
    pub nameless: u64,
}

/// Seals every record under the keyring's first key; `progress` gets the number of records
/// examined. A damaged record does not stop it.
pub async fn rotate(
    keyring: &Keyring,
    database: &Database,
    mut progress: impl FnMut(u64),
) -> anyhow::Result<Rotated> {
    let mut rotated = Rotated::default();
    let passed_over = passed_over(database).await?;
    let mut cursor = b"0".to_vec();
    loop {
        let (next, names) = scan(database, &cursor).await?;
        for name in names {
            let Some(id) = record::id_of(&name) else { continue };
            rotate_one(id, &name, keyring, database, &mut rotated).await?;
            progress(rotated.anew + rotated.already);
        }
        if next == b"0" {
            break;
        }
        cursor = next;
    }
    rotated.nameless = self::passed_over(database).await?.saturating_sub(passed_over);
    Ok(rotated)
}

async fn rotate_one(
    id: KeyId,
    name: &[u8],
    keyring: &Keyring,
    database: &Database,
    rotated: &mut Rotated,
) -> anyhow::Result<()> {
    let record = match database.reply(&[b"GET", name]).await? {
        Reply::Bytes(record) => record,
        Reply::Error(text) if text.starts_with("MISCONF") => {
            rotated.left.push((id, text));
            return Ok(());
        }
        Reply::Error(text) => bail!("the database replied with an error: {text}"),
        // It was deleted in between.
        _ => return Ok(()),
    };
    match with_random(|random| record::rewrap(id, &record, keyring, random)) {
        Ok(Some(rewrapped)) => {
            // XX: a key that was deleted in between stays deleted.
            database.ask(&[b"SET", name, &rewrapped, b"XX"]).await?;
            rotated.anew += 1;
        }
        Ok(None) => rotated.already += 1,
        Err(error) => rotated.left.push((id, format!("{error:#}"))),
    }
    Ok(())
}

/// How many places scans could not read the names of keys at, as `enroute db` says. Other databases
/// say nothing of the kind.
async fn passed_over(database: &Database) -> anyhow::Result<u64> {
    let Reply::Bytes(text) = database.ask(&[b"INFO", b"stats"]).await? else {
        bail!("INFO: expected a text, got another reply");
    };
    let text = String::from_utf8_lossy(&text);
    let said = text.lines().find_map(|line| line.strip_prefix("scan_passed_over:"));
    said.map_or(Ok(0), |count| count.trim().parse().context("INFO: scan_passed_over"))
}

async fn scan(database: &Database, cursor: &[u8]) -> anyhow::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let pattern = b"enroute:key:*";
    let reply = database.ask(&[b"SCAN", cursor, b"MATCH", pattern, b"COUNT", SCAN_COUNT]).await?;
    let Reply::List(parts) = reply else { bail!("SCAN: expected a list, got another reply") };
    let Ok([Reply::Bytes(next), Reply::List(names)]) = <[Reply; 2]>::try_from(parts) else {
        bail!("SCAN: expected a cursor and names, got another reply");
    };
    let names = names.into_iter().filter_map(|name| match name {
        Reply::Bytes(name) => Some(name),
        _ => None,
    });
    Ok((next, names.collect()))
}

fn with_random<T>(
    act: impl FnOnce(keyserver::Random<'_>) -> keyserver::Result<T>,
) -> anyhow::Result<T> {
    let mut failure = None;
    let outcome = act(&mut |bytes| failure = random::fill(bytes).err().or(failure.take()));
    match failure {
        Some(error) => Err(error),
        None => Ok(outcome?),
    }
}
