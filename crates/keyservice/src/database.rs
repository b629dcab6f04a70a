//! The database with the sealed keys, over RESP: one pipelined connection, made when it is needed
//! and again when it broke or a reply was late.

mod place;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{Mutex, mpsc, oneshot},
    task::AbortHandle,
    time::{Instant, timeout_at},
};
use wire::resp::{Limits, Reply};

use resp_client::asynchronous::Connection;

pub use place::Place;

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

/// A connection, served by its own task.
struct Link {
    queue: mpsc::Sender<Command>,
    task: AbortHandle,
    /// A reply was late: the peer may have vanished without a reset.
    given_up: AtomicBool,
}

impl Link {
    fn is_usable(&self) -> bool {
        !self.queue.is_closed() && !self.given_up.load(Relaxed)
    }

    /// Closes the connection. Requests under way fail; no later one uses it.
    fn give_up(&self) {
        self.given_up.store(true, Relaxed);
        self.task.abort();
    }

    async fn exchange(&self, words: Vec<Vec<u8>>) -> anyhow::Result<Reply> {
        let (answer, answered) = oneshot::channel();
        let command = Command { words, answer };
        self.queue.send(command).await.map_err(|_| anyhow!("the connection was lost"))?;
        answered.await.map_err(|_| anyhow!("the connection was lost"))
    }
}

/// A connection to the database, for tasks of one runtime.
pub struct Database {
    place: Place,
    link: Mutex<Option<Arc<Link>>>,
}

impl Database {
    /// Connects when first asked.
    pub fn new(place: Place) -> Self {
        Self { place, link: Mutex::new(None) }
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

    /// Sends one command and waits for its answer, which may be an error reply. If no reply comes
    /// in time, the connection is closed: the next request makes another.
    pub async fn reply(&self, arguments: &[&[u8]]) -> anyhow::Result<Reply> {
        self.exchange(arguments)
            .await
            .with_context(|| format!("the database at {}", self.place.address()))
    }

    async fn exchange(&self, arguments: &[&[u8]]) -> anyhow::Result<Reply> {
        let deadline = Instant::now() + PATIENCE;
        let late = |_| anyhow!("no reply within {PATIENCE:?}");
        let words = arguments.iter().map(|argument| argument.to_vec()).collect();
        let link = timeout_at(deadline, self.link()).await.map_err(late)??;
        let exchanged = timeout_at(deadline, link.exchange(words)).await;
        exchanged.inspect_err(|_| link.give_up()).map_err(late)?
    }

    /// Returns the connection, and connects again if it is lost. Requests that arrive while
    /// connecting wait for it.
    async fn link(&self) -> anyhow::Result<Arc<Link>> {
        let mut kept = self.link.lock().await;
        if let Some(link) = kept.as_ref().filter(|link| link.is_usable()) {
            return Ok(link.clone());
        }
        let link = Arc::new(self.connect().await?);
        *kept = Some(link.clone());
        Ok(link)
    }

    async fn connect(&self) -> anyhow::Result<Link> {
        let stream = TcpStream::connect(self.place.address().host()).await?;
        stream.set_nodelay(true)?;
        let (queue, commands) = mpsc::channel(OUTSTANDING_MAX);
        let task = match self.place.tls() {
            None => self.login(stream, commands).await?,
            Some((connector, name)) => {
                self.login(connector.connect(name, stream).await?, commands).await?
            }
        };
        Ok(Link { queue, task, given_up: AtomicBool::new(false) })
    }

    /// Logs in, then serves commands until the connection is lost.
    async fn login(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        commands: mpsc::Receiver<Command>,
    ) -> anyhow::Result<AbortHandle> {
        let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, ..Limits::default() };
        let mut connection = Connection::new(stream, OUTSTANDING_MAX, &limits);
        if let Some((user, password)) = self.place.address().login() {
            connection.queue(&["AUTH", user, password])?;
            connection.send().await?;
            if let Reply::Error(text) = connection.reply().await? {
                bail!("login refused: {text}");
            }
        }
        let address = self.place.address().to_string();
        let task = tokio::spawn(async move {
            if let Err(error) = serve(connection, commands).await {
                tracing::warn!("connection to the database at {address} lost: {error:#}");
            }
        });
        Ok(task.abort_handle())
    }
}

/// Sends commands as they come and hands out the replies. Ending drops the senders of all answers,
/// which tells their receivers.
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
                // A caller that was cancelled no longer waits for it.
                waiting.pop_front().map(|answer: oneshot::Sender<Reply>| answer.send(reply));
            }
        }
    }
}
