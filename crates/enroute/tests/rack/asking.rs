//! Clients that retry each query until they have its reply.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

use wire::{
    memcache::frame::Frame,
    netcache::{Flags, Message, Op},
};

use super::super::support::history::What;

/// Interval of retries; TCP retransmits by itself.
const AGAIN: Duration = Duration::from_millis(25);
/// Timeout of a query.
const GIVEN_UP: Duration = Duration::from_secs(8);
/// A client.
pub(crate) trait Asking {
    /// Retries until there is a reply; `None` after [`GIVEN_UP`].
    fn ask(&mut self, key: usize, what: What) -> Option<What>;
}

/// A value that reveals a mixture of two values: its number, repeated a varying number of times.
fn text_of(number: u64) -> String {
    let one = format!("{number} ");
    one.repeat(1 + number as usize % 9)
}

fn number_of(text: &str) -> u64 {
    let number = text.split(' ').next().and_then(|first| first.parse().ok());
    let number: u64 = number.unwrap_or_else(|| panic!("{text:?} is no value of ours"));
    assert_eq!(text, text_of(number), "of two values");
    number
}

fn socket(server: &str, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect((server, port)).expect("an address");
    socket
}

/// Resends `datagram` until `read` accepts a reply.
fn exchange<T>(
    socket: &UdpSocket,
    datagram: &[u8],
    read: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    let mut buffer = [0; 4096];
    let begin = Instant::now();
    while begin.elapsed() < GIVEN_UP {
        // While the path is down, sending fails.
        let _ = socket.send(datagram);
        let sent = Instant::now();
        while let left = AGAIN.saturating_sub(sent.elapsed())
            && !left.is_zero()
        {
            socket.set_read_timeout(Some(left)).expect("a socket");
            let bytes = socket.recv(&mut buffer).unwrap_or(0);
            if let Some(answer) = read(&buffer[..bytes]) {
                return Some(answer);
            }
        }
    }
    None
}

/// NetCache's protocol.
pub(crate) struct NetCache {
    socket: UdpSocket,
    sequence: u32,
}

impl NetCache {
    /// A client of that server.
    pub(crate) fn at(server: &str) -> Self {
        Self { socket: socket(server, 50_000), sequence: 0 }
    }
}

impl Asking for NetCache {
    fn ask(&mut self, key: usize, what: What) -> Option<What> {
        self.sequence += 1;
        let (op, value) = match what {
            What::Read(_) => (Op::Get, String::new()),
            What::Write(number) => (Op::Put, text_of(number)),
            What::Delete => (Op::Delete, String::new()),
        };
        let name = format!("history-{key:08}").into_bytes().try_into().expect("16 bytes");
        let ask = Message { value: value.as_bytes(), ..Message::new(op, self.sequence, name) };
        exchange(&self.socket, &ask.bytes(), |answer| {
            let answer = Message::decode(answer).ok()?;
            if answer.sequence != self.sequence {
                return None;
            }
            assert_eq!(answer.key, name, "of another key");
            let text = std::str::from_utf8(answer.value).expect("a value of ours");
            match answer.op {
                Op::GetReply if answer.flags.has(Flags::FOUND) => {
                    Some(What::Read(Some(number_of(text))))
                }
                Op::GetReply => Some(What::Read(None)),
                Op::PutReply | Op::DeleteReply => Some(what),
                _ => None,
            }
        })
    }
}

/// memcached's protocol: reads over UDP, which may be retried, and writes over TCP, which may not.
pub(crate) struct Memcache {
    server: SocketAddr,
    socket: UdpSocket,
    stream: Option<TcpStream>,
    request: u16,
}

impl Memcache {
    /// A client of that server.
    pub(crate) fn at(server: &str) -> Self {
        let socket = socket(server, 11_211);
        let server = socket.peer_addr().expect("connected");
        Self { server, socket, stream: None, request: 0 }
    }

    fn read(&mut self, key: usize) -> Option<What> {
        self.request = self.request.wrapping_add(1);
        let said = format!("get key:{key}\r\n");
        let ask = Frame::whole(self.request, said.as_bytes()).bytes();
        exchange(&self.socket, &ask, |answer| {
            let frame = Frame::decode(answer).ok().filter(|frame| frame.request == self.request)?;
            let text = std::str::from_utf8(frame.payload).expect("a value of ours");
            let mut lines = text.lines();
            Some(What::Read(match lines.next()? {
                "END" => None,
                line => {
                    assert!(line.starts_with(&format!("VALUE key:{key} 0 ")), "{text:?}");
                    Some(number_of(lines.next().expect("a value")))
                }
            }))
        })
    }

    fn write(&mut self, said: &str) -> Option<()> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect_timeout(&self.server, GIVEN_UP).ok()?,
        };
        stream.set_read_timeout(Some(GIVEN_UP)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        stream.write_all(said.as_bytes()).ok()?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            line.push(byte[0]);
        }
        let line = String::from_utf8_lossy(&line);
        assert!(["STORED\r\n", "DELETED\r\n", "NOT_FOUND\r\n"].contains(&&*line), "{line:?}");
        self.stream = Some(stream);
        Some(())
    }
}

impl Asking for Memcache {
    fn ask(&mut self, key: usize, what: What) -> Option<What> {
        match what {
            What::Read(_) => self.read(key),
            What::Write(number) => {
                let value = text_of(number);
                self.write(&format!("set key:{key} 0 0 {}\r\n{value}\r\n", value.len()))?;
                Some(what)
            }
            What::Delete => {
                self.write(&format!("delete key:{key}\r\n"))?;
                Some(what)
            }
        }
    }
}
