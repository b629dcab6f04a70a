//! Sealed keys in a database: importing, resealing, listing and removing them.
//!
//! It defines the commands to the database and the meaning of the replies; the caller has the
//! connection.

use wire::{resp::Reply, ski::KeyId};

use crate::{Error, Keyring, Random, keyring::KekId, record};

/// A database with the Redis protocol.
pub trait Database {
    /// Why there is no reply.
    type Error: From<Error>;

    /// Sends one command and waits for its reply; an error reply is an error.
    fn ask(&self, command: &[&[u8]]) -> impl Future<Output = Result<Reply, Self::Error>>;

    /// Sends one command and waits for its reply, which may be an error reply.
    fn reply(&self, command: &[&[u8]]) -> impl Future<Output = Result<Reply, Self::Error>>;
}

/// Names one step of a scan asks for.
const SCAN_COUNT: &[u8] = b"500";

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

/// Seals a key, PKCS #8 in DER, and stores it.
///
/// # Errors
/// It is no key, or there is a record of it that may not be replaced.
pub async fn store<D: Database>(
    document: &[u8],
    sealing: Sealing<'_>,
    database: &D,
    random: Random<'_>,
) -> Result<KeyId, D::Error> {
    let Sealing { keyring, server_names, replace } = sealing;
    let (id, record) = record::seal(document, server_names, keyring, random)?;
    let name = record::name(id);
    let mut command: Vec<&[u8]> = vec![b"SET", name.as_bytes(), &record];
    // The database decides: another import may be on its way.
    command.extend((!replace).then_some(&b"NX"[..]));
    if database.ask(&command).await? == Reply::Null {
        return Err(Error::Exists(id).into());
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
///
/// # Errors
/// The database does not answer, or not as expected.
pub async fn rotate<D: Database>(
    keyring: &Keyring,
    database: &D,
    random: Random<'_>,
    mut progress: impl FnMut(u64),
) -> Result<Rotated, D::Error> {
    let mut rotated = Rotated::default();
    let passed_over = passed_over(database).await?;
    let mut cursor = b"0".to_vec();
    loop {
        let (next, names) = scan(database, &cursor).await?;
        for name in names {
            let Some(id) = record::id_of(&name) else { continue };
            rotated.seal_anew(id, &name, keyring, database, random).await?;
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

impl Rotated {
    async fn seal_anew<D: Database>(
        &mut self,
        id: KeyId,
        name: &[u8],
        keyring: &Keyring,
        database: &D,
        random: Random<'_>,
    ) -> Result<(), D::Error> {
        let record = match database.reply(&[b"GET", name]).await? {
            Reply::Bytes(record) => record,
            Reply::Error(text) if text.starts_with("MISCONF") => {
                self.left.push((id, text));
                return Ok(());
            }
            Reply::Error(text) => return Err(Error::Database(text).into()),
            // It was deleted in between.
            _ => return Ok(()),
        };
        match record::rewrap(id, &record, keyring, random) {
            Ok(Some(rewrapped)) => {
                // XX: a key that was deleted in between stays deleted.
                database.ask(&[b"SET", name, &rewrapped, b"XX"]).await?;
                self.anew += 1;
            }
            Ok(None) => self.already += 1,
            Err(error) => self.left.push((id, error.to_string())),
        }
        Ok(())
    }
}

/// How many places scans could not read the names of keys at, as `enroute db` says. Other databases
/// say nothing of the kind.
async fn passed_over<D: Database>(database: &D) -> Result<u64, D::Error> {
    let unexpected = |expected| Error::Reply { command: "INFO", expected };
    let Reply::Bytes(text) = database.ask(&[b"INFO", b"stats"]).await? else {
        return Err(unexpected("a text").into());
    };
    let text = String::from_utf8_lossy(&text);
    let said = text.lines().find_map(|line| line.strip_prefix("scan_passed_over:"));
    let count = said.map_or(Ok(0), |count| count.trim().parse());
    Ok(count.map_err(|_| unexpected("a number in the reply to scan_passed_over"))?)
}

async fn scan<D: Database>(
    database: &D,
    cursor: &[u8],
) -> Result<(Vec<u8>, Vec<Vec<u8>>), D::Error> {
    let unexpected = |expected| Error::Reply { command: "SCAN", expected };
    let pattern = b"enroute:key:*";
    let reply = database.ask(&[b"SCAN", cursor, b"MATCH", pattern, b"COUNT", SCAN_COUNT]).await?;
    let Reply::List(parts) = reply else { return Err(unexpected("a list").into()) };
    let Ok([Reply::Bytes(next), Reply::List(names)]) = <[Reply; 2]>::try_from(parts) else {
        return Err(unexpected("a cursor and a list of keys").into());
    };
    let names = names.into_iter().filter_map(|name| match name {
        Reply::Bytes(name) => Some(name),
        _ => None,
    });
    Ok((next, names.collect()))
}

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
pub async fn list<D: Database>(keyring: &Keyring, database: &D) -> Result<Vec<Listed>, D::Error> {
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
pub async fn remove<D: Database>(id: KeyId, database: &D) -> Result<bool, D::Error> {
    let removed = database.ask(&[b"DEL", record::name(id).as_bytes()]).await?;
    Ok(removed == Reply::Integer(1))
}

#[cfg(test)]
mod tests {
    use std::{
        cell::RefCell,
        collections::BTreeMap,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use wire::ski::KeyKind;

    use super::*;
    use crate::key;

    /// Records by name. Replies are immediate.
    #[derive(Default)]
    struct Records(RefCell<BTreeMap<Vec<u8>, Vec<u8>>>);

    impl Database for Records {
        type Error = Error;

        async fn ask(&self, command: &[&[u8]]) -> Result<Reply, Error> {
            self.reply(command).await
        }

        async fn reply(&self, command: &[&[u8]]) -> Result<Reply, Error> {
            let mut records = self.0.borrow_mut();
            let done = Reply::Bytes(b"OK".to_vec());
            Ok(match command {
                [b"SET", name, _, b"NX"] if records.contains_key(*name) => Reply::Null,
                [b"SET", name, record, ..] => {
                    records.insert(name.to_vec(), record.to_vec());
                    done
                }
                [b"GET", name] => records.get(*name).cloned().map_or(Reply::Null, Reply::Bytes),
                [b"DEL", name] => Reply::Integer(records.remove(*name).is_some().into()),
                [b"SCAN", ..] => {
                    let names = records.keys().cloned().map(Reply::Bytes).collect();
                    Reply::List(vec![Reply::Bytes(b"0".to_vec()), Reply::List(names)])
                }
                [b"INFO", b"stats"] => Reply::Bytes(b"scan_passed_over:0\r\n".to_vec()),
                other => panic!("{other:?}"),
            })
        }
    }

    fn now<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("the replies are immediate"),
        }
    }

    #[test]
    fn a_key_is_stored_once_listed_sealed_anew_and_removed() {
        let database = Records::default();
        let random: Random<'_> = &mut |bytes| bytes.fill(7);
        let (old, new) = ("11".repeat(32), "22".repeat(32));
        let keyring = Keyring::parse(&old).expect("a keyring");
        let document = key::generate(KeyKind::EcdsaP256).expect("a key");
        let sealing = Sealing { keyring: &keyring, server_names: &[], replace: false };
        let id = now(store(&document, sealing, &database, random)).expect("stored");
        let again = now(store(&document, sealing, &database, random));
        assert_eq!(again, Err(Error::Exists(id)));
        let replaced = Sealing { replace: true, ..sealing };
        assert_eq!(now(store(&document, replaced, &database, random)), Ok(id));

        let both = Keyring::parse(&format!("{new}\n{old}")).expect("a keyring");
        let before = now(list(&both, &database)).expect("listed");
        let rotated = now(rotate(&both, &database, random, |_| {})).expect("rotated");
        assert_eq!((rotated.anew, rotated.already, rotated.left.len()), (1, 0, 0));
        let after = now(list(&both, &database)).expect("listed");
        assert_ne!(before[0].sealed_under, after[0].sealed_under);
        let opened = after[0].opened.as_ref().map(|(_, names)| names.is_empty());
        assert_eq!((after[0].id, opened), (id, Ok(true)));

        assert_eq!(now(remove(id, &database)), Ok(true));
        assert_eq!(now(remove(id, &database)), Ok(false));
    }
}
