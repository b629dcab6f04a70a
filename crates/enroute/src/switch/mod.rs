//! `enroute switch` at work: sockets and clock of the controller ([`switch::control`]) and of the
//! agent.
//!
//! Read first: [`Switch::run`], one loop on one thread.

pub mod agent;

pub use platform::pins::{control, mount, remove, save, saved};

use std::{
    hash::{BuildHasher, RandomState},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use anyhow::Context;
use platform::wall_clock;
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
/// Maximum number of outstanding requests while the cache is filled in advance.
const WARM_AT_ONCE: usize = 64;

/// The kernel's monotonic clock, as the data plane reads it.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A random secret.
fn secret() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// The sockets around a controller and its data plane.
pub struct Switch {
    control: Control,
    sockets: Sockets,
    /// Interval at which reports of hot keys are taken; zero for at once.
    reports_every: Duration,
    /// Time from which they are taken next.
    reports_at: Duration,
}

/// Sockets of a controller. They are opened before a program is attached: one that no controller
/// follows would serve nothing.
pub struct Sockets {
    messages: UdpSocket,
    questions: UdpSocket,
}

impl Sockets {
    /// Opens the sockets for a data plane with that port of NetCache's protocol; 0 if it serves
    /// none, in which case no agent is heard.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub fn open(netcache_port: u16) -> anyhow::Result<Self> {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let messages = match netcache_port {
            0 => UdpSocket::bind((any, 0)).context("cannot open a socket")?,
            port => {
                let port = port.checked_add(CONTROL_PORT_ABOVE).with_context(|| {
                    format!("port of NetCache's protocol: expected 0 to 65534, got {port}")
                })?;
                UdpSocket::bind((any, port)).with_context(|| {
                    format!(
                        "cannot listen for agents on UDP port {port}, the one after NetCache's; end the process \
                         that uses it (`ss -ulpn`), or use another port"
                    )
                })?
            }
        };
        let questions =
            UdpSocket::bind((any, 0)).context("cannot open a socket for requests to memcached")?;
        for socket in [&messages, &questions] {
            set_socket_recv_buffer_size(socket, SOCKET_BYTES)?;
            socket.set_nonblocking(true)?;
        }
        Ok(Self { messages, questions })
    }
}

impl Switch {
    /// Takes over an attached data plane, with nothing cached.
    pub fn new(plane: DataPlane, sockets: Sockets) -> Self {
        let control = Control::new(plane, secret(), secret(), now());
        control.tell_wall_clock(wall_clock::now(), now());
        Self { control, sockets, reports_every: Duration::ZERO, reports_at: Duration::ZERO }
    }

    /// Takes the reports of hot keys only at this interval, as the controller of the paper does.
    pub fn take_reports_every(&mut self, interval: Duration) {
        self.reports_every = interval;
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
        let takes_reports = now() >= self.reports_at;
        self.wait(takes_reports)?;
        if takes_reports {
            self.take_reports();
        }
        let mut buffer = vec![0; DATAGRAM_BYTES];
        while let Some((bytes, from)) = receive(&self.sockets.messages, &mut buffer)? {
            if let Err(error) = self.control.receive(from, &buffer[..bytes], now()) {
                tracing::debug!("datagram from {from} ignored: {error}");
            }
            self.send();
        }
        while let Some((bytes, from)) = receive(&self.sockets.questions, &mut buffer)? {
            if let Err(error) = self.control.receive_answer(&buffer[..bytes], now()) {
                tracing::debug!("datagram from {from} ignored: {error}");
            }
            self.send();
        }
        if self.control.end_period(wall_clock::now(), now()) {
            self.send();
        }
        self.tick();
        Ok(())
    }

    fn take_reports(&mut self) {
        for _ in 0..REPORTS_MAX {
            if !self.control.take_report(now()) {
                self.reports_at = now() + self.reports_every;
                break;
            }
            self.send();
        }
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
                // With more outstanding requests, the last ones would be repeated before they are
                // answered.
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

    /// Waits for messages, and for reports if `takes_reports`.
    fn wait(&self, takes_reports: bool) -> anyhow::Result<()> {
        let limit = if self.control.is_waiting() { TICK } else { TICK * 25 };
        let limit = Timespec { tv_sec: 0, tv_nsec: limit.as_nanos() as i64 };
        let reports = self.control.reports_fd();
        let mut fds = [
            PollFd::new(&reports, PollFlags::IN),
            PollFd::new(&self.sockets.messages, PollFlags::IN),
            PollFd::new(&self.sockets.questions, PollFlags::IN),
        ];
        match poll(&mut fds[usize::from(!takes_reports)..], Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for reports"),
        }
    }

    fn send(&mut self) {
        while let Some(output) = self.control.ready(now()) {
            match output {
                // Errors are ignored: the controller repeats what is not answered.
                Output::Message(to, bytes) => drop(self.sockets.messages.send_to(&bytes, to)),
                Output::Question(to, bytes, request) => {
                    if self.sockets.questions.send_to(&bytes, to).is_err() {
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
