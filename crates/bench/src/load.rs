//! The clients: lean enough that the server, not they, decides the figure.
//!
//! redis-benchmark uses as much processor as redis-server. Here one thread keeps all connections
//! busy over one epoll, requests are written into a reused buffer, replies are counted by their
//! length, and of each the first bytes are checked: it must begin with its own key's value.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::{
    event::epoll,
    fd::OwnedFd,
    time::{ClockId, clock_gettime},
};

use crate::resp::{
    self, GET_BYTES, KEY_BYTES, OK, value_reply_bytes, write_get, write_set, write_value,
};

/// What is asked, by how many at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) pipeline: usize,
    /// Keys are drawn uniformly from `0..keys`.
    pub(crate) keys: u64,
    pub(crate) value_bytes: usize,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    /// CPU time of the client.
    pub(crate) client_seconds: f64,
}

impl Outcome {
    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.seconds
    }
}

/// Longest time without any reply.
const PATIENCE: Duration = Duration::from_secs(20);
/// Reads this much at once.
const READ_BYTES: usize = 256 << 10;

struct Connection {
    stream: TcpStream,
    /// Numbers of the keys asked for in the batch under way.
    asked: Vec<u64>,
    /// Bytes of the batch's replies that have come.
    received: usize,
}

impl Load {
    /// Asks for the duration, in batches: a connection sends its next when all of the last has been
    /// answered.
    pub(crate) fn run(&self) -> anyhow::Result<Outcome> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = self.connect(&poll)?;
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mut requests = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        let mut head = format!("${}\r\n", self.value_bytes).into_bytes();
        let head_bytes = head.len();
        head.resize(head_bytes + KEY_BYTES, 0);

        let (began, cpu_began) = (Instant::now(), thread_cpu());
        for connection in &mut connections {
            connection.ask(self, &mut random, &mut requests)?;
        }
        let mut operations = 0;
        let mut events = Vec::with_capacity(self.connections);
        while began.elapsed() < self.duration {
            events.clear();
            let patience = PATIENCE.try_into().context("a timeout")?;
            epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&patience))?;
            ensure!(!events.is_empty(), "no reply for {PATIENCE:?}");
            for event in &events {
                let connection = &mut connections[event.data.u64() as usize];
                if connection.receive(self, &mut buffer, &mut head)? {
                    operations += self.pipeline as u64;
                    connection.ask(self, &mut random, &mut requests)?;
                }
            }
        }
        let client_seconds = thread_cpu() - cpu_began;
        Ok(Outcome { operations, seconds: began.elapsed().as_secs_f64(), client_seconds })
    }

    fn connect(&self, poll: &OwnedFd) -> anyhow::Result<Vec<Connection>> {
        (0..self.connections)
            .map(|index| {
                let stream = connect(self.address)?;
                // Answered once before: accepting and connecting are not measured.
                let mut check = Session { stream, buffer: Vec::new() };
                check.get(0, self.value_bytes)?;
                let stream = check.stream;
                stream.set_nonblocking(true)?;
                let data = epoll::EventData::new_u64(index as u64);
                epoll::add(poll, &stream, data, epoll::EventFlags::IN)?;
                Ok(Connection { stream, asked: Vec::new(), received: 0 })
            })
            .collect()
    }
}

impl Connection {
    fn ask(
        &mut self,
        load: &Load,
        random: &mut Pcg64Mcg,
        requests: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        requests.clear();
        self.asked.clear();
        self.received = 0;
        for _ in 0..load.pipeline {
            let number = random.random_range(0..load.keys);
            self.asked.push(number);
            write_get(number, requests);
        }
        let mut written = 0;
        while written < requests.len() {
            match self.stream.write(&requests[written..]) {
                Ok(count) => written += count,
                // Replies never wait for this: a batch is smaller than any socket's buffer.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes what has come; true when the batch is complete.
    fn receive(&mut self, load: &Load, buffer: &mut [u8], head: &mut [u8]) -> anyhow::Result<bool> {
        let reply_bytes = value_reply_bytes_of(head, load.value_bytes);
        let count = match self.stream.read(buffer) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let end = self.received + count;
        // Every reply whose start is whole in what came.
        let head_bytes = head.len() - KEY_BYTES;
        let mut reply = self.received.div_ceil(reply_bytes);
        while reply * reply_bytes + head.len() <= end {
            let start = reply * reply_bytes - self.received;
            let number = self.asked.get(reply).context("more replies than requests")?;
            head[head_bytes..].copy_from_slice(&resp::key(*number));
            let got = &buffer[start..start + head.len()];
            ensure!(got == head, "a wrong reply: {:?}", String::from_utf8_lossy(got));
            reply += 1;
        }
        self.received = end;
        ensure!(end <= load.pipeline * reply_bytes, "more bytes than were asked for");
        Ok(end == load.pipeline * reply_bytes)
    }
}

fn value_reply_bytes_of(head: &[u8], value_bytes: usize) -> usize {
    head.len() - KEY_BYTES + value_bytes + 2
}

/// One connection that asks and waits.
pub(crate) struct Session {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Requests under way while filling.
const FILL_PIPELINE: u64 = 512;

impl Session {
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { stream: connect(address)?, buffer: Vec::new() })
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

    fn gets(&mut self, keys: std::ops::Range<u64>, value_bytes: usize) -> anyhow::Result<()> {
        self.buffer.clear();
        keys.clone().for_each(|number| write_get(number, &mut self.buffer));
        self.stream.write_all(&self.buffer)?;
        let mut expected = Vec::new();
        keys.for_each(|number| write_value(&resp::key(number), value_bytes, &mut expected));
        self.expect(&expected)
    }

    /// Stores keys `0..keys`, pipelined.
    pub(crate) fn set_all(&mut self, keys: u64, value_bytes: usize) -> anyhow::Result<()> {
        for first in (0..keys).step_by(FILL_PIPELINE as usize) {
            let last = keys.min(first + FILL_PIPELINE);
            self.buffer.clear();
            (first..last).for_each(|number| write_set(number, value_bytes, &mut self.buffer));
            self.stream.write_all(&self.buffer)?;
            self.expect(&OK.repeat((last - first) as usize))?;
        }
        Ok(())
    }

    fn expect(&mut self, expected: &[u8]) -> anyhow::Result<()> {
        self.buffer.resize(expected.len(), 0);
        self.stream.read_exact(&mut self.buffer)?;
        ensure!(self.buffer == expected, "a wrong reply");
        Ok(())
    }

    /// Round trips of `count` reads of `number(0), number(1), …`, in nanoseconds, sorted.
    pub(crate) fn round_trips(
        &mut self,
        count: u64,
        value_bytes: usize,
        mut number: impl FnMut(u64) -> u64,
    ) -> anyhow::Result<Vec<u64>> {
        let mut request = Vec::with_capacity(GET_BYTES);
        let mut reply = vec![0; value_reply_bytes(value_bytes)];
        let head = format!("${value_bytes}\r\n");
        let mut taken = Vec::with_capacity(count as usize);
        for index in 0..count {
            let number = number(index);
            request.clear();
            write_get(number, &mut request);
            let began = Instant::now();
            self.stream.write_all(&request)?;
            self.stream.read_exact(&mut reply)?;
            taken.push(began.elapsed().as_nanos() as u64);
            let start = head.len();
            ensure!(
                reply.starts_with(head.as_bytes())
                    && reply[start..start + KEY_BYTES] == resp::key(number),
                "a wrong reply: {:?}",
                String::from_utf8_lossy(&reply)
            );
        }
        taken.sort_unstable();
        Ok(taken)
    }
}

fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| format!("cannot reach {address}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
