//! A connection that never blocks, encrypted or not.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
};

use rustls::{Connection, IoState};

use crate::{Possible, Socket};

/// First bytes of a peer that are kept, to tell what it speaks if it is not TLS.
pub const FIRST_BYTES: usize = 16;
/// Maximum bytes that a peer sends before the handshake is complete; certificate chains of clients
/// are the longest part.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// More than the longest record, encrypted or not (RFC 8446 §5.2, RFC 5246 §6.2.3).
const RECORD_BYTES: usize = 19 << 10;
/// Encrypted bytes given to rustls at once: as many as can be incomplete and are not counted.
const PART_BYTES: usize = 4 << 10;
/// A caller's buffer of at least this length has room for encrypted and decrypted data; with a
/// shorter one, rustls reads 4 KiB at a time from the socket.
const SHARED_BYTES_MIN: usize = 2 * RECORD_BYTES;
/// Maximum number of reads from the socket for one call that finds no data for its caller.
const READS_MAX: usize = 8;
/// Encrypted bytes that wait for the socket; rustls accepts no more.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// A [`Socket`], with TLS or without.
#[derive(Debug)]
pub struct Channel {
    socket: Socket,
    tls: Option<Box<Encrypted>>,
}

/// The state of TLS on one connection.
#[derive(Debug)]
struct Encrypted {
    tls: Connection,
    first: [u8; FIRST_BYTES],
    /// Bytes received: of the handshake before it is complete, then also decrypted ones.
    received: usize,
    /// Bytes received since data could be decrypted: those of an incomplete record.
    incomplete: usize,
    /// There may be data that is decrypted, or read and not processed, and that epoll does not
    /// report.
    pending: bool,
}

impl From<Socket> for Channel {
    fn from(socket: Socket) -> Self {
        Self { socket, tls: None }
    }
}

impl Channel {
    /// `socket`, with the TLS connection `tls` over it if there is one.
    pub fn new(socket: Socket, tls: Option<Connection>) -> Self {
        let tls = tls.map(|tls| {
            // A handshake that was completed elsewhere may have read ahead.
            let pending = !tls.is_handshaking();
            Box::new(Encrypted {
                tls,
                first: [0; FIRST_BYTES],
                received: 0,
                incomplete: 0,
                pending,
            })
        });
        Self { socket, tls }
    }

    /// Remembers what became possible.
    #[inline]
    pub const fn notice(&mut self, possible: Possible) {
        self.socket.notice(possible);
    }

    /// Whether data may be readable.
    #[inline]
    pub fn is_readable(&self) -> bool {
        self.socket.is_readable() || self.tls.as_ref().is_some_and(|tls| tls.pending)
    }

    /// Whether it may accept data: not before the end of the handshake.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.socket.is_writable() && !self.is_handshaking()
    }

    /// Whether the connection was reset, or closed by both ends. Nothing can be written then.
    #[inline]
    pub const fn is_broken(&self) -> bool {
        self.socket.is_broken()
    }

    /// Whether TLS is used.
    #[inline]
    pub const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether the handshake of TLS is not complete.
    #[inline]
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.tls.is_handshaking())
    }

    /// Whether encrypted bytes wait for the socket.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.tls.wants_write())
    }

    /// Whether [`flush`](Self::flush) can send something now.
    #[inline]
    pub fn can_flush(&self) -> bool {
        self.has_unsent() && self.socket.is_writable()
    }

    /// Bytes that TLS keeps for its peer, at most: of an incomplete handshake or record, and
    /// encrypted ones that wait for the socket.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.held_bytes())
    }

    /// Reads what is there; 0 bytes are the end, `None` is nothing yet.
    ///
    /// # Errors
    /// The connection is lost, or violates TLS. If its [`first`](Self::first) bytes are not TLS,
    /// nothing was sent to it.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match &mut self.tls {
            None => self.socket.read(buffer),
            Some(tls) => tls.read(&mut self.socket, buffer),
        }
    }

    /// Writes as much as the socket accepts; 0 bytes until it is writable again.
    ///
    /// # Errors
    /// The connection is lost.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write(bytes),
            Some(tls) => tls.write(&mut self.socket, bytes),
        }
    }

    /// Sends waiting encrypted bytes, as many as the socket accepts.
    ///
    /// # Errors
    /// The connection is lost.
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.flush(&mut self.socket))
    }

    /// The first bytes of a peer whose handshake is not complete, for a reply in its own protocol.
    pub fn first(&self) -> Option<&[u8]> {
        let tls = self.tls.as_ref().filter(|tls| tls.tls.is_handshaking())?;
        tls.first.get(..tls.received.min(FIRST_BYTES))
    }

    /// Continues without encryption: the peer does not speak TLS.
    pub fn give_up_tls(&mut self) {
        self.tls = None;
    }

    /// Whether an encrypted connection, its handshake complete elsewhere, has brought no data yet.
    pub fn is_unheard(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.received == 0)
    }

    /// The address of this end.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends the `close_notify` of TLS, if the socket accepts it now.
    pub fn finish(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.tls.send_close_notify();
            // The connection may be lost already.
            let _ = tls.flush(&mut self.socket);
        }
    }

    /// Shuts down both directions; errors are ignored.
    pub fn close(&mut self) {
        self.finish();
        self.socket.close();
    }

    /// Shuts down the write side.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn end(&mut self) -> io::Result<()> {
        self.finish();
        self.socket.end()
    }
}

impl Encrypted {
    fn held_bytes(&self) -> usize {
        let unsent = if self.tls.wants_write() { UNSENT_BYTES_MAX } else { 0 };
        if self.tls.is_handshaking() { self.received.max(unsent) } else { self.incomplete + unsent }
    }

    fn read(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        for _ in 0..READS_MAX {
            match self.tls.reader().read(buffer) {
                Ok(count) => {
                    self.pending = count == buffer.len() || count == 0;
                    self.received = self.received.saturating_add(count);
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.pending = false,
                Err(error) => return Err(error),
            }
            if buffer.len() >= SHARED_BYTES_MIN && !self.tls.is_handshaking() {
                // Encrypted data take the end of the buffer. What they decrypt to fits in its
                // beginning, which is longer by a record that was incomplete.
                let (data, encrypted) = buffer.split_at_mut((buffer.len() + RECORD_BYTES) / 2);
                match socket.read(encrypted)? {
                    Some(count @ 1..) => match self.decrypt(&encrypted[..count], data, socket)? {
                        0 => continue,
                        count => return Ok(Some(count)),
                    },
                    // The peer need not announce the end: requests and replies show where they end.
                    nothing => return Ok(nothing),
                }
            }
            match self.receive(socket) {
                Ok(0) => return Ok(Some(0)),
                Ok(_) => self.pending = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Decrypts `encrypted` into `data`; returns how much that was.
    fn decrypt(
        &mut self,
        mut encrypted: &[u8],
        data: &mut [u8],
        socket: &mut Socket,
    ) -> io::Result<usize> {
        let mut end = 0;
        while !encrypted.is_empty() {
            let taken = self.tls.read_tls(&mut &encrypted[..encrypted.len().min(PART_BYTES)])?;
            if taken == 0 {
                // The peer has announced the end.
                break;
            }
            encrypted = &encrypted[taken..];
            self.pending = self.process(socket)?.peer_has_closed();
            self.incomplete = (self.incomplete + taken).min(RECORD_BYTES);
            while let Ok(count @ 1..) = self.tls.reader().read(&mut data[end..]) {
                end += count;
                self.incomplete = 0;
            }
        }
        self.flush(socket)?;
        self.received = self.received.saturating_add(end);
        Ok(end)
    }

    /// Processes encrypted data. The peer is told if it violates TLS, but not if it speaks another
    /// protocol.
    fn process(&mut self, socket: &mut Socket) -> io::Result<IoState> {
        let speaks_tls = !self.tls.is_handshaking() || self.first[0] == HANDSHAKE;
        self.tls.process_new_packets().map_err(|error| {
            if speaks_tls {
                // The alert.
                let _ = self.flush(socket);
            }
            io::Error::new(io::ErrorKind::InvalidData, error)
        })
    }

    /// Reads once from the socket, and sends what the handshake requires.
    fn receive(&mut self, socket: &mut Socket) -> io::Result<usize> {
        let shakes = self.tls.is_handshaking();
        let count = if shakes {
            let (first, received) = (&mut self.first, &mut self.received);
            self.tls.read_tls(&mut Noted { socket, first, received })?
        } else {
            self.tls.read_tls(socket)?
        };
        self.process(socket)?;
        self.flush(socket)?;
        if shakes && self.tls.is_handshaking() && self.received > HANDSHAKE_BYTES_MAX {
            let message = format!("handshake longer than {HANDSHAKE_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(count)
    }

    fn write(&mut self, socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        if self.tls.wants_write() || self.tls.is_handshaking() {
            return Ok(0);
        }
        let count = self.tls.writer().write(bytes)?;
        self.flush(socket)?;
        Ok(count)
    }

    fn flush(&mut self, socket: &mut Socket) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                written => written?,
            };
        }
        Ok(())
    }
}

/// Type of a record that is part of a handshake.
const HANDSHAKE: u8 = 0x16;

/// A socket whose first bytes are kept, and all counted.
struct Noted<'a> {
    socket: &'a mut Socket,
    first: &'a mut [u8; FIRST_BYTES],
    received: &'a mut usize,
}

impl Read for Noted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = Read::read(self.socket, buffer)?;
        let room = self.first.get_mut(*self.received..).unwrap_or_default();
        room.iter_mut().zip(&buffer[..count]).for_each(|(to, from)| *to = *from);
        *self.received += count;
        Ok(count)
    }
}
