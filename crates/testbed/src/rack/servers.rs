//! Servers as queues with a fixed rate. A query waits for its turn; queries beyond the queue are
//! dropped.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::atomic::AtomicBool,
    time::Duration,
};

use anyhow::Context;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::sockopt::set_socket_recv_buffer_size_force,
};
use switch::agent::{Memory, Store};
use wire::netcache::{Key, Message, Op};

use super::{Config, arrival};
use crate::{clock::now, services::Switch};

/// Socket buffer for queries that arrive while the thread does not run.
pub(super) const SOCKET_BYTES: usize = 16 << 20;

pub(super) fn serve<S: Switch>(
    listen: SocketAddr,
    switch: IpAddr,
    config: &Config,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let socket = UdpSocket::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
    set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES)?;
    socket.set_nonblocking(true)?;
    let mut queues = Queues::new(config);
    let mut values = Values { written: Memory::default(), bytes: config.value_bytes };
    let receive = |buffer: &mut [u8], wait| queues.receive(&socket, buffer, wait);
    S::serve(&socket, switch, &mut values, receive, stop)
}

/// The queues of all servers.
struct Queues {
    /// Time at which the queue of each server is empty.
    free: Vec<Duration>,
    service: Duration,
    wait_max: Duration,
    /// Datagrams and their senders by their turn; at most `server_queue` of each server.
    waiting: BTreeMap<(Duration, u64), (SocketAddr, Vec<u8>)>,
    received: u64,
}

impl Queues {
    fn new(config: &Config) -> Self {
        Self {
            free: vec![Duration::ZERO; config.servers as usize],
            service: Duration::from_secs(1) / config.server_qps,
            wait_max: Duration::from_secs(config.server_queue.into()) / config.server_qps,
            waiting: BTreeMap::new(),
            received: 0,
        }
    }

    /// The next datagram whose turn has come, within `wait`.
    fn receive(
        &mut self,
        socket: &UdpSocket,
        buffer: &mut [u8],
        wait: Duration,
    ) -> io::Result<(usize, SocketAddr)> {
        let until = now() + wait;
        loop {
            let time = now();
            let next = self.waiting.first_key_value().map(|(&(turn, _), _)| turn);
            if next.is_some_and(|turn| turn <= time)
                && let Some((_, (from, datagram))) = self.waiting.pop_first()
            {
                buffer[..datagram.len()].copy_from_slice(&datagram);
                return Ok((datagram.len(), from));
            }
            if time >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match socket.recv_from(buffer) {
                Ok((bytes, from)) => self.queue(&buffer[..bytes], from, arrival::last(socket)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let idle = next.map_or(until, |turn| turn.min(until)).saturating_sub(time);
                    let idle = Timespec { tv_sec: 0, tv_nsec: i64::from(idle.subsec_nanos()) };
                    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&idle))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Queues a datagram that arrived `now`, if its server has room.
    fn queue(&mut self, datagram: &[u8], from: SocketAddr, now: Duration) {
        let Ok(message) = Message::decode(datagram) else { return };
        if let Some(turn) = self.turn(&message, now) {
            self.received += 1;
            self.waiting.insert((turn, self.received), (from, datagram.to_vec()));
        }
    }

    /// The turn of a query that arrives `now` at the server of its key; `None` if its queue is
    /// full. Coherence messages do not wait.
    fn turn(&mut self, message: &Message<'_>, now: Duration) -> Option<Duration> {
        if !matches!(message.op, Op::Get | Op::Put | Op::Delete | Op::PutCached | Op::DeleteCached)
        {
            return Some(now);
        }
        let server = fabric::rack::server(&message.key, self.free.len() as u32);
        let free = &mut self.free[server as usize];
        let turn = now.max(*free);
        if turn - now >= self.wait_max {
            return None;
        }
        *free = turn + self.service;
        Some(turn)
    }
}

/// The values. Every key has one, derived from the key until it is written.
struct Values {
    written: Memory,
    bytes: usize,
}

impl Store for Values {
    fn read(&self, key: &Key) -> Option<Vec<u8>> {
        let made = || key.iter().copied().cycle().take(self.bytes).collect();
        Some(self.written.read(key).unwrap_or_else(made))
    }

    fn write(&mut self, key: Key, value: Option<&[u8]>, writer: SocketAddr, sequence: u32) {
        self.written.write(key, value, writer, sequence);
    }

    fn last_write(&self, key: &Key, writer: SocketAddr) -> Option<u32> {
        self.written.last_write(key, writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(queue: u32) -> Queues {
        let config =
            Config { servers: 1, server_qps: 100, server_queue: queue, ..Config::default() };
        Queues::new(&config)
    }

    #[test]
    fn a_queue_takes_its_rate_and_its_length() {
        let mut queues = queues(5);
        let get = Message::new(Op::Get, 1, [1; 16]);
        let ack = Message::new(Op::UpdateAck, 1, [1; 16]);
        let mut taken = |at| {
            let turns = (0..20).filter_map(|_| queues.turn(&get, Duration::from_millis(at)));
            turns.map(|turn| turn.as_millis() as u64).collect::<Vec<_>>()
        };
        assert_eq!(taken(1_000), [1_000, 1_010, 1_020, 1_030, 1_040]);
        assert_eq!(taken(1_000), [0; 0]);
        assert_eq!(taken(1_020), [1_050, 1_060]);
        let now = Duration::from_millis(1_020);
        assert_eq!(queues.turn(&ack, now), Some(now));
    }

    #[test]
    fn a_query_is_served_in_its_turn_and_coherence_at_once() {
        let (mut queues, mut buffer) = (queues(5), [0; 2048]);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_nonblocking(true).expect("not blocking");
        let from = ([127, 0, 0, 1], 1).into();
        let (began, key) = (now(), [1; 16]);
        for (op, sequence) in [(Op::Put, 1), (Op::Get, 2), (Op::UpdateAck, 3)] {
            queues.queue(&Message::new(op, sequence, key).bytes(), from, began);
        }
        let mut order = Vec::new();
        while order.len() < 3 {
            let Ok((bytes, _)) = queues.receive(&socket, &mut buffer, Duration::from_millis(1))
            else {
                continue;
            };
            let message = Message::decode(&buffer[..bytes]).expect("a message");
            order.push((message.sequence, now() >= began + queues.service));
        }
        assert_eq!(order.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(), [1, 3, 2]);
        assert_eq!(order.last(), Some(&(2, true)), "a query was served before its turn");
    }
}
