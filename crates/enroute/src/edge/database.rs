//! Content in a database behind the memory: `enroute db`, or any that speaks RESP.
//!
//! Content is a copy, so a database that fails is a miss and nothing more.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use anyhow::{Context, bail};
use hyper::body::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Mutex,
    time::timeout,
};
use tracing::warn;
use wire::resp::{Limits, frame, request::write_command};

/// Connections kept; a further request waits for one.
const CONNECTIONS: usize = 8;
/// Longest wait for an answer, connecting included: then the origin is the better choice.
const PATIENCE: Duration = Duration::from_millis(500);
/// Room read into at once.
const READ_BYTES: usize = 64 << 10;

/// What its keys begin with there, so that they are those of no other application.
const KEYS: &[u8] = b"enroute-edge ";

/// A database of content.
pub struct Database {
    address: String,
    reply_bytes_max: usize,
    connections: Vec<Mutex<Option<TcpStream>>>,
    next: AtomicUsize,
}

impl Database {
    /// The database at `address`, `host:port`, in which no value is longer than `value_bytes_max`.
    /// It is connected to when first asked.
    #[must_use]
    pub fn new(address: String, value_bytes_max: usize) -> Self {
        let connections = (0..CONNECTIONS).map(|_| Mutex::new(None)).collect();
        let reply_bytes_max = value_bytes_max + FRAMING_BYTES;
        Self { address, reply_bytes_max, connections, next: AtomicUsize::new(0) }
    }

    /// The value under `key`, and how long it is kept.
    pub(super) async fn lookup(&self, key: &[u8]) -> Option<(Vec<u8>, Duration)> {
        let key = [KEYS, key].concat();
        let asked = || {
            let mut asked = Vec::new();
            write_command(&mut asked, &[b"GET".as_slice(), &key]);
            write_command(&mut asked, &[b"PTTL".as_slice(), &key]);
            asked
        };
        let mut replies = self.ask(asked, 2).await?;
        let limits = self.limits();
        let (value, used) = frame::decode(&replies, &limits).ok()??;
        let payload = value.payload()?;
        let start = payload.as_ptr() as usize - replies.as_ptr() as usize;
        let (left, _) = frame::decode(&replies[used..], &limits).ok()??;
        let left = u64::try_from(left.integer()?).ok().filter(|&left| left > 0)?;
        let end = start + payload.len();
        replies.truncate(end);
        replies.drain(..start);
        Some((replies, Duration::from_millis(left)))
    }

    /// Stores `value` for `kept_for`.
    pub(super) async fn store(&self, key: &[u8], value: Bytes, kept_for: Duration) {
        let key = [KEYS, key].concat();
        let kept = kept_for.as_millis().max(1).to_string();
        let asked = || {
            let mut asked = Vec::with_capacity(value.len() + key.len() + FRAMING_BYTES);
            write_command(&mut asked, &[b"SET".as_slice(), &key, &value, b"PX", kept.as_bytes()]);
            asked
        };
        self.ask(asked, 1).await;
    }

    /// Forgets what is under `key`.
    pub(super) async fn forget(&self, key: &[u8]) {
        let asked = || {
            let mut asked = Vec::new();
            write_command(&mut asked, &[b"DEL".as_slice(), &[KEYS, key].concat()]);
            asked
        };
        self.ask(asked, 1).await;
    }

    /// The bytes of the replies to `count` commands, none of them an error. They are written when it is
    /// their turn: until then they would be copies that wait.
    async fn ask(&self, commands: impl FnOnce() -> Vec<u8>, count: usize) -> Option<Vec<u8>> {
        let slot = self.next.fetch_add(1, Relaxed) % self.connections.len();
        let asked = timeout(PATIENCE, async {
            let mut kept = self.connections[slot].lock().await;
            // Taken out, so that a conversation that is broken off leaves no connection behind.
            let mut stream = match kept.take() {
                Some(stream) => stream,
                None => TcpStream::connect(&self.address).await?,
            };
            stream.write_all(&commands()).await?;
            let replies = self.replies(&mut stream, count).await?;
            *kept = Some(stream);
            anyhow::Ok(replies)
        });
        let asked = asked.await.unwrap_or_else(|_| bail_late());
        asked.inspect_err(|error| warn!("the content database {} failed: {error:#}; content is stored in memory only until it answers", self.address)).ok()
    }

    async fn replies(&self, stream: &mut TcpStream, count: usize) -> anyhow::Result<Vec<u8>> {
        let (mut replies, mut whole, mut seen) = (Vec::new(), 0, 0);
        loop {
            while seen < count {
                let Some((reply, used)) = frame::decode(&replies[whole..], &self.limits())? else {
                    break;
                };
                if let Some(error) = reply.error() {
                    bail!("unexpected reply: {}", String::from_utf8_lossy(error));
                }
                (whole, seen) = (whole + used, seen + 1);
            }
            if seen == count {
                return Ok(replies);
            }
            replies.reserve(READ_BYTES);
            let read = stream.read_buf(&mut replies).await?;
            (read > 0).then_some(()).context("the database closed the connection")?;
        }
    }

    fn limits(&self) -> Limits {
        Limits { reply_bytes_max: self.reply_bytes_max, ..Limits::default() }
    }
}

fn bail_late<T>() -> anyhow::Result<T> {
    bail!("no reply within {PATIENCE:?}")
}

/// More than the lengths and line ends around one value take.
const FRAMING_BYTES: usize = 256;
