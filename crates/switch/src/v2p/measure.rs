//! Cost of a packet, by `BPF_PROG_TEST_RUN`, beside the smallest forwarders.

use std::net::Ipv4Addr;

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, MapData, ProgramArray},
    programs::{ProgramFd, Xdp},
};

use super::{
    config::Encapsulation,
    plane::{Plane, encapsulation, take},
};
use crate::{Error, object, plane::run};

const FRAME_BYTES: usize = 256;

/// A frame, and the virtual addresses it bears in turn.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// At most 256 bytes.
    pub frame: &'a [u8],
    /// Number of addresses, a power of two; 0 leaves the frame as it is.
    pub machines: u32,
    /// The first address.
    pub first: Ipv4Addr,
    /// Its offset in the frame.
    pub at: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    bytes: u32,
    machines: u32,
    first: u32,
    at: u32,
    counter: u32,
    unused: u32,
    frame: [u8; FRAME_BYTES],
}

// SAFETY: integers only, no padding.
#[allow(unsafe_code, reason = "what aya asks of a map's value")]
unsafe impl aya::Pod for Raw {}

/// The program to measure.
#[derive(Debug, Clone, Copy)]
pub enum Program<'a> {
    /// A switch.
    Switch(&'a Plane),
    /// Looks an address up and encapsulates.
    Encapsulate,
    /// Forwards what is encapsulated already.
    Forward,
    /// A program that does nothing: the cost of measuring.
    Nothing,
}

/// The smallest forwarders, and the program that runs others repeatedly.
pub struct Measure {
    next: ProgramArray<MapData>,
    requests: Array<MapData, Raw>,
    machines: HashMap<MapData, u32, u32>,
    ebpf: Ebpf,
}

impl std::fmt::Debug for Measure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Measure").finish_non_exhaustive()
    }
}

impl Measure {
    /// Loads them; what the encapsulating forwarder sends comes from `address`.
    ///
    /// # Errors
    /// This build has no data plane, or the kernel refuses.
    pub fn load(address: Ipv4Addr, between: Encapsulation) -> Result<Self, Error> {
        let (network, ip_in_ip) = encapsulation(between);
        let mut loader = EbpfLoader::new();
        let numbers =
            [("own_address", u32::from(address)), ("network", network), ("ip_in_ip", ip_in_ip)];
        for (name, number) in &numbers {
            loader.override_global(name, number, true);
        }
        let mut ebpf = loader
            .load(object::V2P_FLOOR.ok_or(Error::NotBuilt)?)
            .map_err(Error::kernel("cannot load what is measured with"))?;
        for name in ["again", "nothing", "only_forward", "encapsulate"] {
            let program = ebpf.program_mut(name).ok_or(Error::Missing(name))?;
            <&mut Xdp>::try_from(program).and_then(Xdp::load).map_err(Error::kernel(name))?;
        }
        let [next, requests, machines] =
            ["next", "requests", "machines"].map(|name| take(&mut ebpf, name));
        Ok(Self {
            next: ProgramArray::try_from(next?).map_err(Error::kernel("next"))?,
            requests: Array::try_from(requests?).map_err(Error::kernel("requests"))?,
            machines: HashMap::try_from(machines?).map_err(Error::kernel("machines"))?,
            ebpf,
        })
    }

    /// Tells the encapsulating forwarder where a machine is.
    ///
    /// # Errors
    /// Its table is full.
    pub fn add(&mut self, machine: Ipv4Addr, server: Ipv4Addr) -> Result<(), Error> {
        let [machine, server] = [machine, server].map(|address| u32::from(address).to_be());
        self.machines.insert(machine, server, 0).map_err(Error::kernel("machines"))
    }

    /// Nanoseconds a packet, measuring included, over `repeat` packets, and the last one's verdict.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn ns(
        &mut self,
        program: Program<'_>,
        request: Request<'_>,
        repeat: u32,
    ) -> Result<(u64, u32), Error> {
        let mut raw = Raw {
            bytes: request.frame.len() as u32,
            machines: request.machines,
            first: request.first.into(),
            at: request.at,
            counter: 0,
            unused: 0,
            frame: [0; FRAME_BYTES],
        };
        let bytes = request.frame.len().min(FRAME_BYTES);
        raw.frame[..bytes].copy_from_slice(&request.frame[..bytes]);
        self.requests.set(0, raw, 0).map_err(Error::kernel("requests"))?;
        let fd = match program {
            Program::Switch(plane) => plane.switch_fd()?,
            Program::Encapsulate => fd_of(&self.ebpf, "encapsulate")?,
            Program::Forward => fd_of(&self.ebpf, "only_forward")?,
            Program::Nothing => fd_of(&self.ebpf, "nothing")?,
        };
        self.next.set(0, fd, 0).map_err(Error::kernel("next"))?;
        let again = self.ebpf.program("again").ok_or(Error::Missing("again"))?;
        let outcome = run(again, request.frame, repeat)?;
        Ok((outcome.ns, outcome.verdict))
    }
}

pub(super) fn fd_of<'a>(ebpf: &'a Ebpf, name: &'static str) -> Result<&'a ProgramFd, Error> {
    let program = ebpf.program(name).ok_or(Error::Missing(name))?;
    let program = <&Xdp>::try_from(program).map_err(Error::kernel(name))?;
    program.fd().map_err(Error::kernel(name))
}
