//! A connection that never blocks.

use std::{
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

use crate::{Possible, Reactor};

/// A connection that never blocks, and what is possible with it.
///
/// It calls the system without libc, whose functions let a thread be cancelled while they wait: two
/// more atomic operations for each, 2 % of a hit, for threads that never wait here.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    readable: bool,
    writable: bool,
    ended: bool,
    broken: bool,
}

impl Socket {
    /// Watches `stream` under `token`.
    ///
    /// # Errors
    /// The socket cannot be set up.
    pub fn new(stream: TcpStream, reactor: &Reactor, token: u64) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // A socket pair of this process has no such option, and delays nothing.
        stream.set_nodelay(true).or_else(|error| match error.kind() {
            io::ErrorKind::Unsupported => Ok(()),
            _ => Err(error),
        })?;
        reactor.watch(&stream, token)?;
        // Bytes received before the registration are reported as new.
        Ok(Self { stream, readable: false, writable: true, ended: false, broken: false })
    }

    /// Remembers what became possible.
    #[inline]
    pub const fn notice(&mut self, possible: Possible) {
        self.readable |= possible.read;
        self.writable |= possible.write;
        self.ended |= possible.end;
        self.broken |= possible.broken;
    }

    /// Whether data may be readable.
    #[inline]
    pub const fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether the socket may accept data.
    #[inline]
    pub const fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether the connection was reset, or closed by both ends. Nothing can be written then.
    #[inline]
    pub const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Reads what is there; 0 bytes are the end, `None` is nothing yet.
    ///
    /// # Errors
    /// The connection is lost.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        while self.readable {
            match recv(&self.stream, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) => {
                    // A short read has taken all data; but an end of stream is reported only once.
                    self.readable = count == buffer.len() || self.ended;
                    return Ok(Some(count));
                }
                Err(Errno::AGAIN) => self.readable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Writes as much as the socket accepts; 0 bytes until it is writable again.
    ///
    /// # Errors
    /// The connection is lost.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_by(|stream| Ok(send(&*stream, bytes, SendFlags::NOSIGNAL)?))
    }

    #[inline]
    fn write_by(
        &mut self,
        mut write: impl FnMut(&mut TcpStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        while self.writable {
            match write(&mut self.stream) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.writable = false;
                    return Err(error);
                }
            }
        }
        Ok(0)
    }

    /// The address of this end.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// The error of connecting.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.stream.take_error()
    }

    /// Shuts down both directions; errors are ignored.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Shuts down the write side.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn end(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }
}

/// For libraries that read and write by themselves, such as TLS: nothing yet is `WouldBlock`.
impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Self::read(self, buffer)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

/// As for reading. What is written is never empty.
impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        some(Self::write(self, bytes)?)
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        some(self.write_by(|stream| stream.write_vectored(bytes))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn some(count: usize) -> io::Result<usize> {
    if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
}
