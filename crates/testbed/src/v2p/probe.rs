//! One virtual datagram at a time, from any machine to any other by a chosen gateway.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    time::{Duration, Instant},
};

use anyhow::Context;
use policy::v2p::id_hash;
use rustix::net::{AddressFamily, SocketType, bind, ipproto, socket};
use switch::v2p::packet::Tunnelled;

use super::{Testbed, Tunnel, counter, layout::Node};

/// The port that datagrams are sent to and from, inside.
const PORT: u16 = 7_000;
/// Longest wait for a datagram or control packet: generous, for busy machines.
const WAIT: Duration = Duration::from_secs(20);
/// Outer headers, which the kernel writes.
const ETHER_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const VXLAN_PORT: u16 = 4_789;

/// The sockets.
#[derive(Debug, Default)]
pub struct Probe {
    senders: HashMap<Node, UdpSocket>,
    receivers: HashMap<(Node, u32), UdpSocket>,
}

impl Probe {
    /// Sends a datagram of `flow` by the flow's gateway, waits until it is received, and until
    /// every learning and invalidation packet has arrived.
    ///
    /// # Errors
    /// It is not received, or a socket fails.
    pub fn send(
        &mut self,
        testbed: &Testbed,
        source: u32,
        destination: u32,
        flow: u32,
    ) -> anyhow::Result<()> {
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
                new.insert(open_outer(testbed, from)?)
            }
        };
        let (written, port) = match testbed.tunnel() {
            Tunnel::Vxlan => (ETHER_BYTES + IP_BYTES + UDP_BYTES, VXLAN_PORT),
            Tunnel::IpInIp => (ETHER_BYTES + IP_BYTES, 0),
        };
        sender.send_to(&frame[written..], SocketAddrV4::new(outer.1, port))?;
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

/// A socket for packets in the tunnel. For IP-in-IP it is a raw socket, used like one of UDP.
fn open_outer(testbed: &Testbed, node: Node) -> anyhow::Result<UdpSocket> {
    let address = testbed.layout().address(node);
    if testbed.tunnel() == Tunnel::Vxlan {
        return open(testbed, node, address, 0);
    }
    testbed.namespaces().inside(node, || {
        let what = || format!("cannot open a raw socket at {address}");
        let raw =
            socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::IPIP)).with_context(what)?;
        bind(&raw, &SocketAddrV4::new(address, 0)).with_context(what)?;
        Ok(UdpSocket::from(raw))
    })
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
