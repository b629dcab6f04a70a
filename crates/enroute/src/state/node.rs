//! A connection to one node for what is rare: one command after another, each with a limit.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use state::agent::Login;
use wire::resp::{Frame, Kind, Limits, frame, request};

/// How long a node may take to be connected to, and to answer.
pub(super) const LIMIT: Duration = Duration::from_secs(2);
/// Commands said before their answers are read.
pub(super) const PIPELINE_MAX: usize = 512;

/// What a node answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Text(Vec<u8>),
    Integer(i64),
    Null,
    List(Vec<Reply>),
    Error(String),
}

impl Reply {
    fn of(frame: &Frame<'_>) -> Self {
        if frame.is_null() {
            return Self::Null;
        }
        if let Some(error) = frame.error() {
            return Self::Error(String::from_utf8_lossy(error).into_owned());
        }
        match frame.kind() {
            Kind::Integer => frame.integer().map_or(Self::Null, Self::Integer),
            kind if kind.is_aggregate() => {
                Self::List(frame.elements().map(|element| Self::of(&element)).collect())
            }
            _ => Self::Text(frame.payload().or(frame.line()).unwrap_or_default().to_vec()),
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }
}

/// The connection. After an error it must not be used again: an answer may still come.
pub(super) struct Node {
    address: SocketAddr,
    stream: TcpStream,
    /// What came behind the last answer.
    input: Vec<u8>,
}

impl Node {
    pub(super) fn connect(address: SocketAddr, login: Option<&Login>) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, LIMIT)
            .and_then(|stream| {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                Ok(stream)
            })
            .with_context(|| format!("cannot connect to the node {address}"))?;
        let mut node = Self { address, stream, input: Vec::new() };
        if let Some(Login { user, password }) = login {
            node.ask(&[b"AUTH", &user[..], &password[..]])
                .context("login failed: check --user and --password-file")?;
        }
        Ok(node)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the node has not closed it, as far as is known here.
    pub(super) fn is_open(&self) -> bool {
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let waits = matches!(&peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        let blocks_again = self.stream.set_nonblocking(false).is_ok();
        blocks_again && (waits || peeked.is_ok_and(|bytes| bytes > 0))
    }

    /// Says one command; an error the node answers with is an error.
    pub(super) fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> anyhow::Result<Reply> {
        let shown = String::from_utf8_lossy(words.first().map_or(b"", AsRef::as_ref)).into_owned();
        let mut command = Vec::new();
        request::write_command(&mut command, words);
        match self.exchange(&command, 1)?.pop() {
            Some(Reply::Error(error)) => bail!("{} refuses {shown}: {error}", self.address),
            Some(reply) => Ok(reply),
            None => bail!("{} does not reply to {shown}", self.address),
        }
    }

    /// Says many commands; the answers, errors among them, in their order.
    pub(super) fn ask_all(
        &mut self,
        commands: &[Vec<impl AsRef<[u8]>>],
    ) -> anyhow::Result<Vec<Reply>> {
        let mut replies = Vec::with_capacity(commands.len());
        for some in commands.chunks(PIPELINE_MAX) {
            let mut bytes = Vec::new();
            for command in some {
                request::write_command(&mut bytes, command);
            }
            replies.append(&mut self.exchange(&bytes, some.len())?);
        }
        Ok(replies)
    }

    /// What is published next on a channel that was subscribed to; nothing else may be said any more, but it may be
    /// asked for again after an error.
    pub(super) fn hear(&mut self, limit: Duration) -> anyhow::Result<Reply> {
        self.stream.set_read_timeout(Some(limit))?;
        self.exchange(&[], 1)?.pop().context("expected a message, got none")
    }

    fn exchange(&mut self, commands: &[u8], count: usize) -> anyhow::Result<Vec<Reply>> {
        let lost = || format!("the node {} does not reply", self.address);
        self.stream.write_all(commands).with_context(lost)?;
        let until = Instant::now() + LIMIT;
        let mut replies = Vec::with_capacity(count);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let mut taken = 0;
            while replies.len() < count
                && let Some((frame, bytes)) =
                    frame::decode(self.input.get(taken..).unwrap_or_default(), &Limits::default())
                        .with_context(lost)?
            {
                replies.push(Reply::of(&frame));
                taken += bytes;
            }
            self.input.drain(..taken);
            if replies.len() == count {
                return Ok(replies);
            }
            if Instant::now() > until {
                return Err(anyhow!("no reply within {LIMIT:?}").context(lost()));
            }
            let got = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(anyhow!("the node closed the connection").context(lost())),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(anyhow!(error).context(lost())),
            };
            self.input.extend_from_slice(buffer.get(..got).unwrap_or_default());
        }
    }
}
