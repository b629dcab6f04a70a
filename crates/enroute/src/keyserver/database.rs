//! The database with the sealed keys, over RESP: one pipelined connection, made when it is needed
//! and again when it broke.

mod place;

use std::{collections::VecDeque, time::Duration};

use anyhow::{Context, anyhow, bail};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{Mutex, mpsc, oneshot},
    time::timeout,
};
use wire::resp::{Limits, Reply};

use crate::resp_client::asynchronous::Connection;

pub use place::{Address, Place};

/// Longest wait for an answer, connecting included.
const PATIENCE: Duration = Duration::from_secs(2);
/// Commands sent and not answered; further ones wait.
const OUTSTANDING_MAX: usize = 4096;
/// Bytes of one answer; a scan's answer is the longest.
const REPLY_BYTES_MAX: usize = 1 << 20;

struct Command {
    words: Vec<Vec<u8>>,
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
        let words = arguments.iter().map(|argument| argument.to_vec()).collect();
        let command = Command { words, answer };
        let queue = self.queue().await?;
        queue.send(command).await.map_err(|_| anyhow!("the connection was lost"))?;
        answered.await.map_err(|_| anyhow!("the connection was lost"))
    }

    /// The connection, made anew if it is gone. Concurrent callers wait for that one.
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
            None => self.login(stream, commands).await?,
            Some((connector, name)) => {
                self.login(connector.connect(name, stream).await?, commands).await?;
            }
        }
        Ok(queue)
    }

    /// Logs in, then serves commands until the connection is lost.
    async fn login(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        commands: mpsc::Receiver<Command>,
    ) -> anyhow::Result<()> {
        let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, ..Limits::default() };
        let mut connection = Connection::new(stream, OUTSTANDING_MAX, &limits);
        if let Some((user, password)) = self.place.address().login() {
            connection.queue(&["AUTH", user, password])?;
            connection.send().await?;
            if let Reply::Error(text) = connection.reply().await? {
                bail!("login refused: {text}");
            }
        }
        tokio::spawn(async move {
            if let Err(error) = serve(connection, commands).await {
                tracing::warn!("connection to the database lost: {error:#}");
            }
        });
        Ok(())
    }
}

/// Sends commands as they come and hands out the replies. Ending drops the senders of all answers,
/// which notifies their receivers.
async fn serve(
    mut connection: Connection<impl AsyncRead + AsyncWrite + Unpin>,
    mut commands: mpsc::Receiver<Command>,
) -> anyhow::Result<()> {
    let mut waiting = VecDeque::new();
    loop {
        tokio::select! {
            command = commands.recv(), if !connection.is_full() => {
                let Some(command) = command else { return Ok(()) };
                let mut next = Some(command);
                while let Some(command) = next {
                    connection.queue(&command.words)?;
                    waiting.push_back(command.answer);
                    next = if connection.is_full() { None } else { commands.try_recv().ok() };
                }
                connection.send().await?;
            }
            reply = connection.reply() => {
                let reply = reply?;
                // A caller that has timed out no longer waits for it.
                waiting.pop_front().map(|answer: oneshot::Sender<Reply>| answer.send(reply));
            }
        }
    }
}
