//! Servers as queues with a fixed rate; queries beyond the queue are dropped.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::atomic::AtomicBool,
    time::Duration,
};

use anyhow::Context;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use switch::agent::{Memory, Store};
use wire::netcache::{Key, Message, Op};

use super::{Config, arrival};
use crate::services::Switch;

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
    let mut queues = Queues {
        free: vec![Duration::ZERO; config.servers as usize],
        service: Duration::from_secs(1) / config.server_qps,
        wait_max: Duration::from_secs(config.server_queue.into()) / config.server_qps,
    };
    let mut values = Values { written: Memory::default(), bytes: config.value_bytes };
    let takes = |message: &Message<'_>| queues.take(message, arrival::last(&socket));
    S::serve(&socket, switch, &mut values, takes, stop)
}

/// Time at which the queue of each server is empty.
struct Queues {
    free: Vec<Duration>,
    service: Duration,
    wait_max: Duration,
}

impl Queues {
    /// Whether the queue of the key's server accepts the query; coherence messages are not limited.
    fn take(&mut self, message: &Message<'_>, now: Duration) -> bool {
        if !matches!(message.op, Op::Get | Op::Put | Op::Delete | Op::PutCached | Op::DeleteCached)
        {
            return true;
        }
        let server = fabric::rack::server(&message.key, self.free.len() as u32);
        let free = &mut self.free[server as usize];
        if free.saturating_sub(now) >= self.wait_max {
            return false;
        }
        *free = now.max(*free) + self.service;
        true
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

    #[test]
    fn a_queue_takes_its_rate_and_its_length() {
        let mut queues = Queues {
            free: vec![Duration::ZERO],
            service: Duration::from_millis(10),
            wait_max: Duration::from_millis(50),
        };
        let get = Message::new(Op::Get, 1, [1; 16]);
        let ack = Message::new(Op::UpdateAck, 1, [1; 16]);
        let mut taken =
            |at| (0..20).filter(|_| queues.take(&get, Duration::from_millis(at))).count();
        assert_eq!(taken(1_000), 5);
        assert_eq!(taken(1_000), 0);
        assert_eq!(taken(1_020), 2);
        assert!(queues.take(&ack, Duration::from_millis(1_020)));
    }
}
