//! A stream whose reads are governed, and whose writes pass through.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Says when and how much is read of a stream.
pub trait Reads<S> {
    /// Reads `stream`, as [`AsyncRead::poll_read`].
    ///
    /// # Errors
    /// Those of the stream, or the stream is given up.
    fn poll_read(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;
}

/// A stream that is read as `R` says.
pub struct Governed<S, R> {
    stream: S,
    reads: R,
}

impl<S, R: Reads<S>> Governed<S, R> {
    /// `stream`, read as `reads` says.
    pub fn new(stream: S, reads: R) -> Self {
        Self { stream, reads }
    }
}

impl<S: Unpin, R: Reads<S> + Unpin> AsyncRead for Governed<S, R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, reads } = &mut *self;
        reads.poll_read(stream, context, into)
    }
}

impl<S: AsyncWrite + Unpin, R: Unpin> AsyncWrite for Governed<S, R> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
