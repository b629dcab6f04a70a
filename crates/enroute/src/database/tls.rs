//! Encrypted connections: rustls, driven by the worker's event loop.

use std::{
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

use rustls::{ServerConfig, ServerConnection};
use wire::detect::{self, LOOK_BYTES, Protocol};

use crate::tls;

/// Configuration of all encrypted connections.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    /// Every client has shown a certificate.
    knows_clients: bool,
}

impl Tls {
    /// Encryption with a certificate chain and its key, both PEM; with `authority`, clients must
    /// show a certificate it has signed.
    ///
    /// # Errors
    /// A file that cannot be read or does not hold what it should.
    pub fn new(certificate: &Path, key: &Path, authority: Option<&Path>) -> anyhow::Result<Self> {
        let config = tls::server(certificate, key, authority)?;
        Ok(Self { config: Arc::new(config), knows_clients: authority.is_some() })
    }

    /// Whether it requires a client certificate of an authority.
    pub(super) fn knows_clients(&self) -> bool {
        self.knows_clients
    }

    pub(super) fn connection(&self) -> Result<Box<Session>, rustls::Error> {
        let tls = ServerConnection::new(Arc::clone(&self.config))?;
        Ok(Box::new(Session { tls, first: [0; LOOK_BYTES], seen: 0 }))
    }
}

/// One encrypted connection.
pub(super) struct Session {
    tls: ServerConnection,
    /// First bytes of the client, as far as they are `seen`: it may not speak TLS.
    first: [u8; LOOK_BYTES],
    seen: usize,
}

impl Session {
    /// Reads decrypted data into `buffer`; sends handshake messages.
    ///
    /// # Errors
    /// `WouldBlock` if there is no data; errors of the connection; a [`wire::Error`] in it if the
    /// client speaks another protocol and nothing was sent to it.
    pub(super) fn read(
        &mut self,
        stream: &mut (impl Read + Write),
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let (first, seen) = (&mut self.first, &mut self.seen);
            let count = self.tls.read_tls(&mut Noted { stream, first, seen })?;
            let processed = self.tls.process_new_packets();
            if processed.is_err() {
                let first = self.first.get(..self.seen).unwrap_or_default();
                detect::expect(Protocol::Tls, first).map_err(io::Error::other)?;
            }
            while self.tls.wants_write() {
                match self.tls.write_tls(stream) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    other => other?,
                };
            }
            processed.map_err(io::Error::other)?;
            if count == 0 {
                return Ok(0);
            }
        }
    }

    /// Writes as much of `bytes` as the socket accepts.
    ///
    /// # Errors
    /// `WouldBlock` if the socket accepts nothing; errors of the connection.
    pub(super) fn write(&mut self, stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        loop {
            while self.tls.wants_write() {
                self.tls.write_tls(stream)?;
            }
            let count = self.tls.writer().write(bytes)?;
            if count > 0 || bytes.is_empty() {
                while self.tls.wants_write() {
                    match self.tls.write_tls(stream) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        other => other?,
                    };
                }
                return Ok(count);
            }
        }
    }

    /// Whether TLS has data of its own to send.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }
}

/// A stream whose first bytes are recorded.
struct Noted<'a, S> {
    stream: &'a mut S,
    first: &'a mut [u8; LOOK_BYTES],
    seen: &'a mut usize,
}

impl<S: Read> Read for Noted<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        let room = self.first.get_mut(*self.seen..).unwrap_or_default();
        let noted = room.len().min(count);
        room[..noted].copy_from_slice(&buffer[..noted]);
        *self.seen += noted;
        Ok(count)
    }
}
