//! The database with the sealed keys, over RESP: one pipelined connection, made when it is needed
//! and again when it broke.

mod place;

use std::{collections::VecDeque, time::Duration};

use anyhow::{Context, anyhow, bail, ensure};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::{Mutex, mpsc, oneshot},
    time::timeout,
};
use wire::resp::{Frame, Limits, frame};

pub use place::{Address, Place};

/// Longest wait for an answer, connecting included.
const PATIENCE: Duration = Duration::from_secs(2);
/// Commands sent and not answered; whoever comes next waits.
const OUTSTANDING_MAX: usize = 4096;
/// Bytes of answers not yet understood; a scan's answer is the longest.
const UNREAD_BYTES_MAX: usize = 1 << 20;

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
    place: Place,
    queue: Mutex<Option<mpsc::Sender<Command>>>,
}

impl Database {
    /// Connects when first asked.
    pub fn new(place: Place) -> Self {
        Self { place, queue: Mutex::new(None) }
    }

    /// Sends one command and waits for its answer; an error reply is an error.
    pub async fn ask(&self, arguments: &[&[u8]]) -> anyhow::Result<Reply> {
        match self.reply(arguments).await? {
            Reply::Error(text) => {
                bail!("the database at {} replied with an error: {text}", self.place.address())
            }
            reply => Ok(reply),
        }
    }

    /// Sends one command and waits for its answer, which may be an error reply.
    pub async fn reply(&self, arguments: &[&[u8]]) -> anyhow::Result<Reply> {
        timeout(PATIENCE, self.exchange(arguments))
            .await
            .unwrap_or_else(|_| Err(anyhow!("no reply within {PATIENCE:?}")))
            .with_context(|| format!("the database at {}", self.place.address()))
    }

    async fn exchange(&self, arguments: &[&[u8]]) -> anyhow::Result<Reply> {
        let (answer, answered) = oneshot::channel();
        let command = Command { bytes: encode(arguments), answer };
        let queue = self.queue().await?;
        queue.send(command).await.map_err(|_| anyhow!("the connection was lost"))?;
        answered.await.map_err(|_| anyhow!("the connection was lost"))
    }

    /// The connection, made anew if it is gone. Who comes meanwhile waits for that one.
    async fn queue(&self) -> anyhow::Result<mpsc::Sender<Command>> {
        let mut kept = self.queue.lock().await;
        if let Some(queue) = kept.as_ref().filter(|queue| !queue.is_closed()) {
            return Ok(queue.clone());
        }
        let queue = self.connect().await?;
        *kept = Some(queue.clone());
        Ok(queue)
    }

    async fn connect(&self) -> anyhow::Result<mpsc::Sender<Command>> {
        let stream = TcpStream::connect(self.place.address().host()).await?;
        stream.set_nodelay(true)?;
        let (queue, commands) = mpsc::channel(OUTSTANDING_MAX);
        match self.place.tls() {
            None => spawn(serve(stream, commands)),
            Some((connector, name)) => {
                spawn(serve(connector.connect(name, stream).await?, commands));
            }
        }
        if let Some((user, password)) = self.place.address().login() {
            let (answer, answered) = oneshot::channel();
            let bytes = encode(&[b"AUTH", user.as_bytes(), password.as_bytes()]);
            queue
                .send(Command { bytes, answer })
                .await
                .map_err(|_| anyhow!("the connection was lost"))?;
            if let Reply::Error(text) = answered.await.context("the connection was lost")? {
                bail!("login refused: {text}");
            }
        }
        Ok(queue)
    }
}

fn spawn(serving: impl Future<Output = anyhow::Result<()>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::warn!("connection to the database lost: {error:#}");
        }
    });
}

/// Writes commands as they come, hands answers to whoever waits longest. Ending drops the senders of
/// all answers, which tells their receivers.
async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut commands: mpsc::Receiver<Command>,
) -> anyhow::Result<()> {
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
                stream.flush().await?;
            }
            read = stream.read_buf(&mut unread) => {
                ensure!(read? > 0, "the database closed the connection");
                let mut used = 0;
                while let Some((frame, length)) = frame::decode(&unread[used..], &limits)? {
                    used += length;
                    let answer = waiting.pop_front().context("expected no reply, got one without \
                                                              a request")?;
                    // Whoever lost patience is gone.
                    let _ = answer.send(reply(&frame));
                }
                unread.drain(..used);
                ensure!(unread.len() < UNREAD_BYTES_MAX, "expected a reply of at most 1 MiB, got \
                                                          a longer one");
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
