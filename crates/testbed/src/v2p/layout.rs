//! A fat tree as addresses, links and routes.

use std::{collections::VecDeque, net::Ipv4Addr};

use fabric::topology::Topology;
use policy::v2p::Role;

/// Address of the switch with identifier 0.
pub const FIRST_SWITCH: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 0);
/// Address of the machine with virtual address 0 in the simulator. Its low bits are zero, so that
/// in caches of a power of two lines the same machines share a line as in the simulator.
const FIRST_MACHINE: u32 = u32::from_be_bytes([172, 16, 0, 0]);
/// The first gateway of a rack; servers count from 1.
const FIRST_GATEWAY: u32 = 200;
/// Pods, and racks of all pods: one byte of an address each.
pub const RACKS_MAX: u32 = 255;

/// A node of the tree: switches as the simulator numbers them, then servers, then gateways.
pub type Node = usize;

/// Nodes, links and addresses.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The tree.
    pub topology: Topology,
    roles: Vec<Role>,
    /// Rack of each gateway, and its number in the rack.
    gateways: Vec<(u32, u32)>,
    machines: Vec<u32>,
}

/// Packets to these addresses go to one of these nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Prefix.
    pub to: String,
    /// Neighbours.
    pub by: Vec<Node>,
}

impl Layout {
    /// The layout of a checked tree.
    #[must_use]
    pub fn new(topology: Topology) -> Self {
        let gateways = topology.gateways.iter();
        Self {
            roles: topology.roles(),
            gateways: gateways
                .flat_map(|rack| (0..rack.gateways).map(|number| (rack.rack, number)))
                .collect(),
            machines: topology.virtual_addresses(),
            topology,
        }
    }

    /// The role of each switch.
    #[must_use]
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// Number of switches: the nodes before the first server.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.roles.len()
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.switches() + self.topology.servers() as usize + self.gateways.len()
    }

    /// The node of a server.
    #[must_use]
    pub fn server(&self, server: u32) -> Node {
        self.switches() + server as usize
    }

    /// The nodes of the gateways, in the order that flows choose from.
    #[must_use]
    pub fn gateways(&self) -> std::ops::Range<Node> {
        self.server(self.topology.servers())..self.nodes()
    }

    /// The node that a machine is on at first.
    #[must_use]
    pub fn home(&self, vm: u32) -> Node {
        self.server(self.topology.placement[vm as usize])
    }

    /// The virtual address of a machine.
    #[must_use]
    pub fn machine(&self, vm: u32) -> Ipv4Addr {
        Ipv4Addr::from(FIRST_MACHINE | self.machines[vm as usize])
    }

    /// The physical address of a node.
    #[must_use]
    pub fn address(&self, node: Node) -> Ipv4Addr {
        if node < self.switches() {
            return Ipv4Addr::from(u32::from(FIRST_SWITCH) + node as u32);
        }
        let (rack, host) = match node.checked_sub(self.gateways().start) {
            Some(gateway) => {
                let (rack, number) = self.gateways[gateway];
                (rack, FIRST_GATEWAY + number)
            }
            None => {
                let server = (node - self.switches()) as u32;
                let each = self.topology.servers_per_rack;
                (server / each, server % each + 1)
            }
        };
        Ipv4Addr::new(10, self.pod_of_rack(rack) as u8, rack as u8, host as u8)
    }

    fn pod_of_rack(&self, rack: u32) -> u32 {
        rack / self.topology.racks_per_pod
    }

    fn first_tor(&self) -> usize {
        (self.topology.cores + self.topology.spines()) as usize
    }

    /// First and last physical address of a switch's pod; for a core, an address of no host.
    #[must_use]
    pub fn pod(&self, switch: Node) -> (Ipv4Addr, Ipv4Addr) {
        let cores = self.topology.cores as usize;
        if switch < cores {
            let own = self.address(switch);
            return (own, own);
        }
        let pod = match switch.checked_sub(self.first_tor()) {
            Some(rack) => self.pod_of_rack(rack as u32),
            None => (switch - cores) as u32 / self.topology.spines_per_pod,
        };
        (Ipv4Addr::new(10, pod as u8, 0, 0), Ipv4Addr::new(10, pod as u8, 255, 255))
    }

    /// The ToR of a server or gateway.
    #[must_use]
    pub fn tor(&self, host: Node) -> Node {
        self.first_tor() + usize::from(self.address(host).octets()[2])
    }

    /// Servers and gateways of a ToR.
    pub fn hosts(&self, tor: Node) -> impl Iterator<Item = Node> + '_ {
        (self.switches()..self.nodes()).filter(move |host| self.tor(*host) == tor)
    }

    /// All links, the upper end first.
    #[must_use]
    pub fn links(&self) -> Vec<(Node, Node)> {
        let topology = &self.topology;
        let each = topology.spines_per_pod;
        let mut links = Vec::new();
        for spine in 0..topology.spines() {
            let node = (topology.cores + spine) as usize;
            let uplinks = topology.cores / each;
            let cores = (spine % each) * uplinks..(spine % each + 1) * uplinks;
            links.extend(cores.map(|core| (core as usize, node)));
            let racks = spine / each * topology.racks_per_pod;
            let tors = racks..racks + topology.racks_per_pod;
            links.extend(tors.map(|rack| (node, self.first_tor() + rack as usize)));
        }
        links.extend((self.switches()..self.nodes()).map(|host| (self.tor(host), host)));
        links
    }

    /// Routes of each switch to all racks and switches, by all shortest paths.
    #[must_use]
    pub fn routes(&self) -> Vec<Vec<Route>> {
        let switches = self.switches();
        let mut neighbours = vec![Vec::new(); switches];
        for (upper, lower) in self.links() {
            if lower < switches {
                neighbours[upper].push(lower);
                neighbours[lower].push(upper);
            }
        }
        let mut routes = vec![Vec::new(); switches];
        for to in 0..switches {
            let distance = distances(&neighbours, to);
            let mut prefixes = vec![format!("{}/32", self.address(to))];
            if let Some(rack) = to.checked_sub(self.first_tor()) {
                prefixes.push(format!("10.{}.{rack}.0/24", self.pod_of_rack(rack as u32)));
            }
            for from in (0..switches).filter(|from| *from != to) {
                let nearer = |next: &&Node| distance[**next] < distance[from];
                let by: Vec<Node> = neighbours[from].iter().filter(nearer).copied().collect();
                let route = |to: &String| Route { to: to.clone(), by: by.clone() };
                routes[from].extend(prefixes.iter().map(route));
            }
        }
        routes
    }
}

/// Links to `to` from each switch.
fn distances(neighbours: &[Vec<Node>], to: Node) -> Vec<u32> {
    let mut distance = vec![u32::MAX; neighbours.len()];
    distance[to] = 0;
    let mut reached = VecDeque::from([to]);
    while let Some(node) = reached.pop_front() {
        for next in &neighbours[node] {
            if distance[*next] == u32::MAX {
                distance[*next] = distance[node] + 1;
                reached.push_back(*next);
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use fabric::topology::GatewayRack;

    use super::*;

    fn ft4() -> Layout {
        let gateways = [0, 7].map(|rack| GatewayRack { rack, gateways: 1 }).to_vec();
        Layout::new(Topology::fat_tree(4, 2, 2, 2, 4, gateways).with_vms_per_server(2))
    }

    #[test]
    fn a_fat_tree_of_four_has_20_switches_of_all_roles() {
        let layout = ft4();
        assert_eq!((layout.switches(), layout.nodes(), layout.links().len()), (20, 38, 50));
        let of = |role| layout.roles().iter().filter(|of| **of == role).count();
        let roles = [Role::Core, Role::Spine, Role::GatewaySpine, Role::Tor, Role::GatewayTor];
        assert_eq!(roles.map(of), [4, 4, 4, 6, 2]);
    }

    #[test]
    fn addresses_name_pod_and_rack() {
        let layout = ft4();
        assert_eq!(layout.address(layout.server(5)), Ipv4Addr::new(10, 1, 2, 2));
        assert_eq!(layout.address(layout.gateways().start + 1), Ipv4Addr::new(10, 3, 7, 200));
        assert_eq!(layout.address(19), Ipv4Addr::new(10, 255, 0, 19));
        assert_eq!(layout.tor(layout.server(5)), 14);
        assert_eq!(layout.hosts(12).count(), 3);
        assert_eq!(layout.pod(4).1, Ipv4Addr::new(10, 0, 255, 255));
        assert_eq!(layout.machine(31), Ipv4Addr::new(172, 16, 0, 32), "one gateway before it");
    }

    #[test]
    fn routes_take_all_shortest_paths() {
        let routes = ft4().routes();
        let by = |from: Node, to: &str| {
            routes[from].iter().find(|route| route.to == to).expect("a route").by.clone()
        };
        assert_eq!(by(12, "10.3.7.0/24"), [4, 5], "a ToR: both spines");
        assert_eq!(by(4, "10.3.7.0/24"), [0, 1], "a spine: both its cores");
        assert_eq!(by(0, "10.3.7.0/24"), [10], "a core: the one spine of the pod");
        assert_eq!(by(10, "10.3.7.0/24"), [19]);
        assert_eq!(by(12, "10.255.0.11/32"), [5], "the other pod's second spine");
        assert!(routes.iter().all(|routes| routes.len() == 19 + 8 || routes.len() == 19 + 7));
    }
}
