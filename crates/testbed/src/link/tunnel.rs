//! A path for packets between two network namespaces. Needs root.
//!
//! Two TUN devices, one in each namespace; packets that the kernel sends into one leave the other
//! at the times of the [`Schedule`](super::Schedule). Handshakes, slow start and retransmissions
//! are the kernel's own, so results depend on its congestion control: note it beside them.
//!
//! - **Offload.** On a path without loss and faster than 1 Gbit/s the kernel hands over packets
//!   of up to 64 KiB, which cross whole; otherwise each packet on the wire is one here.
//! - **Cut.** Packets that enter are lost, and so are those in flight.
//! - **Layer 3.** There is no Ethernet header, so protocols that need one do not work across the
//!   tunnel.
//!
//! The devices vanish with the process, however it ends.

use std::io;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use super::handle::LinkHandle;
use super::schedule::PathConfig;
use super::stats::LinkCounters;
use worker::Worker;

mod device;
mod worker;

/// Rate, in bits per second, below which each packet on the wire is emulated on its own.
const OFFLOAD_BITS_PER_SECOND_MIN: u64 = 1_000_000_000;

/// An IPv4 address with the length of its network's prefix, as `10.0.0.1/30`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address itself.
    pub ip: Ipv4Addr,
    /// Prefix length of the network: 0 to 32.
    pub prefix_bits: u8,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (ip, prefix_bits) = text.split_once('/')?;
            let address = Self { ip: ip.parse().ok()?, prefix_bits: prefix_bits.parse().ok()? };
            (address.prefix_bits <= 32).then_some(address)
        };
        parse().ok_or_else(|| format!("`{text}` is not an address; write for example 10.0.0.1/30"))
    }
}

/// One end of a tunnel.
#[derive(Clone, Debug)]
pub struct TunnelEnd {
    /// The namespace's file, as `/run/netns/name` or `/proc/1234/ns/net`; `None` is this
    /// process's own.
    pub namespace: Option<PathBuf>,
    /// The device's name there, 15 bytes at most; `%d` in it becomes the first free number.
    pub device: String,
    /// The device's address; the rest of its network lies across the tunnel.
    pub address: Address,
}

/// Configuration of a tunnel: its ends and path.
#[derive(Clone, Debug)]
pub struct TunnelConfig {
    /// The client's end.
    pub a: TunnelEnd,
    /// The server's end.
    pub b: TunnelEnd,
    /// The path from a to b.
    pub up: PathConfig,
    /// The path back.
    pub down: PathConfig,
    /// Outages, as ranges of time since the start.
    pub cuts: Vec<Range<Duration>>,
    /// Seed of jitter and losses.
    pub seed: u64,
    /// Largest packet, in bytes.
    pub packet_bytes_max: u16,
    /// Limit on the bytes on the way in one direction; packets beyond it are dropped.
    pub buffer_bytes: usize,
    /// The time before a departure for which the thread polls instead of sleeping; see
    /// `RelayConfig`.
    pub spin: Duration,
}

impl TunnelConfig {
    /// A tunnel over a perfect path.
    #[must_use]
    pub fn new(a: TunnelEnd, b: TunnelEnd) -> Self {
        Self {
            a,
            b,
            up: PathConfig::default(),
            down: PathConfig::default(),
            cuts: Vec::new(),
            seed: 0,
            packet_bytes_max: 1500,
            buffer_bytes: 256 * 1024 * 1024,
            spin: Duration::from_micros(150),
        }
    }
}

/// Passes packets over an emulated path.
#[derive(Debug)]
pub struct Tunnel;

impl Tunnel {
    /// Starts a tunnel on a thread of its own. Its devices are up when this returns.
    ///
    /// # Errors
    ///
    /// Missing privileges to create devices, or an invalid namespace or device name.
    pub fn start(config: TunnelConfig) -> io::Result<LinkHandle> {
        let a = device::open(&config.a, config.packet_bytes_max, is_offloaded(&config.up))?;
        let b = device::open(&config.b, config.packet_bytes_max, is_offloaded(&config.down))?;
        let counters = Arc::new(LinkCounters::default());
        let control = Control::start("link-tunnel", |commands| {
            let worker = Worker::new(config, a, b, commands, Arc::clone(&counters));
            Ok(move || worker.run())
        })?;
        Ok(LinkHandle { counters, control })
    }
}

/// Whether packets larger than the wire's may enter: only where losing or delaying one of them
/// as a whole makes no difference.
fn is_offloaded(path: &PathConfig) -> bool {
    let is_fast = path.bits_per_second.is_none_or(|rate| rate > OFFLOAD_BITS_PER_SECOND_MIN);
    is_fast && path.loss == 0.0 && !path.reorder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let address = Address { ip: Ipv4Addr::new(10, 0, 0, 1), prefix_bits: 30 };
        assert_eq!("10.0.0.1/30".parse(), Ok(address));
        for wrong in ["", "10.0.0.1", "10.0.0.1/33", "10.0.0/8", "::1/64", "10.0.0.1/-1"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
