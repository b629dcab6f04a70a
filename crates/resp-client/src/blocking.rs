//! A connection used by one thread, which waits for its replies.

use std::{
    io::{self, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use rustix::{buffer::spare_capacity, io::Errno};
use wire::resp::{Limits, Pipeline, Reply};

use super::READ_BYTES;

/// Commands sent before their replies are read.
const OUTSTANDING_MAX: usize = 512;

/// After an error it must not be used again, as a reply may still arrive.
pub struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    pipeline: Pipeline,
    /// Longest wait for the replies to one exchange.
    limit: Duration,
}

impl Connection {
    /// Connects. The server may take `limit` to accept, and as long to answer each exchange.
    pub fn open(address: SocketAddr, limit: Duration, limits: &Limits) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        Ok(Self { address, stream, pipeline: Pipeline::new(OUTSTANDING_MAX, limits), limit })
    }

    /// Where the server is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the server has not closed it, as far as is known here.
    pub fn is_open(&self) -> bool {
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let waits = matches!(&peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        let blocks_again = self.stream.set_nonblocking(false).is_ok();
        blocks_again && (waits || peeked.is_ok_and(|bytes| bytes > 0))
    }

    /// Sends one command. An error reply is an error.
    pub fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> anyhow::Result<Reply> {
        let shown = String::from_utf8_lossy(words.first().map_or(b"", AsRef::as_ref)).into_owned();
        self.pipeline.command(words)?;
        match self.exchange()?.pop() {
            Some(Reply::Error(error)) => bail!("{} refuses {shown}: {error}", self.address),
            Some(reply) => Ok(reply),
            None => bail!("{} does not reply to {shown}", self.address),
        }
    }

    /// Sends many commands. Returns the replies in their order, errors among them.
    pub fn ask_all<Word: AsRef<[u8]>>(
        &mut self,
        commands: &[impl AsRef<[Word]>],
    ) -> anyhow::Result<Vec<Reply>> {
        let mut replies = Vec::with_capacity(commands.len());
        for some in commands.chunks(OUTSTANDING_MAX) {
            for command in some {
                self.pipeline.command(command.as_ref())?;
            }
            replies.append(&mut self.exchange()?);
        }
        Ok(replies)
    }

    /// The next message on a channel that was subscribed to; no further command may be sent. It may
    /// be called again after `limit` has elapsed without a message.
    pub fn hear(&mut self, limit: Duration) -> anyhow::Result<Reply> {
        self.stream.set_read_timeout(Some(limit))?;
        let until = Instant::now() + self.limit;
        loop {
            match self.pipeline.message().with_context(|| self.silent())? {
                Some(message) => return Ok(message),
                None => self.read(until)?,
            }
        }
    }

    /// Sends what was encoded and waits for all replies.
    fn exchange(&mut self) -> anyhow::Result<Vec<Reply>> {
        let output = self.pipeline.take_output();
        self.stream.write_all(&output).with_context(|| self.silent())?;
        let until = Instant::now() + self.limit;
        let mut replies = Vec::with_capacity(self.pipeline.outstanding());
        while self.pipeline.outstanding() > 0 {
            match self.pipeline.reply().with_context(|| self.silent())? {
                Some(reply) => replies.push(reply),
                None => self.read(until)?,
            }
        }
        Ok(replies)
    }

    fn read(&mut self, until: Instant) -> anyhow::Result<()> {
        if Instant::now() > until {
            return Err(anyhow!("no reply within {:?}", self.limit).context(self.silent()));
        }
        match rustix::io::read(&self.stream, spare_capacity(self.pipeline.room(READ_BYTES))) {
            Ok(0) => Err(anyhow!("the node closed the connection").context(self.silent())),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(anyhow!(error).context(self.silent())),
        }
    }

    fn silent(&self) -> String {
        format!("the node {} does not reply", self.address)
    }
}
