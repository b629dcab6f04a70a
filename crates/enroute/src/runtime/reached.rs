//! An established connection to an origin, after its TLS handshake.

use std::{io, net};

use rustls::Connection;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// A connection to an origin.
pub(super) struct Reached {
    pub(super) stream: Stream,
    /// The epoch of the origin in which it was made.
    pub(super) epoch: u64,
}

/// What it moves data over.
pub(super) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// A stream that a task reads from and writes to.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

impl Reached {
    /// For a task.
    pub(super) fn into_duplex(self) -> Box<dyn Duplex> {
        match self.stream {
            Stream::Plain(stream) => Box::new(stream),
            Stream::Encrypted(stream) => stream,
        }
    }

    /// For an event loop.
    pub(super) fn into_parts(self) -> io::Result<Parts> {
        let epoch = self.epoch;
        Ok(match self.stream {
            Stream::Plain(stream) => Parts { socket: stream.into_std()?, tls: None, epoch },
            Stream::Encrypted(stream) => {
                let (stream, tls) = stream.into_inner();
                Parts { socket: stream.into_std()?, tls: Some(Box::new(tls.into())), epoch }
            }
        })
    }
}

/// A connection for an event loop.
pub(super) struct Parts {
    pub(super) socket: net::TcpStream,
    /// The state of its encryption.
    pub(super) tls: Option<Box<Connection>>,
    /// The epoch of the origin in which it was made.
    pub(super) epoch: u64,
}
