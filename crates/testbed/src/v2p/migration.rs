//! A machine moves while every other server sends to it.

use std::{
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use super::{Testbed, counter};

const PORT: u16 = 7_001;
/// Time without a datagram after which a receiver has all that were sent.
const QUIET: Duration = Duration::from_secs(1);
/// Bytes of a receiver's queue: enough while its thread waits for a processor.
const QUEUE_BYTES: usize = 16 << 20;
/// Interval at which `stop` and, after the move, counters are read.
const SAMPLE: Duration = Duration::from_millis(1);

/// Cost of a move, as in the paper's Table 4.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received, at the old or the new server.
    pub received: u64,
    /// Datagrams that gateways forwarded.
    pub gateway_packets: u64,
    /// Datagrams that reached the old server after the move.
    pub misdelivered: u64,
    /// Time from the move to the last of them.
    pub last_misdelivered: Duration,
    /// Time from the move to the first datagram at the new server.
    pub first_correct: Duration,
    /// Invalidation packets.
    pub invalidations: u64,
}

/// Moves machine `vm` to `server` after half of `duration`, while one machine of every other server
/// sends it a datagram every `interval`. If `stop` is set, both come earlier.
///
/// # Errors
/// A socket cannot be opened, or the move fails.
pub fn run(
    testbed: &mut Testbed,
    (vm, server): (u32, u32),
    interval: Duration,
    duration: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<Moved> {
    let machine = testbed.layout().machine(vm);
    let (old, new) = (testbed.home(vm), testbed.layout().server(server));
    let receive = |node| {
        testbed.namespaces().inside(node, || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
            set_socket_recv_buffer_size_force(&socket, QUEUE_BYTES)?;
            socket.set_read_timeout(Some(QUIET))?;
            Ok(socket)
        })
    };
    let receivers = [receive(old)?, receive(new)?];
    let senders = senders(testbed, &[old, new])?;
    let (end, all_sent) = (AtomicBool::new(false), AtomicBool::new(false));
    let (sent, received) = (AtomicU64::new(0), [Received::default(), Received::default()]);
    let mut moved = Moved::default();
    thread::scope(|scope| -> anyhow::Result<()> {
        let _end = (End(&end), End(&all_sent));
        let (end, sent, all_sent) = (&end, &sent, &all_sent);
        let to = SocketAddrV4::new(machine, PORT);
        let send = |sender| scope.spawn(move || send(sender, to, interval, sent, end));
        let sending: Vec<_> = senders.iter().map(send).collect();
        for (socket, received) in receivers.iter().zip(&received) {
            scope.spawn(move || received.count(socket, all_sent));
        }
        let lasts = |began: Instant| began.elapsed() < duration / 2 && !stop.load(Relaxed);
        let began = Instant::now();
        while lasts(began) {
            thread::sleep(SAMPLE);
        }
        let began = Instant::now();
        testbed.migrate(vm, server)?;
        while lasts(began) {
            thread::sleep(SAMPLE);
            let misdelivered = total(testbed, "MISDELIVERED")?;
            if misdelivered > moved.misdelivered {
                moved.misdelivered = misdelivered;
                moved.last_misdelivered = began.elapsed();
            }
        }
        let first = received[1].first.get();
        moved.first_correct = first.map_or(duration, |first| first.duration_since(began));
        end.store(true, Relaxed);
        for thread in sending {
            thread.join().map_err(|_| anyhow::anyhow!("a thread that sends panicked"))?;
        }
        Ok(())
    })?;
    moved.sent = sent.into_inner();
    moved.received = received.iter().map(|received| received.datagrams.load(Relaxed)).sum();
    moved.invalidations = total(testbed, "INVALIDATIONS")?;
    let counts = testbed.counts()?;
    let gateways = &counts[testbed.layout().gateways()];
    moved.gateway_packets = gateways.iter().map(|counts| counts[counter("PACKETS")]).sum();
    Ok(moved)
}

fn send(
    sender: &UdpSocket,
    to: SocketAddrV4,
    interval: Duration,
    sent: &AtomicU64,
    end: &AtomicBool,
) {
    while !end.load(Relaxed) {
        // Datagrams that cannot be sent are not counted.
        sent.fetch_add(u64::from(sender.send_to(b"move", to).is_ok()), Relaxed);
        thread::sleep(interval);
    }
}

/// Datagrams that one server received.
#[derive(Default)]
struct Received {
    datagrams: AtomicU64,
    first: OnceLock<Instant>,
}

impl Received {
    /// Counts until all are sent and none has arrived for [`QUIET`].
    fn count(&self, socket: &UdpSocket, all_sent: &AtomicBool) {
        let mut buffer = [0; 16];
        loop {
            let is_last = all_sent.load(Relaxed);
            if socket.recv(&mut buffer).is_ok() {
                self.first.get_or_init(Instant::now);
                self.datagrams.fetch_add(1, Relaxed);
            } else if is_last {
                return;
            }
        }
    }
}

/// Sets the flag that ends the threads, however the function ends.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A socket of the first machine of every server except these.
fn senders(testbed: &Testbed, but: &[usize]) -> anyhow::Result<Vec<UdpSocket>> {
    let layout = testbed.layout();
    let mut known: Vec<usize> = but.to_vec();
    let mut senders = Vec::new();
    for vm in 0..layout.topology.vms() {
        let home = testbed.home(vm);
        if !known.contains(&home) {
            known.push(home);
            let open = || Ok(UdpSocket::bind((layout.machine(vm), 0))?);
            senders.push(testbed.namespaces().inside(home, open)?);
        }
    }
    Ok(senders)
}

/// Sum of a counter: at servers, of returned packets; at switches, of sent ones.
fn total(testbed: &Testbed, name: &str) -> anyhow::Result<u64> {
    let counts = testbed.counts()?;
    let switches = testbed.layout().switches();
    let of = if name == "MISDELIVERED" { &counts[switches..] } else { &counts[..switches] };
    Ok(of.iter().map(|counts| counts[counter(name)]).sum())
}
