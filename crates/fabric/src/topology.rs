//! The elements of a fabric: pods, racks, servers, switches, gateways, links and cache memory.

use policy::v2p::Role;

use crate::{Error, network::Shape};

/// A fat tree: pods of racks and spines, joined by cores.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Pods.
    pub pods: u32,
    /// Racks in a pod, each with one ToR switch.
    pub racks_per_pod: u32,
    /// Servers in a rack.
    pub servers_per_rack: u32,
    /// Spine switches in a pod.
    pub spines_per_pod: u32,
    /// Core switches; a multiple of `spines_per_pod`, or 0 with a single pod. Spine `s` of every
    /// pod connects to cores `s * c .. (s + 1) * c`, where `c` is `cores / spines_per_pod`.
    pub cores: u32,
    /// The racks that hold gateways, ascending, and how many each holds.
    pub gateways: Vec<GatewayRack>,
    /// The initial server of each virtual machine; servers are numbered rack by rack.
    pub placement: Vec<u32>,
    /// Link between a server or gateway and its ToR.
    pub host_link: Link,
    /// Link between two switches.
    pub fabric_link: Link,
    /// Queue capacity of one port of a switch or host, in bytes; packets beyond it are dropped.
    pub buffer_bytes: u64,
    /// Time that a gateway takes for a packet, in nanoseconds.
    pub gateway_delay_ns: u64,
    /// Division of cache memory between switches of different roles.
    pub memory: Memory,
}

/// Gateways of one rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayRack {
    /// The rack, numbered over all pods.
    pub rack: u32,
    /// Its gateways.
    pub gateways: u32,
}

/// Rate and delay of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Bits per second.
    pub rate_bps: u64,
    /// Propagation delay, nanoseconds.
    pub delay_ns: u64,
}

/// Relative cache memory of a switch, by role (§4, "heterogeneous memory allocation").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// ToR switches without gateways.
    pub tor: f64,
    /// ToR switches with gateways.
    pub gateway_tor: f64,
    /// Spines of pods without gateways.
    pub spine: f64,
    /// Spines of pods with gateways.
    pub gateway_spine: f64,
    /// Core switches.
    pub core: f64,
}

impl Default for Memory {
    fn default() -> Self {
        Self { tor: 1.0, gateway_tor: 1.0, spine: 1.0, gateway_spine: 1.0, core: 1.0 }
    }
}

impl Memory {
    fn of(&self, role: Role) -> f64 {
        match role {
            Role::Tor => self.tor,
            Role::GatewayTor => self.gateway_tor,
            Role::Spine => self.spine,
            Role::GatewaySpine => self.gateway_spine,
            Role::Core => self.core,
        }
    }
}

impl Topology {
    /// FT8-10K (Table 3): 8 pods, 128 servers, 40 gateways, 10,240 virtual machines.
    #[must_use]
    pub fn ft8_10k() -> Self {
        let gateways = [0, 10, 20, 31].map(|rack| GatewayRack { rack, gateways: 10 }).to_vec();
        Self::fat_tree(8, 4, 4, 4, 16, gateways).with_vms_per_server(80)
    }

    /// FT16-400K (Table 3): 50 pods, 12,800 servers, 250 gateways, 410,865 virtual machines.
    #[must_use]
    pub fn ft16_400k() -> Self {
        const VMS: u64 = 410_865;
        let gateways =
            (0..50).step_by(2).map(|pod| GatewayRack { rack: pod * 8 + 7, gateways: 10 }).collect();
        let mut topology = Self::fat_tree(50, 8, 32, 8, 16, gateways);
        let servers = u64::from(topology.servers());
        topology.placement = (0..VMS).map(|vm| (vm * servers / VMS) as u32).collect();
        topology
    }

    /// A fat tree with the paper's links and no virtual machines yet.
    #[must_use]
    pub fn fat_tree(
        pods: u32,
        racks_per_pod: u32,
        servers_per_rack: u32,
        spines_per_pod: u32,
        cores: u32,
        gateways: Vec<GatewayRack>,
    ) -> Self {
        Self {
            pods,
            racks_per_pod,
            servers_per_rack,
            spines_per_pod,
            cores,
            gateways,
            placement: Vec::new(),
            host_link: Link { rate_bps: 100_000_000_000, delay_ns: 1000 },
            fabric_link: Link { rate_bps: 400_000_000_000, delay_ns: 1000 },
            buffer_bytes: 32 << 20,
            gateway_delay_ns: 40_000,
            memory: Memory::default(),
        }
    }

    /// The same number of virtual machines on every server, in order.
    #[must_use]
    pub fn with_vms_per_server(mut self, vms: u32) -> Self {
        self.placement =
            (0..self.servers()).flat_map(|server| (0..vms).map(move |_| server)).collect();
        self
    }

    /// Racks, hence ToR switches.
    #[must_use]
    pub fn racks(&self) -> u32 {
        self.pods * self.racks_per_pod
    }

    /// Servers of the whole fabric.
    #[must_use]
    pub fn servers(&self) -> u32 {
        self.racks() * self.servers_per_rack
    }

    /// Spine switches of the whole fabric.
    #[must_use]
    pub fn spines(&self) -> u32 {
        self.pods * self.spines_per_pod
    }

    /// Switches of the whole fabric, numbered cores first, then spines, then ToRs.
    #[must_use]
    pub fn switches(&self) -> u32 {
        self.cores + self.spines() + self.racks()
    }

    /// The role of each switch.
    #[must_use]
    pub fn roles(&self) -> Vec<Role> {
        let shape = Shape::new(self);
        (0..self.switches()).map(|switch| shape.role(switch)).collect()
    }

    /// The virtual address of each virtual machine. They count machines server by server, and each
    /// rack's gateways after its servers.
    #[must_use]
    pub fn virtual_addresses(&self) -> Vec<u32> {
        let mut by_server: Vec<(u32, u32)> = self.placement.iter().copied().zip(0..).collect();
        by_server.sort_unstable();
        let mut gateways = self.gateways.iter().peekable();
        let mut before = 0;
        let mut addresses = vec![0; self.placement.len()];
        for (place, (server, vm)) in by_server.into_iter().enumerate() {
            let rack = server / self.servers_per_rack;
            while let Some(passed) = gateways.next_if(|gateways| gateways.rack < rack) {
                before += passed.gateways;
            }
            addresses[vm as usize] = place as u32 + before;
        }
        addresses
    }

    /// Cache entries of each switch when `total` are divided between those whose role `caches`, in
    /// proportion to their memory, rounded down.
    #[must_use]
    pub fn entries_by_switch(&self, total: u64, caches: impl Fn(Role) -> bool) -> Vec<u32> {
        let weight = |role: Role| if caches(role) { self.memory.of(role) } else { 0.0 };
        let weights: Vec<f64> = self.roles().into_iter().map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let share = |weight| if sum > 0.0 { (total as f64 * weight / sum) as u32 } else { 0 };
        weights.into_iter().map(share).collect()
    }

    /// Gateways of the whole fabric.
    #[must_use]
    pub fn gateway_count(&self) -> u32 {
        self.gateways.iter().map(|rack| rack.gateways).sum()
    }

    /// Virtual machines.
    #[must_use]
    pub fn vms(&self) -> u32 {
        self.placement.len() as u32
    }

    /// Checks the values before anything is built.
    ///
    /// # Errors
    ///
    /// [`Error::Topology`] names the field.
    pub fn check(&self) -> Result<(), Error> {
        let at_least_one = [
            ("pods", self.pods),
            ("racks_per_pod", self.racks_per_pod),
            ("servers_per_rack", self.servers_per_rack),
            ("spines_per_pod", self.spines_per_pod),
        ];
        for (what, value) in at_least_one {
            require(what, value > 0, "at least 1", value)?;
        }
        // Physical addresses are pod.rack.host.1, switches' pods count on from there.
        require("pods", self.pods <= 84, "at most 84", self.pods)?;
        require("racks_per_pod", self.racks_per_pod <= 255, "at most 255", self.racks_per_pod)?;
        require(
            "cores",
            self.cores.is_multiple_of(self.spines_per_pod),
            "a multiple of spines_per_pod",
            self.cores,
        )?;
        require(
            "cores",
            self.cores > 0 || self.pods == 1,
            "at least 1 with several pods",
            self.cores,
        )?;
        let links = [("host_link", self.host_link), ("fabric_link", self.fabric_link)];
        for (what, link) in links {
            require(what, link.rate_bps > 0, "a rate above 0", link.rate_bps)?;
        }
        let mut racks = self.gateways.iter().map(|rack| rack.rack);
        require(
            "gateways",
            racks.clone().is_sorted_by(|a, b| a < b),
            "ascending racks",
            "another order",
        )?;
        if let Some(rack) = racks.find(|rack| *rack >= self.racks()) {
            require("gateways", false, &format!("a rack number below {}", self.racks()), rack)?;
        }
        for rack in &self.gateways {
            let hosts = self.servers_per_rack + rack.gateways;
            require("gateways", hosts <= 255, "at most 255 servers and gateways in a rack", hosts)?;
        }
        if let Some(server) = self.placement.iter().find(|server| **server >= self.servers()) {
            require("placement", false, &format!("a server below {}", self.servers()), server)?;
        }
        Ok(())
    }
}

fn require(
    what: &'static str,
    holds: bool,
    expected: &str,
    got: impl std::fmt::Display,
) -> Result<(), Error> {
    if holds {
        return Ok(());
    }
    Err(Error::Topology { what, expected: expected.to_owned(), got: format!("{got}") })
}
