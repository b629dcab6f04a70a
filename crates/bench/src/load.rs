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

use crate::{
    protocol::{Beginning, Protocol},
    resp::write_get,
};

mod https;
mod session;
mod zipf;

pub(crate) use https::Browser;
pub(crate) use session::Session;
pub(crate) use zipf::Zipf;

/// Popularity of the requested keys.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Draw {
    /// All keys equally.
    Evenly,
    /// By Zipf's law; popular keys are spread over the key space.
    Zipf(Zipf),
}

/// The operation performed on each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Set,
}

/// The operation and the number of concurrent clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) protocol: Protocol,
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
    /// Batches per second, regardless of replies; latency then counts from the time at which a
    /// batch was due. Without it, a connection sends its next batch after the reply to the last.
    pub(crate) rate: Option<f64>,
}

/// Results.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Duration of each batch in nanoseconds, sorted.
    pub(crate) taken: Vec<u32>,
    /// Batches that took longer than [`LATE`], from the time at which they were due.
    pub(crate) late: Vec<Wait>,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    /// CPU time of the client.
    pub(crate) client_seconds: f64,
}

/// A waiting time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) began: Instant,
    pub(crate) length: Duration,
}

/// Longest lookup that the goals accept.
pub(crate) const LATE: Duration = Duration::from_millis(5);

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
/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;

struct Connection {
    stream: TcpStream,
    /// Numbers of the keys asked for in the batch under way.
    asked: Vec<u64>,
    /// The time at which the current batch was due.
    began: Instant,
    /// Received bytes of the batch's replies.
    received: usize,
}

impl Load {
    /// Sends batches for the duration: a connection sends the next one after all replies to the
    /// last and, with a rate, when it is due.
    pub(crate) fn run(&self) -> anyhow::Result<Outcome> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = self.connect(&poll)?;
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mut requests = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        let mut expected = Beginning::new(self.protocol, self.value_bytes);

        let (began, cpu_began) = (Instant::now(), thread_cpu());
        let mut idle: VecDeque<usize> = (0..connections.len()).collect();
        let (mut asked, mut operations) = (0, 0);
        let (mut taken, mut late) = (Vec::new(), Vec::new());
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
                if connection.receive(self, &mut buffer, &mut expected)? {
                    operations += self.pipeline as u64;
                    let wait = Wait { began: connection.began, length: connection.began.elapsed() };
                    taken.push(u32::try_from(wait.length.as_nanos()).unwrap_or(u32::MAX));
                    late.extend((wait.length > LATE).then_some(wait));
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
        Ok(Outcome { taken, late, operations, seconds, client_seconds })
    }

    fn connect(&self, poll: &OwnedFd) -> anyhow::Result<Vec<Connection>> {
        (0..self.connections)
            .map(|index| {
                // Answered once before: accepting and connecting are not measured.
                let mut session = Session::connect_by(self.protocol, self.address)?;
                session.get(0, self.value_bytes)?;
                let stream = session.stream;
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
                Operation::Get => load.protocol.write_get(number, requests),
                Operation::Set => load.protocol.write_set(number, load.value_bytes, requests),
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

    /// Reads replies; true when the batch is complete.
    fn receive(
        &mut self,
        load: &Load,
        buffer: &mut [u8],
        expected: &mut Beginning,
    ) -> anyhow::Result<bool> {
        let count = match self.stream.read(buffer) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let end = self.received + count;
        if load.operation == Operation::Set {
            let stored = load.protocol.stored();
            let expected = stored.iter().cycle().skip(self.received % stored.len()).take(count);
            ensure!(buffer[..count].iter().eq(expected), "a write was refused");
            self.received = end;
            return Ok(end == load.pipeline * stored.len());
        }
        // Every reply of which the start has arrived completely.
        let reply_bytes = expected.reply_bytes;
        let mut reply = self.received.div_ceil(reply_bytes);
        while reply * reply_bytes + expected.len() <= end {
            let start = reply * reply_bytes - self.received;
            let number = self.asked.get(reply).context("more replies than requests")?;
            let got = &buffer[start..start + expected.len()];
            let is_right = got == expected.of(*number);
            ensure!(is_right, "a wrong reply: {:?}", String::from_utf8_lossy(got));
            reply += 1;
        }
        self.received = end;
        ensure!(end <= load.pipeline * reply_bytes, "more bytes than were asked for");
        Ok(end == load.pipeline * reply_bytes)
    }
}

/// Asks for keys that may be gone, over `connections` connections, for `duration`; replies are not
/// checked.
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
        // First all requests are sent, then all replies are read, so one request per connection is
        // outstanding.
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

pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| format!("cannot reach {address}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
