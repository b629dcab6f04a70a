//! A connection that sends exactly the given bytes and returns exactly the received ones.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use super::process::PATIENCE;

/// The query that a Redis origin receives before each client's first request, and the reply for a
/// user with all rights.
pub const CHECK: &str = "*3\r\n$3\r\nACL\r\n$7\r\nGETUSER\r\n$7\r\ndefault\r\n";
pub const RIGHTS: &str = "*6\r\n$5\r\nflags\r\n*1\r\n$2\r\non\r\n$8\r\ncommands\r\n$5\r\n+@all\r\n\
    $4\r\nkeys\r\n$2\r\n~*\r\n";

pub struct Raw(TcpStream);

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("something listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("an option of TCP");
        Self(stream)
    }

    /// Sends the bytes; panics if the peer does not accept them.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).expect("the other side reads");
    }

    /// Sends a Redis command, given as words.
    pub fn command(&mut self, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        let mut bytes = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| bytes.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        self.say(bytes);
    }

    /// Sends a Redis command and expects exactly this reply.
    pub fn ask(&mut self, words: &str, reply: &str) {
        self.command(words);
        self.hear(reply);
    }

    /// Panics unless exactly this is received next.
    pub fn hear(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut heard = vec![0; expected.len()];
        let mut length = 0;
        while length < heard.len() && heard[..length] == expected[..length] {
            match self.0.read(&mut heard[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) => panic!("{error} after {:?}", show(&heard[..length])),
            }
        }
        assert!(
            heard[..length] == *expected,
            "heard {:?} instead of {:?}",
            show(&heard[..length]),
            show(expected)
        );
    }

    /// The next bytes, up to the buffer's length; empty at the end of the connection.
    pub fn hear_at_most<'a>(&mut self, buffer: &'a mut [u8]) -> &'a [u8] {
        match self.0.read(buffer) {
            Ok(count) => &buffer[..count],
            Err(error) if error.kind() == ErrorKind::ConnectionReset => &[],
            Err(error) => panic!("{error} instead of bytes or the end"),
        }
    }

    /// The next line, including its terminator.
    pub fn hear_line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("a whole line");
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Reads this number of arbitrary bytes.
    pub fn hear_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut heard = vec![0; count];
        self.0.read_exact(&mut heard).expect("that many bytes");
        heard
    }

    /// Panics unless the peer has closed the connection without further output.
    pub fn hear_end(&mut self) {
        let mut rest = [0; 256];
        match self.0.read(&mut rest) {
            Ok(0) => {}
            Ok(count) => panic!("heard {:?} instead of the end", show(&rest[..count])),
            // Unread bytes turn the peer's close into a reset.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error} instead of the end"),
        }
    }

    /// Reads until the end of the connection.
    pub fn hear_bytes_until_end(&mut self) -> Vec<u8> {
        let mut heard = Vec::new();
        match self.0.read_to_end(&mut heard) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                panic!("{error} instead of the end after {:?}", show(&heard))
            }
            _ => heard,
        }
    }

    /// Whether nothing was received, not even the end of the connection.
    pub fn is_open(&mut self) -> bool {
        self.0.set_nonblocking(true).expect("an option of TCP");
        let nothing =
            matches!(self.0.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        self.0.set_nonblocking(false).expect("an option of TCP");
        nothing
    }

    /// Shuts down the sending side.
    pub fn end(&self) {
        match self.0.shutdown(Shutdown::Write) {
            // The peer has already reset the connection.
            Err(error) if error.kind() == ErrorKind::NotConnected => {}
            ended => ended.expect("an open connection"),
        }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.0
    }
}

impl From<TcpStream> for Raw {
    fn from(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self(stream)
    }
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}

/// The next connection to this origin that belongs to a client of the cache. The cache's own watch
/// connections are kept open and get no reply.
pub fn accept_client(origin: &TcpListener) -> TcpStream {
    loop {
        let (connection, _) = origin.accept().expect("the cache connects");
        let mut first = [0; 256];
        // A probe whose time is over before the cache could send it says nothing, or is reset.
        let length = connection.peek(&mut first).unwrap_or(0);
        if length == 0 {
            continue;
        }
        let said = String::from_utf8_lossy(&first[..length]);
        let watches = ["$4\r\nINFO\r\n", "$4\r\nAUTH\r\n", "enroute: watch"];
        // Probes of other protocols, among them a ClientHello, which follow if the watch gets no
        // reply.
        let probes = said == "PING\r\n" || first[0] == 0x16;
        if !probes && !watches.iter().any(|mark| said.contains(mark)) {
            return connection;
        }
        std::mem::forget(connection);
    }
}
