//! Arithmetic of a fat tree: neighbours and ports.

use policy::v2p::Role;

use crate::{ecmp::Address, topology::Topology};

#[derive(Debug)]
pub(crate) struct Shape {
    pub switches: u32,
    pub first_spine: u32,
    pub first_tor: u32,
    pub spines_per_pod: u32,
    /// Cores above each spine.
    pub uplinks: u32,
    /// Ports below this number belong to hosts or lead to hosts.
    pub host_ports: u32,
    pub hosts: u32,
    racks_per_pod: u32,
    pods: u32,
    servers_per_rack: u32,
    tor_of_host: Vec<u32>,
    /// First host of each rack, and one past the last host.
    rack_hosts: Vec<u32>,
    pod_of_tor: Vec<u32>,
    pod_of_spine: Vec<u32>,
    gateways: Vec<u32>,
    gateway_pods: Vec<bool>,
}

impl Shape {
    pub(crate) fn new(topology: &Topology) -> Self {
        let first_tor = topology.cores + topology.spines();
        let switches = topology.switches();
        let mut shape = Self {
            switches,
            first_spine: topology.cores,
            first_tor,
            spines_per_pod: topology.spines_per_pod,
            uplinks: topology.cores / topology.spines_per_pod,
            host_ports: 0,
            hosts: 0,
            racks_per_pod: topology.racks_per_pod,
            pods: topology.pods,
            servers_per_rack: topology.servers_per_rack,
            tor_of_host: Vec::new(),
            rack_hosts: vec![switches],
            pod_of_tor: (0..topology.racks()).map(|rack| rack / topology.racks_per_pod).collect(),
            pod_of_spine: (0..topology.spines())
                .map(|spine| spine / topology.spines_per_pod)
                .collect(),
            gateways: Vec::new(),
            gateway_pods: vec![false; topology.pods as usize],
        };
        for rack in 0..topology.racks() {
            shape.add_rack(topology, rack);
        }
        shape.hosts = shape.tor_of_host.len() as u32;
        shape.host_ports = 2 * shape.hosts;
        shape
    }

    fn add_rack(&mut self, topology: &Topology, rack: u32) {
        let here = topology.gateways.iter().find(|gateways| gateways.rack == rack);
        let gateways = here.map_or(0, |here| here.gateways);
        let first_gateway =
            self.switches + self.tor_of_host.len() as u32 + topology.servers_per_rack;
        self.gateways.extend(first_gateway..first_gateway + gateways);
        self.gateway_pods[(rack / topology.racks_per_pod) as usize] |= gateways > 0;
        let hosts = topology.servers_per_rack + gateways;
        self.tor_of_host.extend((0..hosts).map(|_| self.first_tor + rack));
        self.rack_hosts.push(self.switches + self.tor_of_host.len() as u32);
    }

    pub(crate) fn ports(&self) -> u32 {
        let spines = self.first_tor - self.first_spine;
        let tors = self.switches - self.first_tor;
        self.host_ports + 2 * tors * self.spines_per_pod + 2 * spines * self.uplinks
    }

    /// The node of each port, and that at its other end.
    pub(crate) fn ends(&self) -> Vec<(u32, u32)> {
        let mut ends = vec![(0, 0); self.ports() as usize];
        let mut set = |from, (port, to): (u32, u32)| ends[port as usize] = (from, to);
        for host in self.switches..self.switches + self.hosts {
            let tor = self.tor_of_host(host);
            set(host, (self.port_of_host(host), tor));
            set(tor, self.down_to_host(host));
        }
        for tor in self.first_tor..self.switches {
            (0..self.spines_per_pod).for_each(|turn| set(tor, self.up_from_tor(tor, turn)));
        }
        for spine in self.first_spine..self.first_tor {
            let tors = self.first_tor + self.pod_of_spine(spine) * self.racks_per_pod;
            (tors..tors + self.racks_per_pod)
                .for_each(|tor| set(spine, self.down_from_spine(spine, tor)));
            (0..self.uplinks).for_each(|turn| set(spine, self.up_from_spine(spine, turn)));
        }
        for core in 0..self.first_spine {
            (0..self.pods).for_each(|pod| set(core, self.down_from_core(core, pod)));
        }
        ends
    }

    /// Gateways in the order that flows choose from.
    pub(crate) fn gateways(&self) -> &[u32] {
        &self.gateways
    }

    pub(crate) fn is_gateway(&self, host: u32) -> bool {
        let rack = self.tor_of_host(host) - self.first_tor;
        host - self.rack_hosts[rack as usize] >= self.servers_per_rack
    }

    /// The host that is this server.
    pub(crate) fn server(&self, server: u32) -> u32 {
        self.rack_hosts[(server / self.servers_per_rack) as usize] + server % self.servers_per_rack
    }

    /// The server that this host is.
    pub(crate) fn server_of(&self, host: u32) -> u32 {
        let rack = self.tor_of_host(host) - self.first_tor;
        rack * self.servers_per_rack + host - self.rack_hosts[rack as usize]
    }

    pub(crate) fn tor_of_host(&self, host: u32) -> u32 {
        self.tor_of_host[(host - self.switches) as usize]
    }

    pub(crate) fn pod_of_tor(&self, tor: u32) -> u32 {
        self.pod_of_tor[(tor - self.first_tor) as usize]
    }

    pub(crate) fn pod_of_spine(&self, spine: u32) -> u32 {
        self.pod_of_spine[(spine - self.first_spine) as usize]
    }

    /// The physical address of a host, or that by which control packets find a switch.
    pub(crate) fn address(&self, node: u32) -> Address {
        if node >= self.switches {
            let tor = self.tor_of_host(node);
            let rack = tor - self.first_tor;
            let host = node - self.rack_hosts[rack as usize];
            return Address::host(self.pod_of_tor(tor), rack % self.racks_per_pod, host);
        }
        if node >= self.first_tor {
            let rack = (node - self.first_tor) % self.racks_per_pod;
            return Address((self.pods + self.pod_of_tor(node) + 1) << 24 | rack << 8 | 2);
        }
        if node >= self.first_spine {
            let spine = (node - self.first_spine) % self.spines_per_pod;
            return Address((2 * self.pods + self.pod_of_spine(node) + 1) << 24 | spine << 16 | 1);
        }
        Address(255 << 24 | node << 16 | 1)
    }

    pub(crate) fn role(&self, switch: u32) -> Role {
        if switch < self.first_spine {
            return Role::Core;
        }
        if switch < self.first_tor {
            let gateways = self.gateway_pods[self.pod_of_spine(switch) as usize];
            return if gateways { Role::GatewaySpine } else { Role::Spine };
        }
        let rack = (switch - self.first_tor) as usize;
        let hosts = self.rack_hosts[rack + 1] - self.rack_hosts[rack];
        if hosts > self.servers_per_rack { Role::GatewayTor } else { Role::Tor }
    }

    /// The hosts of a switch's pod; empty for a core.
    pub(crate) fn pod_hosts(&self, switch: u32) -> std::ops::Range<u32> {
        let pod = if switch < self.first_spine {
            return 0..0;
        } else if switch < self.first_tor {
            self.pod_of_spine(switch)
        } else {
            self.pod_of_tor(switch)
        };
        let first = (pod * self.racks_per_pod) as usize;
        self.rack_hosts[first]..self.rack_hosts[first + self.racks_per_pod as usize]
    }

    // Ports and the nodes behind them.

    pub(crate) fn port_of_host(&self, host: u32) -> u32 {
        host - self.switches
    }

    pub(crate) fn down_to_host(&self, host: u32) -> (u32, u32) {
        (self.hosts + host - self.switches, host)
    }

    pub(crate) fn up_from_tor(&self, tor: u32, turn: u32) -> (u32, u32) {
        let port = self.host_ports + (tor - self.first_tor) * self.spines_per_pod + turn;
        (port, self.first_spine + self.pod_of_tor(tor) * self.spines_per_pod + turn)
    }

    pub(crate) fn down_from_spine(&self, spine: u32, tor: u32) -> (u32, u32) {
        let tors = self.switches - self.first_tor;
        let rack = (tor - self.first_tor) % self.racks_per_pod;
        let base = self.host_ports + tors * self.spines_per_pod;
        (base + (spine - self.first_spine) * self.racks_per_pod + rack, tor)
    }

    pub(crate) fn up_from_spine(&self, spine: u32, turn: u32) -> (u32, u32) {
        let number = spine - self.first_spine;
        let base = self.spine_core_ports();
        let core = (number % self.spines_per_pod) * self.uplinks + turn;
        (base + number * self.uplinks + turn, core)
    }

    pub(crate) fn down_from_core(&self, core: u32, pod: u32) -> (u32, u32) {
        let spines = self.first_tor - self.first_spine;
        let base = self.spine_core_ports() + spines * self.uplinks;
        (
            base + core * self.pods + pod,
            self.first_spine + pod * self.spines_per_pod + core / self.uplinks,
        )
    }

    fn spine_core_ports(&self) -> u32 {
        let tors = self.switches - self.first_tor;
        self.host_ports + 2 * tors * self.spines_per_pod
    }

    /// The next hop of a control packet, whose destination is a switch.
    pub(crate) fn towards_switch(&self, at: u32, to: u32, turn: u32) -> (u32, u32) {
        let (spine_turn, core_turn) = (turn & 0xffff, turn >> 16);
        if at >= self.first_tor {
            let chosen = if to < self.first_spine {
                to / self.uplinks
            } else if to < self.first_tor && self.pod_of_spine(to) == self.pod_of_tor(at) {
                (to - self.first_spine) % self.spines_per_pod
            } else {
                spine_turn
            };
            return self.up_from_tor(at, chosen);
        }
        if at >= self.first_spine {
            let pod = self.pod_of_spine(at);
            if to >= self.first_tor && self.pod_of_tor(to) == pod {
                return self.down_from_spine(at, to);
            }
            if (self.first_spine..self.first_tor).contains(&to) && self.pod_of_spine(to) == pod {
                // Another spine of the pod: back down, the ToR knows the way.
                let rack = pod * self.racks_per_pod + spine_turn % self.racks_per_pod;
                return self.down_from_spine(at, self.first_tor + rack);
            }
            if to < self.first_spine {
                return self.up_from_spine(at, to % self.uplinks);
            }
            return self.up_from_spine(at, core_turn);
        }
        let pod = if to >= self.first_tor { self.pod_of_tor(to) } else { self.pod_of_spine(to) };
        self.down_from_core(at, pod)
    }
}
