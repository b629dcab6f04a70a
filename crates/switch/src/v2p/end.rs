//! The ends of the overlay, loaded: a gateway, and a server.

use std::net::Ipv4Addr;

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, MapData, PerCpuArray},
    programs::Xdp,
};

use super::{
    attached::Attached,
    config::{Encapsulation, top_of},
    plane::{Counts, RawCounts, encapsulation, sum, take},
};
use crate::{
    Error, loading, object,
    plane::{Outcome, run},
};

/// What is at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It knows where every machine is, and sends packets on.
    Gateway,
    /// It has machines. What comes for others goes to a gateway.
    Server,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::Gateway => "pass_gateway",
            Self::Server => "pass_server",
        }
    }
}

/// The program of a gateway or server.
pub struct End {
    kind: Kind,
    machines: HashMap<MapData, u32, u32>,
    counters: PerCpuArray<MapData, RawCounts>,
    ebpf: Ebpf,
}

impl std::fmt::Debug for End {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("End").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl End {
    /// Loads the program of the gateway or server at `address`; a server sends what it cannot
    /// deliver to one of `gateways`.
    ///
    /// # Errors
    /// This build has no data plane, or the kernel refuses.
    pub fn load(
        kind: Kind,
        address: Ipv4Addr,
        between: Encapsulation,
        gateways: &[Ipv4Addr],
    ) -> Result<Self, Error> {
        let (network, ip_in_ip) = encapsulation(between);
        let numbers = [
            ("own_address", u32::from(address)),
            ("address_top", top_of(address)),
            ("network", network),
            ("ip_in_ip", ip_in_ip),
            ("gateways_known", gateways.len() as u32),
        ];
        let mut loader = EbpfLoader::new();
        for (name, number) in &numbers {
            loader.override_global(name, number, true);
        }
        let mut ebpf = loader
            .load(object::V2P_END.ok_or(Error::NotBuilt)?)
            .map_err(Error::kernel("cannot load the program of a gateway or server"))?;
        let name = kind.program();
        let program = ebpf.program_mut(name).ok_or(Error::Missing(name))?;
        loading::uninterrupted(loading::is_interrupted, || {
            <&mut Xdp>::try_from(&mut *program).and_then(Xdp::load)
        })
        .map_err(Error::kernel(format!("the kernel refuses program {name}")))?;
        let mut known: Array<MapData, u32> =
            Array::try_from(take(&mut ebpf, "gateways")?).map_err(Error::kernel("gateways"))?;
        for (number, gateway) in (0..).zip(gateways) {
            known.set(number, u32::from(*gateway), 0).map_err(Error::kernel("gateways"))?;
        }
        let machines = take(&mut ebpf, "machines")?;
        let counters = take(&mut ebpf, "counters")?;
        Ok(Self {
            kind,
            machines: HashMap::try_from(machines).map_err(Error::kernel("machines"))?,
            counters: PerCpuArray::try_from(counters).map_err(Error::kernel("counters"))?,
            ebpf,
        })
    }

    /// A gateway: the machine `vip` is at `server` from now on. A server, which is told its own
    /// address: it has the machine.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add(&mut self, vip: Ipv4Addr, server: Ipv4Addr) -> Result<(), Error> {
        let (vip, server) = (u32::from(vip), u32::from(server));
        self.machines.insert(vip, server, 0).map_err(Error::kernel("machines"))
    }

    /// The machine is gone.
    ///
    /// # Errors
    /// It was not known, or the kernel refuses.
    pub fn remove(&mut self, vip: Ipv4Addr) -> Result<(), Error> {
        let what = format!("machine {vip}");
        self.machines.remove(&u32::from(vip)).map_err(Error::kernel(what))
    }

    /// Puts the program at the interface towards the ToR.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses.
    pub fn attach(&mut self, interface: &str) -> Result<Attached, Error> {
        Attached::xdp(&mut self.ebpf, self.kind.program(), interface)
    }

    /// Returns the sum of each of [`super::bits::COUNTS`] over all processors.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counts(&self) -> Result<Counts, Error> {
        sum(&self.counters)
    }

    /// Runs one frame through the program, without any network.
    ///
    /// # Errors
    /// The kernel refuses, for example a frame shorter than 14 bytes.
    pub fn run(&mut self, frame: &[u8]) -> Result<Outcome, Error> {
        let name = self.kind.program();
        run(self.ebpf.program(name).ok_or(Error::Missing(name))?, frame, 1)
    }
}
