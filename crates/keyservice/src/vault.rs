//! Key-encryption keys and private keys in files, for [`keyserver::vault`].

use std::path::Path;

use anyhow::Context;
use keyserver::{
    Keyring,
    key::pkcs8_of,
    vault::{self, Sealing},
};
use platform::{private_file, random};
use wire::{resp::Reply, ski::KeyId};
use zeroize::Zeroizing;

use super::database::Database;

/// Environment variable with the key-encryption keys, used without `--kek-file`.
pub const KEK_VARIABLE: &str = "ENROUTE_KEK";

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
    vault::store(&document, sealing, database, &mut random::fill)
        .await
        .with_context(|| shown.to_string())
}

impl vault::Database for Database {
    type Error = anyhow::Error;

    async fn ask(&self, command: &[&[u8]]) -> anyhow::Result<Reply> {
        Self::ask(self, command).await
    }

    async fn reply(&self, command: &[&[u8]]) -> anyhow::Result<Reply> {
        Self::reply(self, command).await
    }
}
