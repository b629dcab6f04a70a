//! `enroute switch` at work: sockets and clock of the controller ([`switch::control`]) and of the
//! agent.
//!
//! Read first: [`Switch::run`], one loop on one thread.

pub mod agent;
mod pins;

pub use pins::{mount, remove, save, saved};

use std::{
    hash::{BuildHasher, RandomState},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use anyhow::Context;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::sockopt::set_socket_recv_buffer_size,
    time::{ClockId, clock_gettime},
};
use switch::{
    control::{Control, Output},
    install::Key,
    plane::DataPlane,
};

/// The controller's port: this far above NetCache's.
pub const CONTROL_PORT_ABOVE: u16 = 1;
/// Polling interval.
const TICK: Duration = Duration::from_millis(2);
/// Reports taken before messages are.
const REPORTS_MAX: usize = 1024;
const DATAGRAM_BYTES: usize = 65_536;
/// Receive buffer; the kernel may allow less.
const SOCKET_BYTES: usize = 4 << 20;
/// Keys asked for at once while the cache is filled beforehand.
const WARM_AT_ONCE: usize = 64;

/// The kernel's monotonic clock, as the data plane reads it.
pub fn now() -> Duration {
    clock(ClockId::Monotonic)
}

fn wall_clock() -> Duration {
    clock(ClockId::Realtime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A random secret.
fn secret() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// The sockets around a controller and its data plane.
pub struct Switch {
    control: Control,
    messages: UdpSocket,
    questions: UdpSocket,
}

impl Switch {
    /// Takes over an attached data plane, with nothing cached.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub fn new(plane: DataPlane) -> anyhow::Result<Self> {
        let port = plane.config().netcache_port + CONTROL_PORT_ABOVE;
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let messages = UdpSocket::bind((any, port))
            .with_context(|| format!("cannot listen for agents on UDP port {port}"))?;
        let questions =
            UdpSocket::bind((any, 0)).context("cannot open a socket for requests to memcached")?;
        for socket in [&messages, &questions] {
            set_socket_recv_buffer_size(socket, SOCKET_BYTES)?;
            socket.set_nonblocking(true)?;
        }
        let control = Control::new(plane, secret(), secret(), now());
        control.tell_wall_clock(wall_clock(), now());
        Ok(Self { control, messages, questions })
    }

    /// Runs until `stop` is set.
    ///
    /// # Errors
    /// An unexpected error of the kernel.
    pub fn run(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        while !stop.load(Relaxed) {
            self.turn()?;
        }
        Ok(())
    }

    /// Waits for input for a while, and handles it.
    fn turn(&mut self) -> anyhow::Result<()> {
        self.wait()?;
        for _ in 0..REPORTS_MAX {
            if !self.control.take_report(now()) {
                break;
            }
            self.send();
        }
        let mut buffer = vec![0; DATAGRAM_BYTES];
        while let Some((bytes, from)) = receive(&self.messages, &mut buffer)? {
            if let Err(error) = self.control.receive(from, &buffer[..bytes], now()) {
                tracing::debug!("datagram from {from} ignored: {error}");
            }
            self.send();
        }
        while let Some((bytes, from)) = receive(&self.questions, &mut buffer)? {
            if let Err(error) = self.control.receive_answer(&buffer[..bytes], now()) {
                tracing::debug!("datagram from {from} ignored: {error}");
            }
            self.send();
        }
        if self.control.end_period(wall_clock(), now()) {
            self.send();
        }
        self.tick();
        Ok(())
    }

    fn tick(&mut self) {
        self.control.tick(now());
        self.send();
    }

    /// Caches `keys` in advance, within `wait`; returns how many are cached.
    ///
    /// # Errors
    /// As for [`Switch::run`].
    pub fn warm(&mut self, keys: &[Key], wait: Duration) -> anyhow::Result<usize> {
        let until = now() + wait;
        while self.control.served(now()) < keys.len() && now() < until {
            for key in keys {
                self.control.insert(key.clone(), now());
                // More under way would be sent again before their turn comes.
                while self.control.waiting() >= WARM_AT_ONCE && now() < until {
                    self.tick();
                    self.turn()?;
                }
            }
            self.tick();
            self.turn()?;
        }
        Ok(self.control.served(now()))
    }

    /// Statistics of the controller, and the number of cached keys.
    pub fn stats(&self) -> (switch::controller::Stats, usize) {
        self.control.stats()
    }

    fn wait(&self) -> anyhow::Result<()> {
        let limit = if self.control.is_waiting() { TICK } else { TICK * 25 };
        let limit = Timespec { tv_sec: 0, tv_nsec: limit.as_nanos() as i64 };
        let reports = self.control.reports_fd();
        let mut fds = [
            PollFd::new(&reports, PollFlags::IN),
            PollFd::new(&self.messages, PollFlags::IN),
            PollFd::new(&self.questions, PollFlags::IN),
        ];
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for reports"),
        }
    }

    fn send(&mut self) {
        while let Some(output) = self.control.ready(now()) {
            match output {
                // An address that cannot be reached answers nothing, which the controller expects.
                Output::Message(to, bytes) => drop(self.messages.send_to(&bytes, to)),
                Output::Question(to, bytes, request) => {
                    if self.questions.send_to(&bytes, to).is_err() {
                        self.control.unsent(request);
                    }
                }
            }
        }
    }
}

/// The next datagram, if there is one.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> anyhow::Result<Option<(usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok((bytes, from)) => Ok(Some((bytes, from))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        // An ICMP error for an earlier datagram.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
        Err(error) => Err(error).context("cannot receive"),
    }
}
