//! An established connection to an origin, after its TLS handshake.

use std::{io, net, time::Duration};

use rustls::Connection;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use crate::tls;

/// A connection to an origin.
pub struct Reached {
    /// Its stream.
    pub stream: Stream,
    /// The epoch of the origin in which it was made.
    pub epoch: u64,
}

/// What it moves data over.
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// A stream that a task reads from and writes to.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

/// Bytes read at once by [`Stream::exchange`].
const READ_BYTES: usize = 4 << 10;

impl Stream {
    /// Connects to `address` (`host:port`), encrypted with `tls`; each step takes up to `limit`.
    /// The name is resolved each time, so that a server that has moved is found.
    ///
    /// # Errors
    /// The server cannot be reached; as [`tls::Client::secure`].
    pub async fn connect(
        address: &str,
        tls: Option<&tls::Client>,
        limit: Duration,
    ) -> io::Result<Self> {
        let stream = timeout(limit, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        Ok(match tls {
            None => Self::Plain(stream),
            Some(tls) => Self::Encrypted(Box::new(tls.secure(address, stream, limit).await?)),
        })
    }

    /// For a task.
    pub fn into_duplex(self) -> Box<dyn Duplex> {
        match self {
            Self::Plain(stream) => Box::new(stream),
            Self::Encrypted(stream) => stream,
        }
    }

    /// Sends what is `pending` and hands over what is `received`, until `pending` is closed.
    ///
    /// # Errors
    /// The other end has closed, or the connection is lost.
    pub async fn exchange(
        self,
        mut pending: mpsc::UnboundedReceiver<Vec<u8>>,
        received: impl AsyncFn(Vec<u8>),
    ) -> io::Result<()> {
        let mut stream = self.into_duplex();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            tokio::select! {
                output = pending.recv() => match output {
                    Some(bytes) => {
                        stream.write_all(&bytes).await?;
                        stream.flush().await?;
                    }
                    None => return Ok(()),
                },
                read = stream.read(&mut buffer) => match read? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => received(buffer[..count].to_vec()).await,
                },
            }
        }
    }
}

impl Reached {
    /// For a task.
    pub fn into_duplex(self) -> Box<dyn Duplex> {
        self.stream.into_duplex()
    }

    /// For an event loop.
    ///
    /// # Errors
    /// The socket cannot leave its reactor.
    pub fn into_parts(self) -> io::Result<Parts> {
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
pub struct Parts {
    /// Its socket.
    pub socket: net::TcpStream,
    /// The state of its encryption.
    pub tls: Option<Box<Connection>>,
    /// The epoch of the origin in which it was made.
    pub epoch: u64,
}
