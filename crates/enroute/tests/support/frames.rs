//! A connection that sends commands and returns whole replies, unchanged.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use wire::resp::{Limits, frame, request};

use super::process::PATIENCE;

/// A connection: commands in, whole replies out.
pub struct Side {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Side {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("something listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self { stream, heard: Vec::new() }
    }

    pub fn ask(&mut self, args: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        request::write_command(&mut bytes, args);
        self.stream.write_all(&bytes).expect("it reads");
        self.hear()
    }

    pub fn hear(&mut self) -> Vec<u8> {
        loop {
            if let Some((reply, taken)) =
                frame::decode(&self.heard, &Limits::default()).expect("a reply")
            {
                let reply = reply.bytes().to_vec();
                self.heard.drain(..taken);
                return reply;
            }
            let mut buffer = [0; 16 << 10];
            let count = self.stream.read(&mut buffer).expect("a reply");
            assert!(count > 0, "it closed the connection");
            self.heard.extend_from_slice(&buffer[..count]);
        }
    }

    /// Sends a command given as words without blanks; returns the reply.
    pub fn words(&mut self, line: &str) -> Vec<u8> {
        let args: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        self.ask(&args)
    }

    /// The push messages that arrive before the reply to a PING.
    pub fn pushed(&mut self) -> Vec<String> {
        let mut heard = vec![self.words("ping")];
        while !heard.last().is_some_and(|reply| {
            reply.starts_with(b"+PONG") || reply.ends_with(b"pong\r\n$0\r\n\r\n")
        }) {
            heard.push(self.hear());
        }
        // The order of the notifications of one command is unspecified.
        let last = heard.len() - 1;
        heard[..last].sort();
        heard.iter().map(|reply| reply.escape_ascii().to_string()).collect()
    }
}
