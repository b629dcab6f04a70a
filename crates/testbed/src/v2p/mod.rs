//! SwitchV2P switches in a fat tree of network namespaces on this machine: one namespace for each
//! switch, server and gateway, programs of crate `switch` at every interface, machines as addresses
//! of their server's overlay device.
//!
//! Read first: [`Testbed`]; then [`layout`], the addresses and links.

pub mod layout;
pub mod load;
pub mod migration;
pub mod namespaces;
mod offload;
pub mod probe;
mod unnamed;

use std::net::Ipv4Addr;

use anyhow::{Context, ensure};
use policy::v2p::Rules;
use switch::v2p::{
    attached::Attached,
    bits::COUNTS,
    config::{Encapsulation, Switch},
    end::{End, Kind},
    plane::{Counts, Host, Plane},
};

use layout::{FIRST_SWITCH, Layout, Node, RACKS_MAX};
use namespaces::{Namespaces, Overlay, UPLINK, interface};

/// VXLAN's network identifier.
const NETWORK: u32 = 42;

/// How virtual packets are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Tunnel {
    /// VXLAN
    Vxlan,
    /// IP-in-IP
    #[value(name = "ipip")]
    IpInIp,
}

impl Tunnel {
    /// The same for the programs.
    #[must_use]
    pub fn encapsulation(self) -> Encapsulation {
        match self {
            Self::Vxlan => Encapsulation::Vxlan(NETWORK),
            Self::IpInIp => Encapsulation::IpInIp,
        }
    }
}

/// A running tree.
#[derive(Debug)]
pub struct Testbed {
    layout: Layout,
    tunnel: Tunnel,
    switches: Vec<Plane>,
    /// Servers, then gateways.
    ends: Vec<End>,
    /// The node of each machine.
    homes: Vec<Node>,
    attached: Vec<Attached>,
    namespaces: Namespaces,
}

impl Testbed {
    /// Creates it, with caches of `entries` lines. It ends when it is dropped.
    ///
    /// # Errors
    /// The tree is larger than addresses allow, the process lacks privileges, or this build has no
    /// data plane.
    pub fn build(
        layout: Layout,
        tunnel: Tunnel,
        overlay: Overlay,
        entries: u32,
        rules: Rules,
    ) -> anyhow::Result<Self> {
        let racks = layout.topology.racks();
        ensure!(racks <= RACKS_MAX, "expected at most {RACKS_MAX} racks, found {racks}");
        ensure!(!layout.gateways().is_empty(), "expected at least 1 gateway, found none");
        let namespaces = Namespaces::build(&layout, tunnel, overlay)?;
        let homes = (0..layout.topology.vms()).map(|vm| layout.home(vm)).collect();
        let (switches, ends, attached) = (Vec::new(), Vec::new(), Vec::new());
        let mut testbed = Self { layout, tunnel, switches, ends, homes, attached, namespaces };
        for node in 0..testbed.layout.switches() {
            testbed.start_switch(node, entries, rules)?;
        }
        for node in testbed.layout.switches()..testbed.layout.nodes() {
            testbed.start_end(node)?;
        }
        Ok(testbed)
    }

    fn start_switch(&mut self, node: Node, entries: u32, rules: Rules) -> anyhow::Result<()> {
        let layout = &self.layout;
        let config = Switch {
            id: u16::try_from(node).context("more switches than identifiers")?,
            role: layout.roles()[node],
            first_address: FIRST_SWITCH,
            entries,
            pod: layout.pod(node),
            encapsulation: self.tunnel.encapsulation(),
            rules,
        };
        let links = layout.links();
        let at_node = links.iter().filter(|(upper, lower)| *upper == node || *lower == node);
        let interfaces: Vec<String> = at_node
            .map(|(upper, lower)| {
                interface(layout, node, if *upper == node { *lower } else { *upper })
            })
            .collect();
        let (plane, attached) = self.namespaces.inside(node, || {
            let mut plane = Plane::load(config)?;
            for gateway in layout.gateways() {
                plane.add_gateway(layout.address(gateway))?;
            }
            for host in layout.hosts(node) {
                let interface = switch::attach::number_of(&interface(layout, node, host))?;
                let is_gateway = layout.gateways().contains(&host);
                plane.add_host(Host { address: layout.address(host), interface, is_gateway })?;
            }
            let attached: Result<Vec<Attached>, _> =
                interfaces.iter().map(|interface| plane.attach(interface)).collect();
            Ok((plane, attached?))
        })?;
        self.switches.push(plane);
        self.attached.extend(attached);
        Ok(())
    }

    fn start_end(&mut self, node: Node) -> anyhow::Result<()> {
        let layout = &self.layout;
        let is_gateway = layout.gateways().contains(&node);
        let kind = if is_gateway { Kind::Gateway } else { Kind::Server };
        let gateways: Vec<Ipv4Addr> = layout.gateways().map(|node| layout.address(node)).collect();
        let (address, between) = (layout.address(node), self.tunnel.encapsulation());
        let mut end = End::load(kind, address, between, &gateways)?;
        for (vm, home) in (0..).zip(&self.homes) {
            if is_gateway || *home == node {
                end.add(layout.machine(vm), layout.address(*home))?;
            }
            if *home == node {
                self.namespaces.set_machine(node, layout.machine(vm), true)?;
            }
        }
        let attached = self.namespaces.inside(node, || Ok(end.attach(UPLINK)?))?;
        self.ends.push(end);
        self.attached.push(attached);
        Ok(())
    }

    /// Addresses, links and routes.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The network namespaces.
    #[must_use]
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// How virtual packets are carried.
    #[must_use]
    pub fn tunnel(&self) -> Tunnel {
        self.tunnel
    }

    /// The node that a machine is on.
    #[must_use]
    pub fn home(&self, vm: u32) -> Node {
        self.homes[vm as usize]
    }

    /// Moves a machine to another server. The new server takes its packets before the gateways name
    /// it, and the old server returns them only after that: no packet bounces between the old
    /// server and a gateway that names it.
    ///
    /// # Errors
    /// The machine is there already, or the kernel or `ip` refuses.
    pub fn migrate(&mut self, vm: u32, server: u32) -> anyhow::Result<()> {
        let (from, to) = (self.homes[vm as usize], self.layout.server(server));
        let (machine, first) = (self.layout.machine(vm), self.layout.switches());
        ensure!(from != to, "machine {machine}: expected another server to move to, found its own");
        self.namespaces.set_machine(to, machine, true)?;
        self.ends[to - first].add(machine, self.layout.address(to))?;
        for gateway in self.layout.gateways() {
            self.ends[gateway - first].add(machine, self.layout.address(to))?;
        }
        self.ends[from - first].remove(machine)?;
        self.namespaces.set_machine(from, machine, false)?;
        self.homes[vm as usize] = to;
        Ok(())
    }

    /// Counters of each node, by number.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counts(&self) -> anyhow::Result<Vec<Counts>> {
        let switches = self.switches.iter().map(Plane::counts);
        Ok(switches.chain(self.ends.iter().map(End::counts)).collect::<Result<_, _>>()?)
    }
}

/// The place of a counter.
///
/// # Panics
/// There is none of this name.
#[must_use]
pub fn counter(name: &str) -> usize {
    COUNTS.iter().position(|(known, _)| *known == name).expect("a counter's name")
}
