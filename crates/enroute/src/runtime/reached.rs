//! An established connection to an origin, after its TLS handshake.

use std::{io, net};

use rustls::Connection;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// A connection to an origin.
pub(super) enum Reached {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// A stream that a task reads from and writes to.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

impl Reached {
    /// For a task.
    pub(super) fn into_duplex(self) -> Box<dyn Duplex> {
        match self {
            Self::Plain(stream) => Box::new(stream),
            Self::Encrypted(stream) => stream,
        }
    }

    /// For an event loop.
    pub(super) fn into_parts(self) -> io::Result<Parts> {
        Ok(match self {
            Self::Plain(stream) => (stream.into_std()?, None),
            Self::Encrypted(stream) => {
                let (stream, tls) = stream.into_inner();
                (stream.into_std()?, Some(Box::new(tls.into())))
            }
        })
    }
}

/// A socket, and the state of its encryption.
pub(super) type Parts = (net::TcpStream, Option<Box<Connection>>);
