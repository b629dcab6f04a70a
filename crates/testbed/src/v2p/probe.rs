//! One virtual datagram at a time, from any machine to any other by a chosen gateway.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use policy::v2p::id_hash;
use switch::v2p::packet::Tunnelled;

use super::{Testbed, Tunnel, counter, layout::Node};

/// The port that datagrams are sent to and from, inside.
const PORT: u16 = 7_000;
/// Longest wait for a datagram or control packet: generous, for busy machines.
const WAIT: Duration = Duration::from_secs(20);
/// Outer headers, which the kernel writes.
const OUTER_BYTES: usize = 14 + 20 + 8;

/// The sockets.
#[derive(Debug, Default)]
pub struct Probe {
    senders: HashMap<Node, UdpSocket>,
    receivers: HashMap<(Node, u32), UdpSocket>,
}

impl Probe {
    /// Sends a datagram of `flow` by the flow's gateway, waits until it is received, and until every
    /// learning and invalidation packet has arrived.
    ///
    /// # Errors
    /// It is not received, a socket fails, or the tunnel is not VXLAN.
    pub fn send(
        &mut self,
        testbed: &Testbed,
        source: u32,
        destination: u32,
        flow: u32,
    ) -> anyhow::Result<()> {
        if testbed.tunnel() != Tunnel::Vxlan {
            bail!("expected VXLAN, whose packets any socket can send");
        }
        let layout = testbed.layout();
        let (from, to) = (testbed.home(source), testbed.home(destination));
        let gateways = layout.gateways();
        let gateway = gateways.start + id_hash(flow) as usize % gateways.len();
        let mut payload = Vec::new();
        for field in [PORT, PORT, 12, 0] {
            payload.extend(field.to_be_bytes());
        }
        payload.extend(flow.to_be_bytes());
        let outer = (layout.address(from), layout.address(gateway));
        let inner = (layout.machine(source), layout.machine(destination));
        let packet = Tunnelled { outer, hops: 64, port: 0, tags: None, inner, payload };
        let frame = packet.frame(testbed.tunnel().encapsulation());
        let receiver = match self.receivers.entry((to, destination)) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(open(testbed, to, layout.machine(destination), PORT)?)
            }
        };
        let sender = match self.senders.entry(from) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(open(testbed, from, layout.address(from), 0)?)
            }
        };
        sender.send_to(&frame[OUTER_BYTES..], SocketAddrV4::new(outer.1, 4789))?;
        let mut received = [0; 64];
        loop {
            let what = || format!("flow {flow} from {} to {} is lost", inner.0, inner.1);
            let bytes = receiver.recv(&mut received).with_context(what)?;
            if received[..bytes] == flow.to_be_bytes() {
                break;
            }
        }
        settle(testbed)
    }
}

fn open(testbed: &Testbed, node: Node, address: Ipv4Addr, port: u16) -> anyhow::Result<UdpSocket> {
    testbed.namespaces().inside(node, || {
        let what = || format!("cannot open a socket at {address}:{port}");
        let socket = UdpSocket::bind((address, port)).with_context(what)?;
        socket.set_read_timeout(Some(WAIT))?;
        Ok(socket)
    })
}

/// Waits until every learning and invalidation packet that was sent has arrived.
fn settle(testbed: &Testbed) -> anyhow::Result<()> {
    let until = Instant::now() + WAIT;
    loop {
        let counts = testbed.counts()?;
        let sum = |name: &str| counts.iter().map(|counts| counts[counter(name)]).sum::<u64>();
        let missing = sum("SENT").checked_sub(sum("ARRIVED"));
        match missing {
            Some(0) => return Ok(()),
            _ if Instant::now() > until => {
                return Err(io::Error::from(io::ErrorKind::TimedOut))
                    .context(format!("{missing:?} learning and invalidation packets are lost"));
            }
            _ => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}
