//! Content in a database behind the memory: `enroute db`, or any other RESP server.
//!
//! Content is a copy, so a database that fails is a miss and nothing more. What it failed to drop
//! is dropped before the database is asked for it again.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use anyhow::bail;
use content::Owed;
use endpoint::{Told, seldom};
use hyper::body::Bytes;
use tokio::{net::TcpStream, sync::Mutex, time::timeout};
use wire::resp::{Limits, Reply};

use resp_client::asynchronous::Connection;

/// Connections kept; a further request waits for one.
const CONNECTIONS: usize = 8;
/// Timeout of a reply, including connecting; after it the origin is asked.
const PATIENCE: Duration = Duration::from_millis(500);
/// Commands of one conversation.
const OUTSTANDING_MAX: usize = 2;

/// Prefix of its keys, to keep them apart from those of other applications.
const KEYS: &[u8] = b"enroute-edge ";

/// A database of content.
pub struct Database {
    address: String,
    reply_bytes_max: usize,
    connections: Vec<Mutex<Option<Connection<TcpStream>>>>,
    next: AtomicUsize,
    /// Keys whose `DEL` failed.
    owed: Owed,
    told: Told,
}

impl Database {
    /// The database at `address`, `host:port`, in which no value is longer than `value_bytes_max`.
    /// It is connected to when first asked.
    #[must_use]
    pub fn new(address: String, value_bytes_max: usize) -> Self {
        let connections = (0..CONNECTIONS).map(|_| Mutex::new(None)).collect();
        let reply_bytes_max = value_bytes_max + FRAMING_BYTES;
        let (next, owed, told) = Default::default();
        Self { address, reply_bytes_max, connections, next, owed, told }
    }

    /// The value under `key`, and how long it is kept.
    pub(super) async fn lookup(&self, key: &[u8]) -> Option<(Vec<u8>, Duration)> {
        if self.owed.has(key) && !self.forget(key).await {
            return None;
        }
        let key = [KEYS, key].concat();
        match self.ask([vec![b"GET".as_slice(), &key], vec![b"PTTL", &key]]).await? {
            [Reply::Bytes(value), Reply::Integer(left)] if left > 0 => {
                Some((value, Duration::from_millis(left.unsigned_abs())))
            }
            _ => None,
        }
    }

    /// Stores `value` for `kept_for`.
    pub(super) async fn store(&self, key: &[u8], value: Bytes, kept_for: Duration) {
        let key = [KEYS, key].concat();
        let kept = kept_for.as_millis().max(1).to_string();
        self.ask([vec![b"SET".as_slice(), &key, &value, b"PX", kept.as_bytes()]]).await;
    }

    /// Drops the entry of `key`; if that fails, it is dropped before it is looked up. Returns
    /// whether it is dropped.
    pub(super) async fn forget(&self, key: &[u8]) -> bool {
        let dropped = self.ask([vec![b"DEL".as_slice(), &[KEYS, key].concat()]]).await.is_some();
        self.owed.settle(key, dropped);
        dropped
    }

    /// The replies to these commands, none of them an error. The commands are encoded when it is
    /// their turn: until then they would be copies that wait.
    async fn ask<const COUNT: usize>(
        &self,
        commands: [Vec<&[u8]>; COUNT],
    ) -> Option<[Reply; COUNT]> {
        let slot = self.next.fetch_add(1, Relaxed) % self.connections.len();
        let asked = timeout(PATIENCE, async {
            let mut kept = self.connections[slot].lock().await;
            // Taken out, so that an interrupted conversation leaves no connection behind.
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => {
                    let stream = TcpStream::connect(&self.address).await?;
                    Connection::new(stream, OUTSTANDING_MAX, &self.limits())
                }
            };
            for command in &commands {
                connection.queue(command)?;
            }
            connection.send().await?;
            let mut replies = [const { Reply::Null }; COUNT];
            for reply in &mut replies {
                *reply = connection.reply().await?;
                if let Reply::Error(error) = reply {
                    bail!("unexpected reply: {error}");
                }
            }
            *kept = Some(connection);
            anyhow::Ok(replies)
        });
        let asked = asked.await.unwrap_or_else(|_| bail_late());
        if let Err(error) = &asked {
            seldom!(self.told, Database => warn,
                "the content database {} failed: {error:#}; content is stored in memory only \
                 until it answers", self.address);
        }
        asked.ok()
    }

    fn limits(&self) -> Limits {
        Limits { reply_bytes_max: self.reply_bytes_max, ..Limits::default() }
    }
}

fn bail_late<T>() -> anyhow::Result<T> {
    bail!("no reply within {PATIENCE:?}")
}

/// Upper bound of the length fields and line ends around one value.
const FRAMING_BYTES: usize = 256;
