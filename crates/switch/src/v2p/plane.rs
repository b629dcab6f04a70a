//! A switch, loaded: its maps and its programs.

use std::{net::Ipv4Addr, os::fd::AsFd, path::Path, sync::atomic::AtomicU64};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, Map, MapData, PerCpuArray},
    programs::{ProgramFd, SchedClassifier, Xdp},
};
use policy::v2p::{Mapping, vip_hash};

use super::{
    attached::Attached,
    bits::COUNTS,
    config::{Encapsulation, Switch, top_of},
    measure::fd_of,
    rules,
};
use crate::{
    Error, loading,
    mapped::Mapped,
    object,
    plane::{Outcome, run},
};

/// Entries of the timestamp vector: one for each identifier.
const VECTOR: usize = 65_535;
/// No interface towards a host has a larger number.
const PORT_MAX: u32 = 16_383;
/// What outlives the process, if it is pinned.
const MAPS: [&str; 5] = ["lines", "vector", "addresses", "ports", "counters"];
/// In `addresses`: a gateway; a server or gateway of this rack.
const GATEWAY: u32 = 1;
const ATTACHED: u32 = 2;

/// Counters of a program, in the order of [`COUNTS`].
pub type Counts = [u64; COUNTS.len()];

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawCounts(Counts);

// SAFETY: integers only, no padding.
#[allow(unsafe_code, reason = "what aya asks of a map's value")]
unsafe impl aya::Pod for RawCounts {}

#[repr(C)]
#[derive(Clone, Copy)]
struct Port {
    address: u32,
    is_gateway: u32,
}

// SAFETY: integers only, no padding.
#[allow(unsafe_code, reason = "what aya asks of a map's value")]
unsafe impl aya::Pod for Port {}

/// A server or gateway in the rack of a ToR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Its physical address.
    pub address: Ipv4Addr,
    /// Number of the interface that it is behind.
    pub interface: u32,
    /// It is a gateway.
    pub is_gateway: bool,
}

/// The data plane of one switch.
pub struct Plane {
    /// The cache: a virtual address below, a physical one above, the access bit on top.
    pub lines: Mapped<AtomicU64>,
    /// When each switch was last sent an invalidation packet, in nanoseconds + 1.
    pub vector: Mapped<AtomicU64>,
    addresses: HashMap<MapData, u32, u32>,
    ports: Array<MapData, Port>,
    counters: PerCpuArray<MapData, RawCounts>,
    ebpf: Ebpf,
    config: Switch,
}

impl std::fmt::Debug for Plane {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Plane").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Plane {
    /// Loads the programs of a switch with an empty cache.
    ///
    /// # Errors
    /// This build has no data plane, a size is out of range, or the kernel refuses.
    pub fn load(config: Switch) -> Result<Self, Error> {
        Self::with_maps(config, None)
    }

    /// The same with maps that are pinned in a directory of a BPF file system; those that are there
    /// already are used as they are.
    ///
    /// # Errors
    /// As for [`Plane::load`].
    pub fn pinned(config: Switch, pins: &Path) -> Result<Self, Error> {
        Self::with_maps(config, Some(pins))
    }

    fn with_maps(config: Switch, pins: Option<&Path>) -> Result<Self, Error> {
        config.check()?;
        let mut ebpf = loaded(&config, pins)?;
        let counters = PerCpuArray::try_from(take(&mut ebpf, "counters")?)
            .map_err(Error::kernel("counters"))?;
        Ok(Self {
            lines: array(&mut ebpf, "lines", config.entries as usize)?,
            vector: array(&mut ebpf, "vector", VECTOR)?,
            addresses: HashMap::try_from(take(&mut ebpf, "addresses")?)
                .map_err(Error::kernel("addresses"))?,
            ports: Array::try_from(take(&mut ebpf, "ports")?).map_err(Error::kernel("ports"))?,
            counters,
            ebpf,
            config,
        })
    }

    /// Returns the configuration it was loaded with.
    pub fn config(&self) -> &Switch {
        &self.config
    }

    /// Adds a gateway: packets to it are treated as unresolved.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_gateway(&mut self, address: Ipv4Addr) -> Result<(), Error> {
        self.add_address(address, GATEWAY)
    }

    /// Makes a server or gateway of this rack known, as the only one behind its interface.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_host(&mut self, host: Host) -> Result<(), Error> {
        let port = Port { address: host.address.into(), is_gateway: u32::from(host.is_gateway) };
        self.set_port(host.interface, port)?;
        let gateway = if host.is_gateway { GATEWAY } else { 0 };
        self.add_address(host.address, ATTACHED | gateway)
    }

    /// Packets at this interface count as those of another switch again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove_interface(&mut self, interface: u32) -> Result<(), Error> {
        self.set_port(interface, Port { address: 0, is_gateway: 0 })
    }

    fn set_port(&mut self, interface: u32, port: Port) -> Result<(), Error> {
        if interface > PORT_MAX {
            let (what, max) = ("number of an interface towards a host", u64::from(PORT_MAX));
            return Err(Error::Size { what, min: 1, max, got: interface.into() });
        }
        self.ports.set(interface, port, 0).map_err(Error::kernel("ports"))
    }

    fn add_address(&mut self, address: Ipv4Addr, what: u32) -> Result<(), Error> {
        self.config.check_address("address of a gateway or host", address)?;
        let address = u32::from(address);
        let known = self.addresses.get(&address, 0).unwrap_or(0);
        self.addresses.insert(address, known | what, 0).map_err(Error::kernel("addresses"))
    }

    /// The mapping of the line that `vip` falls on, and its access bit.
    pub fn line_of(&self, vip: Ipv4Addr) -> (Mapping, bool) {
        read_line(&self.lines[(vip_hash(vip.into()) % self.config.entries) as usize])
    }

    /// Returns the sum of each of [`COUNTS`] over all processors.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counts(&self) -> Result<Counts, Error> {
        sum(&self.counters)
    }

    /// Puts the programs at an interface.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses.
    pub fn attach(&mut self, interface: &str) -> Result<Attached, Error> {
        Attached::xdp(&mut self.ebpf, "pass_switch", interface)?
            .and_behind(&mut self.ebpf, "send_noted")
    }

    pub(super) fn switch_fd(&self) -> Result<&ProgramFd, Error> {
        fd_of(&self.ebpf, "pass_switch")
    }

    /// Runs one frame through the program, without any network.
    ///
    /// # Errors
    /// The kernel refuses, for example a frame shorter than 14 bytes.
    pub fn run(&mut self, frame: &[u8], repeat: u32) -> Result<Passed, Error> {
        let program = self.ebpf.program("pass_switch").ok_or(Error::Missing("pass_switch"))?;
        Ok(Passed::new(run(program, frame, repeat)?, &self.config))
    }
}

/// A line of a cache.
pub fn read_line(line: &AtomicU64) -> (Mapping, bool) {
    let line = line.load(std::sync::atomic::Ordering::Relaxed);
    let pip = (line >> 32) as u32;
    (Mapping { vip: line as u32, pip: pip & Mapping::PIP_MAX }, pip > Mapping::PIP_MAX)
}

/// Result of one packet at a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The program's return value.
    pub verdict: u32,
    /// The frame it left.
    pub frame: Vec<u8>,
    /// The further packet that it wants sent.
    pub note: Option<Note>,
    /// Nanoseconds a packet took, over all repetitions.
    pub ns: u64,
}

/// A learning or invalidation packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The mapping is stale, else new.
    pub invalidation: bool,
    /// To which address.
    pub destination: Ipv4Addr,
    /// The mapping.
    pub mapping: Mapping,
}

const NOTE_MAGIC: [u8; 4] = 0x7632_704e_u32.to_le_bytes();
const NOTE_BYTES: usize = 24;

impl Passed {
    fn new(outcome: Outcome, config: &Switch) -> Self {
        let Outcome { verdict, mut frame, ns } = outcome;
        if !frame.starts_with(&NOTE_MAGIC) || frame.len() < NOTE_BYTES {
            return Self { verdict, frame, note: None, ns };
        }
        let note: Vec<u8> = frame.drain(..NOTE_BYTES).collect();
        let at = |at: usize| Ipv4Addr::new(note[at], note[at + 1], note[at + 2], note[at + 3]);
        let note = Note {
            invalidation: note[4] == 2,
            destination: at(8),
            mapping: Mapping { vip: at(12).into(), pip: config.pip(at(16)) },
        };
        Self { verdict, frame, note: Some(note), ns }
    }
}

fn loaded(config: &Switch, pins: Option<&Path>) -> Result<Ebpf, Error> {
    let (network, ip_in_ip) = encapsulation(config.encapsulation);
    let lines_mask = if config.entries.is_power_of_two() { config.entries - 1 } else { 0 };
    let numbers: [(&str, u32); 12] = [
        ("rules", rules::bits(config.role, &config.rules)),
        ("entries", config.entries),
        ("lines_mask", lines_mask),
        ("own_id", config.id.into()),
        ("own_address", config.address().into()),
        ("first_address", config.first_address.into()),
        ("pod_first", config.pip(config.pod.0)),
        ("pod_end", config.pip(config.pod.1).saturating_add(1)),
        ("address_top", top_of(config.first_address)),
        ("learn_max", rules::learn_max(config.rules.learn_probability)),
        ("ip_in_ip", ip_in_ip),
        ("network", network),
    ];
    let mut loader = EbpfLoader::new();
    loader.map_max_entries("lines", config.entries);
    loader.map_max_entries("ports", PORT_MAX + 1);
    if let Some(pins) = pins {
        for name in MAPS {
            loader.map_pin_path(name, pins.join(name));
        }
    }
    loader.override_global("base_rtt_ns", &config.rules.base_rtt_ns, true);
    for (name, number) in &numbers {
        loader.override_global(name, number, true);
    }
    let mut ebpf = loader
        .load(object::V2P.ok_or(Error::NotBuilt)?)
        .map_err(Error::kernel("cannot load the data plane of a SwitchV2P switch"))?;
    for name in ["pass_switch", "send_noted"] {
        let program = ebpf.program_mut(name).ok_or(Error::Missing(name))?;
        let loaded = loading::uninterrupted(loading::is_interrupted, || match name {
            "pass_switch" => <&mut Xdp>::try_from(&mut *program).and_then(Xdp::load),
            _ => <&mut SchedClassifier>::try_from(&mut *program).and_then(SchedClassifier::load),
        });
        loaded.map_err(Error::kernel(format!("the kernel refuses program {name}")))?;
    }
    Ok(ebpf)
}

/// Network identifier, and whether there is none.
pub(super) fn encapsulation(of: Encapsulation) -> (u32, u32) {
    match of {
        Encapsulation::Vxlan(network) => (network, 0),
        Encapsulation::IpInIp => (0, 1),
    }
}

pub(super) fn take(ebpf: &mut Ebpf, name: &'static str) -> Result<Map, Error> {
    ebpf.take_map(name).ok_or(Error::Missing(name))
}

pub(super) fn sum(counters: &PerCpuArray<MapData, RawCounts>) -> Result<Counts, Error> {
    let mut counts = [0; COUNTS.len()];
    for processor in counters.get(&0, 0).map_err(Error::kernel("counters"))?.iter() {
        for (sum, count) in counts.iter_mut().zip(processor.0) {
            *sum += count;
        }
    }
    Ok(counts)
}

fn array(ebpf: &mut Ebpf, name: &'static str, length: usize) -> Result<Mapped<AtomicU64>, Error> {
    let Map::Array(data) = take(ebpf, name)? else { return Err(Error::Missing(name)) };
    Mapped::new(data.fd().as_fd(), length)
}
