//! A connection used by one task.

use anyhow::ensure;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::resp::{Limits, Pipeline, Reply};

use super::READ_BYTES;

/// After an error it must not be used again, as a reply may still arrive.
pub struct Connection<S> {
    stream: S,
    pipeline: Pipeline,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Of up to `outstanding_max` commands that are not answered yet.
    pub fn new(stream: S, outstanding_max: usize, limits: &Limits) -> Self {
        Self { stream, pipeline: Pipeline::new(outstanding_max, limits) }
    }

    /// Whether no further command may be queued before a reply has come.
    pub fn is_full(&self) -> bool {
        self.pipeline.is_full()
    }

    /// Queues one command.
    ///
    /// # Errors
    /// [`is_full`](Self::is_full).
    pub fn queue(&mut self, words: &[impl AsRef<[u8]>]) -> wire::Result<()> {
        self.pipeline.command(words)
    }

    /// Sends what is queued.
    pub async fn send(&mut self) -> anyhow::Result<()> {
        let output = self.pipeline.take_output();
        self.stream.write_all(&output).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// The reply to the oldest command that was sent. It may be dropped before it completes:
    /// nothing is lost. With no command sent it waits for the end of the connection.
    pub async fn reply(&mut self) -> anyhow::Result<Reply> {
        loop {
            if let Some(reply) = self.pipeline.reply()? {
                return Ok(reply);
            }
            let read = self.stream.read_buf(self.pipeline.room(READ_BYTES)).await?;
            ensure!(read > 0, "the database closed the connection");
        }
    }
}
