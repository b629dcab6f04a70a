//! Which keys the database holds.

use keyserver::{Keyring, keyring::KekId, record};
use wire::{resp::Reply, ski::KeyId};

use super::{super::database::Database, scan};

/// A stored key, and nothing secret about it.
#[derive(Debug)]
pub struct Listed {
    /// By which edges ask for it.
    pub id: KeyId,
    /// The key-encryption key its record is sealed under; none if the record does not say.
    pub sealed_under: Option<KekId>,
    /// Its kind and the server names it is for, or why they are not known.
    pub opened: Result<(String, Vec<String>), String>,
}

/// Every key whose name the database can tell.
///
/// # Errors
/// The database does not answer.
pub async fn list(keyring: &Keyring, database: &Database) -> anyhow::Result<Vec<Listed>> {
    let (mut cursor, mut ids) = (b"0".to_vec(), Vec::new());
    loop {
        let (next, names) = scan(database, &cursor).await?;
        ids.extend(names.iter().filter_map(|name| record::id_of(name)));
        if next == b"0" {
            break;
        }
        cursor = next;
    }
    // A scan may name one twice.
    ids.sort_unstable();
    ids.dedup();
    let mut listed = Vec::new();
    for id in ids {
        match database.reply(&[b"GET", record::name(id).as_bytes()]).await? {
            Reply::Bytes(record) => listed.push(look(id, &record, keyring)),
            Reply::Error(text) => {
                listed.push(Listed { id, sealed_under: None, opened: Err(text) });
            }
            // It was removed since it was named.
            _ => {}
        }
    }
    Ok(listed)
}

fn look(id: KeyId, record: &[u8], keyring: &Keyring) -> Listed {
    let opened = record::open(id, record, keyring)
        .map(|key| (format!("{:?}", key.kind()), key.server_names().to_vec()))
        .map_err(|error| error.to_string());
    Listed { id, sealed_under: record::sealed_under(id, record).ok(), opened }
}

/// Removes the record of a key; says whether there was one.
///
/// # Errors
/// The database does not answer.
pub async fn remove(id: KeyId, database: &Database) -> anyhow::Result<bool> {
    let removed = database.ask(&[b"DEL", record::name(id).as_bytes()]).await?;
    Ok(removed == Reply::Integer(1))
}
