//! The database with the sealed keys, over RESP: one pipelined connection, made when it is needed
//! and again when it broke.

use std::{collections::VecDeque, fmt, str::FromStr, time::Duration};

use anyhow::{Context, anyhow, bail, ensure};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{mpsc, oneshot},
    time::timeout,
};
use wire::resp::{Frame, Limits, frame};
use zeroize::Zeroizing;

/// Longest wait for an answer, connecting included.
const PATIENCE: Duration = Duration::from_secs(2);
/// Commands sent and not answered; whoever comes next waits.
const OUTSTANDING_MAX: usize = 4096;
/// Bytes of answers not yet understood; a scan's answer is the longest.
const UNREAD_BYTES_MAX: usize = 1 << 20;

/// Where the database is: `redis://[[USER:]PASSWORD@]HOST:PORT`.
#[derive(Clone)]
pub struct Address {
    host: String,
    login: Option<(String, Zeroizing<String>)>,
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "redis://{}", self.host)
    }
}

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let form = "expected redis://[[USER:]PASSWORD@]HOST:PORT";
        let rest = text.strip_prefix("redis://").context(form)?;
        let (login, host) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((login, host)) => {
                let (user, password) = login.split_once(':').unwrap_or(("default", login));
                let user = if user.is_empty() { "default" } else { user };
                (Some((user.to_owned(), Zeroizing::new(password.to_owned()))), host)
            }
        };
        let host = host.trim_end_matches('/');
        let (name, port) = host.rsplit_once(':').context(form)?;
        ensure!(!name.is_empty() && port.parse::<u16>().is_ok(), form);
        Ok(Self { host: host.to_owned(), login })
    }
}

/// An answer of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing under that name.
    Null,
    /// A status or a value.
    Bytes(Vec<u8>),
    /// A number.
    Integer(i64),
    /// Several answers.
    List(Vec<Reply>),
    /// The command failed.
    Error(String),
}

struct Command {
    bytes: Vec<u8>,
    answer: oneshot::Sender<Reply>,
}

/// A connection to the database, for tasks of one runtime.
pub struct Database {
    address: Address,
    queue: Mutex<Option<mpsc::Sender<Command>>>,
}

impl Database {
    /// Connects when first asked.
    pub fn new(address: Address) -> Self {
        Self { address, queue: Mutex::new(None) }
    }

    /// Sends one command and waits for its answer; an error reply is an error.
    pub async fn ask(&self, arguments: &[&[u8]]) -> anyhow::Result<Reply> {
        let reply = timeout(PATIENCE, self.exchange(arguments))
            .await
            .unwrap_or_else(|_| Err(anyhow!("no answer within {PATIENCE:?}")))
            .with_context(|| format!("the database at {}", self.address))?;
        match reply {
            Reply::Error(text) => bail!("the database at {} says: {text}", self.address),
            reply => Ok(reply),
        }
    }

    async fn exchange(&self, arguments: &[&[u8]]) -> anyhow::Result<Reply> {
        let (answer, answered) = oneshot::channel();
        let command = Command { bytes: encode(arguments), answer };
        let queue = self.queue.lock().clone();
        let queue = match queue.filter(|queue| !queue.is_closed()) {
            Some(queue) => queue,
            None => self.connect().await?,
        };
        queue.send(command).await.map_err(|_| anyhow!("the connection broke"))?;
        answered.await.map_err(|_| anyhow!("the connection broke"))
    }

    async fn connect(&self) -> anyhow::Result<mpsc::Sender<Command>> {
        let stream = TcpStream::connect(&self.address.host).await?;
        stream.set_nodelay(true)?;
        let (queue, commands) = mpsc::channel(OUTSTANDING_MAX);
        tokio::spawn(async move {
            if let Err(error) = serve(stream, commands).await {
                tracing::warn!("the connection to the database ended: {error:#}");
            }
        });
        if let Some((user, password)) = &self.address.login {
            let (answer, answered) = oneshot::channel();
            let bytes = encode(&[b"AUTH", user.as_bytes(), password.as_bytes()]);
            queue.send(Command { bytes, answer }).await.map_err(|_| anyhow!("it broke"))?;
            if let Reply::Error(text) = answered.await.context("the connection broke")? {
                bail!("login refused: {text}");
            }
        }
        *self.queue.lock() = Some(queue.clone());
        Ok(queue)
    }
}

/// Writes commands as they come, hands answers to whoever waits longest. Ending drops the senders of
/// all answers, which tells their receivers.
async fn serve(mut stream: TcpStream, mut commands: mpsc::Receiver<Command>) -> anyhow::Result<()> {
    let limits = Limits::default();
    let mut waiting = VecDeque::new();
    let (mut unread, mut out) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            command = commands.recv(), if waiting.len() < OUTSTANDING_MAX => {
                let Some(command) = command else { return Ok(()) };
                out.clear();
                let mut next = Some(command);
                while let Some(command) = next {
                    out.extend_from_slice(&command.bytes);
                    waiting.push_back(command.answer);
                    next = commands.try_recv().ok();
                }
                stream.write_all(&out).await?;
            }
            read = stream.read_buf(&mut unread) => {
                ensure!(read? > 0, "the database closed it");
                let mut used = 0;
                while let Some((frame, length)) = frame::decode(&unread[used..], &limits)? {
                    used += length;
                    let answer = waiting.pop_front().context("an answer nobody asked for")?;
                    // Whoever lost patience is gone.
                    let _ = answer.send(reply(&frame));
                }
                unread.drain(..used);
                ensure!(unread.len() < UNREAD_BYTES_MAX, "an answer longer than 1 MiB");
            }
        }
    }
}

fn encode(arguments: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn reply(frame: &Frame<'_>) -> Reply {
    if frame.is_null() {
        return Reply::Null;
    }
    if let Some(text) = frame.error() {
        return Reply::Error(String::from_utf8_lossy(text).into_owned());
    }
    if let Some(number) = frame.integer() {
        return Reply::Integer(number);
    }
    if frame.kind().is_aggregate() {
        return Reply::List(frame.elements().map(|element| reply(&element)).collect());
    }
    Reply::Bytes(frame.payload().or(frame.line()).unwrap_or_default().to_vec())
}
