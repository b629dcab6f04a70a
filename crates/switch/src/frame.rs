//! Ethernet frames: written for tests and measurements, read for people.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The headers around a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// VLAN tags, the outermost first.
    pub vlans: Vec<u16>,
    /// Source.
    pub source: SocketAddr,
    /// Destination, of the same IP version.
    pub destination: SocketAddr,
    /// UDP or TCP.
    pub transport: Transport,
    /// Hop limit.
    pub hops: u8,
    /// TCP: the number of the first byte.
    pub sequence: u32,
}

/// The transport protocol of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A datagram.
    Udp,
    /// A segment, pushed and acknowledging.
    Tcp,
}

impl Transport {
    fn number(self) -> u8 {
        match self {
            Self::Udp => 17,
            Self::Tcp => 6,
        }
    }
}

impl Frame {
    /// A datagram without VLAN tags.
    pub fn udp(source: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            vlans: Vec::new(),
            source,
            destination,
            transport: Transport::Udp,
            hops: 64,
            sequence: 1,
        }
    }

    /// The frame around `payload`, with correct checksums.
    pub fn bytes(&self, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for vlan in &self.vlans {
            out.extend([0x81, 0]);
            out.extend(vlan.to_be_bytes());
        }
        let transport = self.transport_bytes(payload);
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                out.extend([8, 0]);
                out.extend(self.ipv4(source, destination, transport.len()));
            }
            _ => {
                out.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                out.extend((transport.len() as u16).to_be_bytes());
                out.extend([self.transport.number(), self.hops]);
                out.extend(ip_bytes(self.source.ip()));
                out.extend(ip_bytes(self.destination.ip()));
            }
        }
        out.extend(transport);
        out
    }

    fn ipv4(&self, source: Ipv4Addr, destination: Ipv4Addr, bytes: usize) -> Vec<u8> {
        let mut header = vec![0x45, 0];
        header.extend(((20 + bytes) as u16).to_be_bytes());
        header.extend([0, 1, 0x40, 0, self.hops, self.transport.number(), 0, 0]);
        header.extend(source.octets());
        header.extend(destination.octets());
        let checksum = !ones_complement(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    fn transport_bytes(&self, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.source.port().to_be_bytes());
        out.extend(self.destination.port().to_be_bytes());
        let at = match self.transport {
            Transport::Udp => {
                out.extend(((8 + payload.len()) as u16).to_be_bytes());
                out.extend([0, 0]);
                6
            }
            Transport::Tcp => {
                out.extend(self.sequence.to_be_bytes());
                out.extend([0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
                16
            }
        };
        out.extend(payload);
        let checksum = !ones_complement(&[self.pseudo_header(out.len()), out.clone()].concat());
        let checksum = if checksum == 0 { 0xffff } else { checksum };
        out[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        out
    }

    fn pseudo_header(&self, bytes: usize) -> Vec<u8> {
        let mut out = ip_bytes(self.source.ip());
        out.extend(ip_bytes(self.destination.ip()));
        out.extend([0, self.transport.number()]);
        out.extend((bytes as u16).to_be_bytes());
        out
    }

    /// Reads a frame, its lengths and checksums, and the payload.
    ///
    /// # Errors
    /// The error describes the defect.
    pub fn read(bytes: &[u8]) -> Result<(Self, Vec<u8>), String> {
        Self::parse(bytes, true)
    }

    /// As [`Frame::read`], without checking checksums.
    ///
    /// # Errors
    /// The error describes the defect.
    pub fn read_unchecked(bytes: &[u8]) -> Result<(Self, Vec<u8>), String> {
        Self::parse(bytes, false)
    }

    fn parse(bytes: &[u8], checked: bool) -> Result<(Self, Vec<u8>), String> {
        let short = || format!("the frame ends after {} bytes", bytes.len());
        let mut at = 12;
        let mut vlans = Vec::new();
        let u16_at = |at: usize| {
            bytes.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]])).ok_or_else(short)
        };
        while matches!(u16_at(at)?, 0x8100 | 0x88a8) && vlans.len() < 2 {
            vlans.push(u16_at(at + 2)?);
            at += 4;
        }
        let kind = u16_at(at)?;
        at += 2;
        let slice = |from: usize, to: usize| bytes.get(from..to).ok_or_else(short);
        let (source, destination, number, hops, length, header) = match kind {
            0x0800 => {
                let header = slice(at, at + 20)?;
                if checked && ones_complement(header) != 0xffff {
                    return Err("the IPv4 checksum is wrong".into());
                }
                let length = usize::from(u16_at(at + 2)?).checked_sub(20).ok_or_else(short)?;
                (v4(&header[12..16]), v4(&header[16..20]), header[9], header[8], length, 20)
            }
            0x86dd => {
                let header = slice(at, at + 40)?;
                let length = usize::from(u16_at(at + 4)?);
                (v6(&header[8..24]), v6(&header[24..40]), header[6], header[7], length, 40)
            }
            _ => return Err(format!("type {kind:#06x} is neither IPv4 nor IPv6")),
        };
        at += header;
        let transport = match number {
            17 => Transport::Udp,
            6 => Transport::Tcp,
            _ => return Err(format!("protocol {number} is neither UDP nor TCP")),
        };
        let segment = slice(at, at + length)?;
        let (source, destination) =
            (SocketAddr::new(source, u16_at(at)?), SocketAddr::new(destination, u16_at(at + 2)?));
        let sequence = match transport {
            Transport::Udp => 1,
            Transport::Tcp => {
                u32::from_be_bytes(slice(at + 4, at + 8)?.try_into().unwrap_or([0; 4]))
            }
        };
        let frame = Self { vlans, source, destination, transport, hops, sequence };
        let header = match transport {
            Transport::Udp if usize::from(u16_at(at + 4)?) != length => {
                return Err("the lengths of IP and UDP differ".into());
            }
            Transport::Udp => 8,
            Transport::Tcp => usize::from(segment.get(12).ok_or_else(short)? >> 4) * 4,
        };
        let unchecked = !checked || transport == Transport::Udp && u16_at(at + 6)? == 0;
        let whole = [frame.pseudo_header(length), segment.to_vec()].concat();
        if !unchecked && ones_complement(&whole) != 0xffff {
            return Err("the checksum of the transport is wrong".into());
        }
        Ok((frame, segment.get(header..).ok_or_else(short)?.to_vec()))
    }
}

fn ip_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn v4(bytes: &[u8]) -> IpAddr {
    let mut octets = [0; 4];
    octets.copy_from_slice(bytes);
    IpAddr::from(octets)
}

fn v6(bytes: &[u8]) -> IpAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(bytes);
    IpAddr::from(octets)
}

/// The ones' complement sum of 16-bit words, the last padded.
pub fn ones_complement(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|two| {
        u64::from(u16::from_be_bytes([two[0], two.get(1).copied().unwrap_or_default()]))
    });
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
