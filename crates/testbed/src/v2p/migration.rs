//! A machine moves while every other server sends to it.

use std::{
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Testbed, counter};

const PORT: u16 = 7_001;
/// Longest that a receiver blocks, so that the end is seen.
const BLOCK: Duration = Duration::from_millis(100);
/// Interval at which counters are read after the move.
const SAMPLE: Duration = Duration::from_millis(1);

/// What a move cost, as the paper's Table 4 states it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Datagrams sent and received.
    pub sent: u64,
    /// The same.
    pub received: u64,
    /// Datagrams that gateways sent on.
    pub gateway_packets: u64,
    /// Datagrams that reached the old server after the move.
    pub misdelivered: u64,
    /// From the move to the last of them.
    pub last_misdelivered: Duration,
    /// From the move to the first datagram at the new server.
    pub first_correct: Duration,
    /// Invalidation packets.
    pub invalidations: u64,
}

/// Machine `vm` moves to `server` after half of `duration`, while one machine of every other server sends it
/// a datagram every `interval`.
///
/// # Errors
/// A socket cannot be opened, or the move fails.
pub fn run(
    testbed: &mut Testbed,
    (vm, server): (u32, u32),
    interval: Duration,
    duration: Duration,
) -> anyhow::Result<Moved> {
    let machine = testbed.layout().machine(vm);
    let (old, new) = (testbed.home(vm), testbed.layout().server(server));
    let receive = |node| {
        testbed.namespaces().inside(node, || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
            socket.set_read_timeout(Some(BLOCK))?;
            Ok(socket)
        })
    };
    let receivers = [receive(old)?, receive(new)?];
    let senders = senders(testbed, &[old, new])?;
    let (stop, sent, received) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let first_at_new = Mutex::new(None);
    let mut moved = Moved::default();
    thread::scope(|scope| -> anyhow::Result<()> {
        let _end = End(&stop);
        for sender in &senders {
            let to = SocketAddrV4::new(machine, PORT);
            let (stop, sent) = (&stop, &sent);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    // What is not sent is not counted.
                    sent.fetch_add(u64::from(sender.send_to(b"move", to).is_ok()), Relaxed);
                    thread::sleep(interval);
                }
            });
        }
        for (number, receiver) in receivers.iter().enumerate() {
            let (stop, received, first_at_new) = (&stop, &received, &first_at_new);
            scope.spawn(move || {
                let mut buffer = [0; 16];
                while !stop.load(Relaxed) {
                    if receiver.recv(&mut buffer).is_ok() {
                        received.fetch_add(1, Relaxed);
                        if number == 1 {
                            let mut first = first_at_new.lock().expect("no holder panics");
                            first.get_or_insert_with(Instant::now);
                        }
                    }
                }
            });
        }
        thread::sleep(duration / 2);
        let began = Instant::now();
        testbed.migrate(vm, server)?;
        while began.elapsed() < duration / 2 {
            thread::sleep(SAMPLE);
            let misdelivered = total(testbed, "MISDELIVERED")?;
            if misdelivered > moved.misdelivered {
                moved.misdelivered = misdelivered;
                moved.last_misdelivered = began.elapsed();
            }
        }
        let first = *first_at_new.lock().expect("no holder panics");
        moved.first_correct = first.map_or(duration, |first| first.duration_since(began));
        Ok(())
    })?;
    moved.sent = sent.into_inner();
    moved.received = received.into_inner();
    moved.invalidations = total(testbed, "INVALIDATIONS")?;
    let counts = testbed.counts()?;
    let gateways = &counts[testbed.layout().gateways()];
    moved.gateway_packets = gateways.iter().map(|counts| counts[counter("PACKETS")]).sum();
    Ok(moved)
}

/// Ends the threads, however the function ends.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A socket of the first machine of every server but these.
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

/// Of servers, what they returned; of switches, what they sent.
fn total(testbed: &Testbed, name: &str) -> anyhow::Result<u64> {
    let counts = testbed.counts()?;
    let switches = testbed.layout().switches();
    let of = if name == "MISDELIVERED" { &counts[switches..] } else { &counts[..switches] };
    Ok(of.iter().map(|counts| counts[counter(name)]).sum())
}
