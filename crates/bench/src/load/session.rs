//! One synchronous connection: filling, checking, reading INFO.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    ops::Range,
    time::Instant,
};

use anyhow::{Context, ensure};

use super::connect;
use crate::{
    protocol::{Beginning, Protocol},
    resp::OK,
};

/// A connection that waits for each reply.
pub(crate) struct Session {
    pub(super) stream: TcpStream,
    protocol: Protocol,
    buffer: Vec<u8>,
}

/// Requests under way while filling.
const FILL_PIPELINE: u64 = 512;

impl Session {
    /// Connects to a server of Redis' protocol.
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        Self::connect_by(Protocol::Redis, address)
    }

    pub(crate) fn connect_by(protocol: Protocol, address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { stream: connect(address)?, protocol, buffer: Vec::new() })
    }

    /// Reads one key and checks every byte of the reply.
    pub(crate) fn get(&mut self, number: u64, value_bytes: usize) -> anyhow::Result<()> {
        self.gets(number..number + 1, value_bytes)
    }

    /// Reads keys, pipelined, and checks every byte of the replies.
    pub(crate) fn get_all(&mut self, keys: u64, value_bytes: usize) -> anyhow::Result<()> {
        for first in (0..keys).step_by(FILL_PIPELINE as usize) {
            self.gets(first..keys.min(first + FILL_PIPELINE), value_bytes)?;
        }
        Ok(())
    }

    fn gets(&mut self, keys: Range<u64>, value_bytes: usize) -> anyhow::Result<()> {
        self.buffer.clear();
        keys.clone().for_each(|number| self.protocol.write_get(number, &mut self.buffer));
        self.stream.write_all(&self.buffer)?;
        let mut expected = Vec::new();
        keys.for_each(|number| self.protocol.write_reply(number, value_bytes, &mut expected));
        self.expect(&expected)
    }

    /// Stores keys `0..keys`, pipelined.
    pub(crate) fn set_all(&mut self, keys: u64, value_bytes: usize) -> anyhow::Result<()> {
        for first in (0..keys).step_by(FILL_PIPELINE as usize) {
            let count = keys.min(first + FILL_PIPELINE) - first;
            self.set_some(count, value_bytes, |at| first + at)?;
        }
        Ok(())
    }

    /// Stores `count` keys, `number(0), number(1), …`, pipelined.
    pub(crate) fn set_some(
        &mut self,
        count: u64,
        value_bytes: usize,
        number: impl Fn(u64) -> u64,
    ) -> anyhow::Result<()> {
        self.buffer.clear();
        for at in 0..count {
            self.protocol.write_set(number(at), value_bytes, &mut self.buffer);
        }
        self.stream.write_all(&self.buffer)?;
        self.expect(&self.protocol.stored().repeat(count as usize))
    }

    /// Sends a command that is answered OK.
    pub(crate) fn command(&mut self, words: &[&str]) -> anyhow::Result<()> {
        self.ask(words, OK)
    }

    /// Sends a command whose reply must be these bytes.
    pub(crate) fn ask(&mut self, words: &[&str], answer: &[u8]) -> anyhow::Result<()> {
        self.write_words(words)?;
        self.expect(answer)
    }

    /// The value that a command answers, which has `bytes` bytes.
    pub(crate) fn value(&mut self, words: &[&str], bytes: usize) -> anyhow::Result<String> {
        self.write_words(words)?;
        let head = format!("${bytes}\r\n");
        self.buffer.resize(head.len() + bytes + 2, 0);
        self.stream.read_exact(&mut self.buffer)?;
        let text = std::str::from_utf8(&self.buffer)?;
        let value = text.strip_prefix(&head).and_then(|rest| rest.strip_suffix("\r\n"));
        Ok(value.with_context(|| format!("expected {bytes} bytes, got {text:?}"))?.to_owned())
    }

    /// The number a command without arguments answers.
    pub(crate) fn count(&mut self, command: &str) -> anyhow::Result<u64> {
        self.write_words(&[command])?;
        let line = self.line()?;
        line.strip_prefix(':').and_then(|text| text.parse().ok()).context("expected a number")
    }

    /// Number of keyspace hits in INFO.
    pub(crate) fn hits(&mut self) -> anyhow::Result<u64> {
        self.write_words(&["INFO", "stats"])?;
        let bytes: usize = self.line()?.trim_start_matches('$').parse()?;
        let mut text = vec![0; bytes + 2];
        self.stream.read_exact(&mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let hits = text.lines().find_map(|line| line.strip_prefix("keyspace_hits:"));
        hits.and_then(|hits| hits.trim().parse().ok()).context("INFO: no keyspace_hits")
    }

    fn write_words(&mut self, words: &[&str]) -> anyhow::Result<()> {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        Ok(self.stream.write_all(request.as_bytes())?)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn expect(&mut self, expected: &[u8]) -> anyhow::Result<()> {
        self.buffer.resize(expected.len(), 0);
        self.stream.read_exact(&mut self.buffer)?;
        ensure!(
            self.buffer == expected,
            "{}: expected {:?}, got {:?}",
            self.stream.peer_addr()?,
            String::from_utf8_lossy(expected).chars().take(100).collect::<String>(),
            String::from_utf8_lossy(&self.buffer).chars().take(100).collect::<String>()
        );
        Ok(())
    }

    /// Round trips of `count` reads of `number(0), number(1), …`, in nanoseconds, sorted.
    pub(crate) fn round_trips(
        &mut self,
        count: u64,
        value_bytes: usize,
        mut number: impl FnMut(u64) -> u64,
    ) -> anyhow::Result<Vec<u64>> {
        let mut request = Vec::new();
        let mut expected = Beginning::new(self.protocol, value_bytes);
        let mut reply = vec![0; expected.reply_bytes];
        let mut taken = Vec::with_capacity(count as usize);
        for index in 0..count {
            let number = number(index);
            request.clear();
            self.protocol.write_get(number, &mut request);
            let began = Instant::now();
            self.stream.write_all(&request)?;
            self.stream.read_exact(&mut reply)?;
            taken.push(began.elapsed().as_nanos() as u64);
            let is_right = reply.starts_with(expected.of(number));
            ensure!(is_right, "a wrong reply: {:?}", String::from_utf8_lossy(&reply));
        }
        taken.sort_unstable();
        Ok(taken)
    }
}
