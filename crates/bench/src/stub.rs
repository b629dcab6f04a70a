//! Servers that do almost nothing, as lower bounds; each runs as a separate process.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    thread,
};

use clap::Subcommand;
use rustix::event::epoll;

use crate::resp::{GET_BYTES, KEY_BYTES, write_value};

mod tls;

/// The server to run.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Kind {
    /// Echo server: one reply of the size of a GET reply with 64 bytes for each GET's worth of
    /// bytes read
    Echo,
    /// Lower bound: a Redis server that answers every GET with 64 bytes, every PTTL with "no
    /// expiry", every question for rights with all rights and every INFO with the same identity,
    /// from one epoll loop
    Origin,
    /// Lower bound: a relay that forwards one request and one reply at a time, and stores nothing
    Relay {
        /// Address of the server
        to: SocketAddr,
    },
    /// Lower bound: a MongoDB relay that answers a repeated `find` from memory; incorrect after any
    /// write
    Recorder {
        /// Address of the MongoDB server
        origin: SocketAddr,
    },
    /// Echo server with TLS: rustls on one thread
    TlsEcho {
        /// Certificate and chain, PEM
        certificate: PathBuf,
        /// Private key of the certificate, PEM
        key: PathBuf,
    },
}

/// Bytes of the values they answer.
pub(crate) const VALUE_BYTES: usize = 64;

/// Serves until killed; all but [`Kind::Origin`] and [`Kind::TlsEcho`] with one blocking thread for
/// each connection.
pub(crate) fn serve(kind: &Kind) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    eprintln!("listening on {}", listener.local_addr()?);
    match kind {
        Kind::Origin => return answer_all(&listener),
        Kind::TlsEcho { certificate, key } => return tls::serve(listener, certificate, key),
        Kind::Echo | Kind::Relay { .. } | Kind::Recorder { .. } => {}
    }
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        let kind = kind.clone();
        thread::spawn(move || {
            // A client that disconnects ends its thread; errors are ignored.
            let _ = match kind {
                Kind::Echo => echo(stream),
                Kind::Origin | Kind::TlsEcho { .. } => Ok(()),
                Kind::Relay { to } => relay(stream, to),
                Kind::Recorder { origin } => record(stream, origin),
            };
        });
    }
    Ok(())
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut request = [0; GET_BYTES];
    let mut reply = Vec::new();
    write_value(&[b'0'; KEY_BYTES], VALUE_BYTES, &mut reply);
    loop {
        let mut read = 0;
        while read < GET_BYTES {
            read += match stream.read(&mut request[read..])? {
                0 => return Ok(()),
                count => count,
            };
        }
        // The start of a value is its key, so that the client can check this reply as any other.
        reply[5..5 + KEY_BYTES].copy_from_slice(&request[GET_BYTES - 2 - KEY_BYTES..GET_BYTES - 2]);
        stream.write_all(&reply)?;
    }
}

fn relay(mut client: TcpStream, to: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(to)?;
    server.set_nodelay(true)?;
    let mut buffer = vec![0; 64 << 10];
    let mut pass = |from: &mut TcpStream, to: &mut TcpStream| match from.read(&mut buffer)? {
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        count => to.write_all(&buffer[..count]),
    };
    loop {
        pass(&mut client, &mut server)?;
        pass(&mut server, &mut client)?;
    }
}

/// Events taken at once.
const EVENTS_MAX: usize = 256;
/// No event has a connection's number before all of these.
const LISTENER: u64 = u64::MAX;

fn answer_all(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: HashMap<u64, Answering> = HashMap::new();
    let mut received = vec![0; 256 << 10];
    let mut replies = Vec::with_capacity(received.len() * 2);
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut number = 0;
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            if event.data.u64() == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let data = epoll::EventData::new_u64(number);
                epoll::add(&poll, &stream, data, epoll::EventFlags::IN)?;
                connections.insert(number, Answering { stream, rest: Vec::new() });
                number += 1;
                continue;
            }
            let at = event.data.u64();
            let Some(connection) = connections.get_mut(&at) else { continue };
            // A client that disconnects, or does not read, loses its connection; errors are
            // ignored.
            if connection.answer(&mut received, &mut replies).is_err() {
                connections.remove(&at);
            }
        }
    }
}

/// One connection of [`answer_all`].
struct Answering {
    stream: TcpStream,
    /// The start of a request whose end has not come.
    rest: Vec<u8>,
}

/// The command that a cache sends once on each connection, and again when its authorization lease
/// expires.
const CHECK: &[u8] = b"*3\r\n$3\r\nACL\r\n$7\r\nGETUSER\r\n$7\r\ndefault\r\n";
/// The first of the two commands by which a cache asks whether the server is still the same; the
/// second names the section `replication`.
const INFO: &[u8] = b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n";
const INFO_REPLICATION: &[u8] = b"*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";
/// A reply that states the process.
const PROCESS: &[u8] = b"$10\r\nrun_id:1\r\n\r\n";
/// A reply that states all rights.
const RIGHTS: &[u8] = b"*6\r\n$5\r\nflags\r\n*1\r\n$2\r\non\r\n$8\r\ncommands\r\n$5\r\n+@all\r\n\
    $4\r\nkeys\r\n$2\r\n~*\r\n";

/// Bytes of the first request and its reply, `None` for the value of a GET; `None` while it is
/// incomplete.
fn request(received: &[u8]) -> Option<(usize, Option<&'static [u8]>)> {
    // First letter of the command, behind `*2\r\n$4\r\n`.
    let (bytes, reply) = match received.get(8)? {
        b'G' => (GET_BYTES, None),
        b'P' => (GET_BYTES + 1, Some(&b":-1\r\n"[..])),
        b'A' => (CHECK.len(), Some(RIGHTS)),
        // `$6` or `$11`.
        _ if *received.get(INFO_LENGTH_AT)? == b'6' => (INFO.len(), Some(PROCESS)),
        _ => (INFO_REPLICATION.len(), Some(&b"$0\r\n\r\n"[..])),
    };
    (received.len() >= bytes).then_some((bytes, reply))
}

/// First digit of the length of INFO's section.
const INFO_LENGTH_AT: usize = 15;

impl Answering {
    /// Answers all complete requests that have come.
    fn answer(&mut self, received: &mut [u8], replies: &mut Vec<u8>) -> io::Result<()> {
        let waiting = self.rest.len();
        received[..waiting].copy_from_slice(&self.rest);
        let length = match self.stream.read(&mut received[waiting..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => waiting + count,
        };
        let mut taken = 0;
        replies.clear();
        while let Some((bytes, reply)) = request(&received[taken..length]) {
            match reply {
                Some(fixed) => replies.extend_from_slice(fixed),
                None => {
                    let start = taken + bytes - 2 - KEY_BYTES;
                    let key = received[start..start + KEY_BYTES].try_into().expect("its length");
                    write_value(key, VALUE_BYTES, replies);
                }
            }
            taken += bytes;
        }
        self.rest.clear();
        self.rest.extend_from_slice(&received[taken..length]);
        self.stream.write_all(replies)
    }
}

fn record(mut client: TcpStream, origin: SocketAddr) -> io::Result<()> {
    let mut origin = TcpStream::connect(origin)?;
    origin.set_nodelay(true)?;
    let mut replies: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    loop {
        receive_message(&mut client, &mut request)?;
        let (header, body) = request.split_at(MESSAGE_HEADER_BYTES);
        if let Some(known) = replies.get_mut(body) {
            // `responseTo` is the request's `requestID`; the rest of the reply stays as it was.
            known[8..12].copy_from_slice(&header[4..8]);
            client.write_all(known)?;
            continue;
        }
        origin.write_all(&request)?;
        receive_message(&mut origin, &mut reply)?;
        client.write_all(&reply)?;
        if body.windows(5).any(|bytes| bytes == b"find\0") {
            replies.insert(body.to_vec(), reply.clone());
        }
    }
}

const MESSAGE_HEADER_BYTES: usize = 16;

/// One whole MongoDB message, with one read if it comes in one piece.
fn receive_message(stream: &mut TcpStream, message: &mut Vec<u8>) -> io::Result<()> {
    message.resize(64 << 10, 0);
    let mut length = 0;
    loop {
        match stream.read(&mut message[length..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => length += count,
        }
        if length < MESSAGE_HEADER_BYTES {
            continue;
        }
        let whole = u32::from_le_bytes(message[..4].try_into().expect("four bytes")) as usize;
        if length >= whole {
            message.truncate(whole);
            return Ok(());
        }
        message.resize(whole.max(message.len()), 0);
    }
}

const _: () = assert!(VALUE_BYTES.is_multiple_of(KEY_BYTES));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Beginning, Protocol};

    #[test]
    fn lengths_agree() {
        let mut reply = Vec::new();
        write_value(&[b'0'; KEY_BYTES], VALUE_BYTES, &mut reply);
        let expected = Beginning::new(Protocol::Redis, VALUE_BYTES);
        assert_eq!(reply.len(), expected.reply_bytes);
        assert_eq!(&reply[..5], b"$64\r\n");
    }

    #[test]
    fn requests_are_told_apart_at_any_length() {
        let get = b"*2\r\n$3\r\nGET\r\n$16\r\n0000000000000000\r\n";
        let expiry = b"*2\r\n$4\r\nPTTL\r\n$16\r\n0000000000000000\r\n";
        for (one, reply) in [
            (&get[..], None),
            (expiry, Some(&b":-1\r\n"[..])),
            (CHECK, Some(RIGHTS)),
            (INFO, Some(PROCESS)),
            (INFO_REPLICATION, Some(b"$0\r\n\r\n")),
        ] {
            assert_eq!(request(one), Some((one.len(), reply)));
            assert_eq!(request(&[one, get].concat()), Some((one.len(), reply)));
            for length in 0..one.len() {
                assert_eq!(request(&one[..length]), None);
            }
        }
    }
}
