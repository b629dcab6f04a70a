//! The clients: lean enough that the server, not they, decides the figure.
//!
//! redis-benchmark uses as much processor as redis-server. Here one thread keeps all connections
//! busy over one epoll, requests are written into a reused buffer, replies are counted by their
//! length, and of each the first bytes are checked: it must begin with its own key's value.

use std::{
    collections::VecDeque,
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

/// Which keys are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Draw {
    /// Each as often as any.
    Evenly,
    /// By Zipf's law, the popular ones spread over all.
    Zipf(Zipf),
}

/// What is asked of each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Set,
}

/// What is asked, by how many at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) operation: Operation,
    pub(crate) draw: Draw,
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) pipeline: usize,
    /// Keys are drawn from `0..keys`.
    pub(crate) keys: u64,
    pub(crate) value_bytes: usize,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
    /// Batches due a second, whether or not others were answered: then latency counts from when a
    /// batch was due. Without it a connection asks again as soon as it was answered.
    pub(crate) rate: Option<f64>,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Nanoseconds each batch took, sorted.
    pub(crate) taken: Vec<u32>,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    /// CPU time of the client.
    pub(crate) client_seconds: f64,
}

impl Outcome {
    /// Milliseconds within which this share of the batches was answered.
    pub(crate) fn within_ms(&self, share: f64) -> f64 {
        let at = (self.taken.len().saturating_sub(1) as f64 * share) as usize;
        self.taken.get(at).map_or(f64::NAN, |&nanos| f64::from(nanos) / 1e6)
    }

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
    /// When the batch under way was due.
    began: Instant,
    /// Bytes of the batch's replies that have come.
    received: usize,
}

impl Load {
    /// Asks for the duration, in batches: a connection sends its next when all of the last has been
    /// answered, and, with a rate, the next is due.
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
        let mut idle: VecDeque<usize> = (0..connections.len()).collect();
        let (mut asked, mut operations, mut taken) = (0, 0, Vec::new());
        let mut events = Vec::with_capacity(self.connections);
        while began.elapsed() < self.duration {
            let mut patience = PATIENCE;
            while !idle.is_empty() {
                let due = self.rate.map_or_else(Instant::now, |rate| {
                    began + Duration::from_secs_f64(f64::from(asked) / rate)
                });
                let early = due.saturating_duration_since(Instant::now());
                if !early.is_zero() {
                    patience = early;
                    break;
                }
                asked += 1;
                if let Some(index) = idle.pop_front() {
                    connections[index].ask(self, due, &mut random, &mut requests)?;
                }
            }
            events.clear();
            let timeout = patience.try_into().context("a timeout")?;
            epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
            ensure!(!events.is_empty() || patience < PATIENCE, "no reply for {PATIENCE:?}");
            for event in &events {
                let index = event.data.u64() as usize;
                let connection = &mut connections[index];
                if connection.receive(self, &mut buffer, &mut head)? {
                    operations += self.pipeline as u64;
                    let nanos = connection.began.elapsed().as_nanos();
                    taken.push(u32::try_from(nanos).unwrap_or(u32::MAX));
                    match self.rate {
                        None => connection.ask(self, Instant::now(), &mut random, &mut requests)?,
                        Some(_) => idle.push_back(index),
                    }
                }
            }
        }
        let client_seconds = thread_cpu() - cpu_began;
        let seconds = began.elapsed().as_secs_f64();
        taken.sort_unstable();
        Ok(Outcome { taken, operations, seconds, client_seconds })
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
                Ok(Connection { stream, asked: Vec::new(), began: Instant::now(), received: 0 })
            })
            .collect()
    }
}

impl Connection {
    fn ask(
        &mut self,
        load: &Load,
        due: Instant,
        random: &mut Pcg64Mcg,
        requests: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        requests.clear();
        self.asked.clear();
        self.received = 0;
        for _ in 0..load.pipeline {
            let number = match load.draw {
                Draw::Evenly => random.random_range(0..load.keys),
                Draw::Zipf(zipf) => zipf.draw(random.random_range(0.0..1.0)),
            };
            self.asked.push(number);
            match load.operation {
                Operation::Get => write_get(number, requests),
                Operation::Set => write_set(number, load.value_bytes, requests),
            }
        }
        let mut written = 0;
        self.began = due;
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
        if load.operation == Operation::Set {
            let expected = OK.iter().cycle().skip(self.received % OK.len()).take(count);
            ensure!(buffer[..count].iter().eq(expected), "a SET was refused");
            self.received = end;
            return Ok(end == load.pipeline * OK.len());
        }
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

/// Zipf's law over `keys` keys (Gray et al., "Quickly generating billion-record synthetic
/// databases"), each rank at a place of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zipf {
    keys: u64,
    exponent: f64,
    zeta: f64,
    zeta_two: f64,
}

impl Zipf {
    pub(crate) fn new(keys: u64, exponent: f64) -> Self {
        let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>();
        Self { keys, exponent, zeta: zeta(keys), zeta_two: zeta(2) }
    }

    /// The key at `uniform`, which is from 0 to 1.
    fn draw(self, uniform: f64) -> u64 {
        let Self { keys, exponent, zeta, zeta_two } = self;
        let count = keys as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - exponent)) / (1.0 - zeta_two / zeta);
        let scaled = uniform * zeta;
        let rank = match scaled {
            scaled if scaled < 1.0 => 0,
            scaled if scaled < zeta_two => 1,
            _ => (count * (eta * uniform - eta + 1.0).powf(1.0 / (1.0 - exponent))) as u64,
        };
        // A prime that divides no number of keys used here.
        rank.min(keys - 1) * 2_654_435_761 % keys
    }
}

fn value_reply_bytes_of(head: &[u8], value_bytes: usize) -> usize {
    head.len() - KEY_BYTES + value_bytes + 2
}

/// Asks for keys that may be gone, over `connections` connections, for `duration`; what is answered
/// nobody looks at.
pub(crate) fn ask_anything(
    address: SocketAddr,
    connections: usize,
    zipf: Zipf,
    duration: Duration,
    seed: u64,
) -> anyhow::Result<()> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut streams =
        (0..connections).map(|_| connect(address)).collect::<anyhow::Result<Vec<_>>>()?;
    let (mut request, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
    let began = Instant::now();
    while began.elapsed() < duration {
        // All ask, then all are heard: as many requests are under way as there are connections.
        for stream in &mut streams {
            request.clear();
            write_get(zipf.draw(random.random_range(0.0..1.0)), &mut request);
            stream.write_all(&request)?;
        }
        for stream in &mut streams {
            let mut got = stream.read(&mut buffer)?;
            while got > 5 && !buffer[..got].ends_with(b"\r\n") {
                got += stream.read(&mut buffer[got..])?;
            }
        }
    }
    Ok(())
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

    /// Stores `count` keys, `number(0), number(1), …`, pipelined.
    pub(crate) fn set_some(
        &mut self,
        count: u64,
        value_bytes: usize,
        number: impl Fn(u64) -> u64,
    ) -> anyhow::Result<()> {
        self.buffer.clear();
        (0..count).for_each(|at| write_set(number(at), value_bytes, &mut self.buffer));
        self.stream.write_all(&self.buffer)?;
        self.expect(&OK.repeat(count as usize))
    }

    /// Sends a command that is answered OK.
    pub(crate) fn command(&mut self, words: &[&str]) -> anyhow::Result<()> {
        self.ask(words, OK)
    }

    /// Sends a command that is answered so, byte for byte.
    pub(crate) fn ask(&mut self, words: &[&str], answer: &[u8]) -> anyhow::Result<()> {
        self.write_words(words)?;
        self.expect(answer)
    }

    /// The number a command without arguments answers.
    pub(crate) fn count(&mut self, command: &str) -> anyhow::Result<u64> {
        self.write_words(&[command])?;
        let line = self.line()?;
        line.strip_prefix(':').and_then(|text| text.parse().ok()).context("expected a number")
    }

    /// How many reads have found something, as INFO says.
    pub(crate) fn hits(&mut self) -> anyhow::Result<u64> {
        self.write_words(&["INFO", "stats"])?;
        let bytes: usize = self.line()?.trim_start_matches('$').parse()?;
        let mut text = vec![0; bytes + 2];
        self.stream.read_exact(&mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let hits = text.lines().find_map(|line| line.strip_prefix("keyspace_hits:"));
        hits.and_then(|hits| hits.trim().parse().ok()).context("INFO says no keyspace_hits")
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
