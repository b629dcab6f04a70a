//! Packets of the overlay, written for tests and tools, and read for people.

use std::net::Ipv4Addr;

use super::config::Encapsulation;
use crate::frame::ones_complement;

const OPTION: u8 = 94;
const OPTION_BYTES: usize = 20;
const CONTROL_PORT: u16 = 333;
const CONTROL_MAGIC: [u8; 4] = *b"v2p1";
const VXLAN_PORT: u16 = 4789;
const CONTROL_BYTES: usize = 64;

/// The option in the outer header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tags {
    /// Hit tag: 1 + the identifier of the switch that resolved the packet, or 0.
    pub hit: u16,
    /// A spilled or promoted entry: virtual and physical address.
    pub entry: Option<(Ipv4Addr, Ipv4Addr)>,
    /// The entry is promoted.
    pub promotion: bool,
    /// Misdelivery tag: the physical address that was wrong.
    pub misdelivered_from: Option<Ipv4Addr>,
    /// A server sends the packet back, not having the machine.
    pub returned: bool,
}

/// A tunnelled packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnelled {
    /// Outer addresses.
    pub outer: (Ipv4Addr, Ipv4Addr),
    /// Time to live of the outer header.
    pub hops: u8,
    /// Outer source port; 0 in IP-in-IP.
    pub port: u16,
    /// The option, if there is one.
    pub tags: Option<Tags>,
    /// Inner addresses.
    pub inner: (Ipv4Addr, Ipv4Addr),
    /// Behind the inner header.
    pub payload: Vec<u8>,
}

/// A learning or invalidation packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Addresses of the packet.
    pub outer: (Ipv4Addr, Ipv4Addr),
    /// The mapping is stale, else new.
    pub invalidation: bool,
    /// Virtual and physical address.
    pub mapping: (Ipv4Addr, Ipv4Addr),
}

/// A packet of the overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// Of a machine.
    Tunnelled(Tunnelled),
    /// Of a switch.
    Control(Control),
}

impl Tags {
    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![OPTION, OPTION_BYTES as u8];
        out.extend(self.hit.to_be_bytes());
        out.extend([u8::from(self.promotion) | u8::from(self.returned) << 1, 0, 0, 0]);
        let none = Ipv4Addr::UNSPECIFIED;
        let (vip, pip) = self.entry.unwrap_or((none, none));
        for address in [vip, pip, self.misdelivered_from.unwrap_or(none)] {
            out.extend(address.octets());
        }
        out
    }

    fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() != OPTION_BYTES || bytes[..2] != [OPTION, OPTION_BYTES as u8] {
            return Err(format!("option of type {} with {} bytes", bytes[0], bytes.len()));
        }
        let some = |at| Some(address(bytes, at)).filter(|address| !address.is_unspecified());
        Ok(Self {
            hit: u16::from_be_bytes([bytes[2], bytes[3]]),
            entry: some(12).map(|pip| (address(bytes, 8), pip)),
            promotion: bytes[4] & 1 != 0,
            misdelivered_from: some(16),
            returned: bytes[4] & 2 != 0,
        })
    }
}

impl Tunnelled {
    /// The frame, all checksums right and that of the tunnel's UDP absent.
    #[must_use]
    pub fn frame(&self, encapsulation: Encapsulation) -> Vec<u8> {
        let inner = ipv4(self.inner, 64, 17, &[], &self.payload);
        let (protocol, payload) = match encapsulation {
            Encapsulation::IpInIp => (4, inner),
            Encapsulation::Vxlan(network) => {
                let mut vxlan = vec![8, 0, 0, 0];
                vxlan.extend((network << 8).to_be_bytes());
                vxlan.extend([2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0]);
                vxlan.extend(inner);
                (17, udp((self.port, VXLAN_PORT), &vxlan))
            }
        };
        let option = self.tags.map(|tags| tags.bytes()).unwrap_or_default();
        ethernet(&ipv4(self.outer, self.hops, protocol, &option, &payload))
    }
}

impl Control {
    /// The frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let mut control = CONTROL_MAGIC.to_vec();
        control.extend([1 + u8::from(self.invalidation), 0, 0, 0]);
        control.extend(self.mapping.0.octets());
        control.extend(self.mapping.1.octets());
        control.resize(CONTROL_BYTES, 0);
        ethernet(&ipv4(self.outer, 64, 17, &[], &udp((CONTROL_PORT, CONTROL_PORT), &control)))
    }
}

impl Packet {
    /// Reads a frame; the checksum of its outer header is checked.
    ///
    /// # Errors
    /// The error describes the defect.
    pub fn read(frame: &[u8]) -> Result<Self, String> {
        let ip = frame.get(14..).filter(|ip| ip.len() >= 20).ok_or("too short")?;
        if frame[12..14] != [8, 0] || ip[0] >> 4 != 4 {
            return Err("not IPv4".into());
        }
        let head = usize::from(ip[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let header = ip.get(..head).filter(|_| head >= 20).ok_or("the header is cut")?;
        let payload = ip.get(head..total).ok_or("the packet is cut")?;
        if ones_complement(header) != 0xffff {
            return Err("the checksum of the outer header is wrong".into());
        }
        let outer = (address(ip, 12), address(ip, 16));
        let tags = (head > 20).then(|| Tags::read(&header[20..])).transpose()?;
        let (port, inner) = match header[9] {
            4 => (0, payload),
            17 => {
                let ports = payload.get(..8).ok_or("the tunnel's header is cut")?;
                let to = u16::from_be_bytes([ports[2], ports[3]]);
                if to == CONTROL_PORT {
                    return Self::read_control(outer, &payload[8..]);
                }
                if to != VXLAN_PORT {
                    return Err(format!("UDP port {to} is no tunnel's"));
                }
                let inner = payload.get(30..).ok_or("the tunnel's header is cut")?;
                (u16::from_be_bytes([ports[0], ports[1]]), inner)
            }
            other => return Err(format!("protocol {other} is no tunnel")),
        };
        if inner.len() < 20 {
            return Err("the inner header is cut".into());
        }
        Ok(Self::Tunnelled(Tunnelled {
            outer,
            hops: header[8],
            port,
            tags,
            inner: (address(inner, 12), address(inner, 16)),
            payload: inner[20..].to_vec(),
        }))
    }

    fn read_control(outer: (Ipv4Addr, Ipv4Addr), control: &[u8]) -> Result<Self, String> {
        if control.len() != CONTROL_BYTES || control[..4] != CONTROL_MAGIC {
            return Err("neither a learning nor an invalidation packet".into());
        }
        let mapping = (address(control, 8), address(control, 12));
        Ok(Self::Control(Control { outer, invalidation: control[4] == 2, mapping }))
    }
}

fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    out.extend(packet);
    out
}

fn ipv4(
    (source, destination): (Ipv4Addr, Ipv4Addr),
    hops: u8,
    protocol: u8,
    option: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let head = 20 + option.len();
    let mut out = vec![0x40 | (head / 4) as u8, 0];
    out.extend(((head + payload.len()) as u16).to_be_bytes());
    out.extend([0, 1, 0, 0, hops, protocol, 0, 0]);
    out.extend(source.octets());
    out.extend(destination.octets());
    out.extend(option);
    let checksum = !ones_complement(&out);
    out[10..12].copy_from_slice(&checksum.to_be_bytes());
    out.extend(payload);
    out
}

fn udp((from, to): (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut out = from.to_be_bytes().to_vec();
    out.extend(to.to_be_bytes());
    out.extend(((8 + payload.len()) as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    out
}
