//! One network namespace for each node of a tree, joined by veth pairs.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    os::fd::{AsFd, AsRawFd},
    path::PathBuf,
    process::{self, Command, Stdio},
    thread,
};

use anyhow::{Context, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{
    Tunnel,
    layout::{Layout, Node},
    offload, unnamed,
};

/// The Ethernet address of every interface between nodes: links have two ends, so none is mistaken.
const STATION: &str = "02:00:00:00:00:01";
/// The next hop of every route: the other end of an interface.
const OTHER_END: &str = "169.254.0.1";
/// The interface of a server or gateway.
pub const UPLINK: &str = "fabric0";
/// The interface of a server by which packets of machines enter the tunnel. The program at the
/// uplink decapsulates received ones.
const OVERLAY: &str = "overlay0";
/// Bytes of a virtual packet: the underlay's 1,500 less tunnel and option.
const OVERLAY_BYTES: u32 = 1_400;

/// The kernel cannot encapsulate.
pub const NO_DEVICE: &str = "the kernel has no tunnel device of this kind (CONFIG_VXLAN, CONFIG_NET_IPIP); use another --tunnel";

/// The kind of a server's interface for its machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    /// The kernel's tunnel device: any program sends and receives.
    Device,
    /// One without a tunnel: any program receives, and only [`super::probe::Probe`] sends. For a
    /// kernel that cannot encapsulate.
    Probes,
}

/// The namespaces. They end with this, or with the process.
#[derive(Debug)]
pub struct Namespaces {
    files: Vec<File>,
}

impl Namespaces {
    /// Creates them, with addresses and routes, but no machines.
    ///
    /// # Errors
    /// The process lacks root privileges, or `ip` is not installed.
    pub fn build(layout: &Layout, tunnel: Tunnel, overlay: Overlay) -> anyhow::Result<Self> {
        let files = (0..layout.nodes()).map(|_| unnamed::create());
        let namespaces = Self { files: files.collect::<anyhow::Result<_>>()? };
        let mut script = String::new();
        for (upper, lower) in layout.links() {
            let (here, there) = (namespaces.path(upper), namespaces.path(lower));
            let (to_lower, to_upper) =
                (interface(layout, upper, lower), interface(layout, lower, upper));
            let _ = writeln!(
                script,
                "link add {to_lower} netns {} address {STATION} type veth peer name {to_upper} netns {} \
                 address {STATION}",
                here.display(),
                there.display()
            );
        }
        batch(&script).context("cannot join the network namespaces")?;
        let routes = layout.routes();
        for node in 0..layout.nodes() {
            let script = match routes.get(node) {
                Some(_) => switch_script(layout, node, &routes[node]),
                None => host_script(layout, node, tunnel, overlay),
            };
            let built = namespaces.inside(node, || {
                batch(&script)?;
                prepare(node >= layout.switches())
            });
            built.map_err(|error| match error.to_string().contains("Unknown device type") {
                true => error.context(NO_DEVICE),
                false => error,
            })?;
        }
        Ok(namespaces)
    }

    /// Path of its file, for `nsenter --net`.
    #[must_use]
    pub fn path(&self, node: Node) -> PathBuf {
        format!("/proc/{}/fd/{}", process::id(), self.files[node].as_raw_fd()).into()
    }

    /// Runs `what` on a thread inside a namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered, or `what` fails.
    pub fn inside<T: Send>(
        &self,
        node: Node,
        what: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = self.files[node].as_fd();
                move_into_link_name_space(file, Some(LinkNameSpaceType::Network))
                    .with_context(|| format!("cannot enter the namespace of node {node}"))?;
                what()
            });
            thread.join().unwrap_or_else(|_| bail!("a thread in node {node} panicked"))
        })
    }

    /// Adds the address of a machine to a server's overlay, or removes it.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn set_machine(
        &self,
        server: Node,
        machine: std::net::Ipv4Addr,
        here: bool,
    ) -> anyhow::Result<()> {
        let what = if here { "add" } else { "del" };
        let script = format!("address {what} {machine}/32 dev {OVERLAY}\n");
        self.inside(server, || batch(&script))
    }
}

/// The name of the interface of `node` towards `other`.
#[must_use]
pub fn interface(layout: &Layout, node: Node, other: Node) -> String {
    if node < layout.switches() { format!("n{other}") } else { UPLINK.to_owned() }
}

fn bring_up(script: &mut String, interface: &str) {
    let _ = writeln!(
        script,
        "link set {interface} up\n\
         neighbour replace {OTHER_END} lladdr {STATION} dev {interface} nud permanent"
    );
}

fn switch_script(layout: &Layout, node: Node, routes: &[super::layout::Route]) -> String {
    let mut script = format!("link set lo up\naddress add {}/32 dev lo\n", layout.address(node));
    for (upper, lower) in layout.links() {
        if upper == node || lower == node {
            let other = if upper == node { lower } else { upper };
            bring_up(&mut script, &interface(layout, node, other));
        }
    }
    for route in routes {
        let hop = |next: &Node| format!("nexthop via {OTHER_END} dev n{next} onlink");
        let hops: Vec<String> = route.by.iter().map(hop).collect();
        let _ = writeln!(script, "route add {} {}", route.to, hops.join(" "));
    }
    for host in layout.hosts(node) {
        let address = layout.address(host);
        let _ = writeln!(script, "route add {address}/32 via {OTHER_END} dev n{host} onlink");
    }
    script
}

fn host_script(layout: &Layout, node: Node, tunnel: Tunnel, overlay: Overlay) -> String {
    let own = layout.address(node);
    let mut script = format!("link set lo up\naddress add {own}/32 dev lo\n");
    bring_up(&mut script, UPLINK);
    let _ = writeln!(script, "route add default via {OTHER_END} dev {UPLINK} onlink src {own}");
    if layout.gateways().contains(&node) {
        return script;
    }
    let gateways = layout.gateways();
    let gateway = layout.address(gateways.start + (node - layout.switches()) % gateways.len());
    match (overlay, tunnel) {
        (Overlay::Probes, _) => {
            let _ = writeln!(script, "link add {OVERLAY} type veth peer name overlay1");
        }
        (Overlay::Device, Tunnel::Vxlan) => {
            let _ = writeln!(
                script,
                "link add {OVERLAY} type vxlan id {} remote {gateway} local {own} dstport 4789 \
                 nolearning dev {UPLINK}\n\
                 link set {OVERLAY} arp off",
                super::NETWORK
            );
        }
        (Overlay::Device, Tunnel::IpInIp) => {
            let _ = writeln!(
                script,
                "link add {OVERLAY} type ipip remote {gateway} local {own} dev {UPLINK}"
            );
        }
    }
    let _ = writeln!(
        script,
        "link set {OVERLAY} mtu {OVERLAY_BYTES} up\nroute add 172.16.0.0/12 dev {OVERLAY}"
    );
    script
}

/// Kernel parameters of this thread's namespace.
fn prepare(is_host: bool) -> anyhow::Result<()> {
    for (name, value) in [
        ("ip_forward", "1"),
        ("conf/all/rp_filter", "0"),
        ("conf/default/rp_filter", "0"),
        ("fib_multipath_hash_policy", "1"),
    ] {
        let path = format!("/proc/sys/net/ipv4/{name}");
        fs::write(&path, value).with_context(|| format!("cannot write {path}"))?;
    }
    for entry in fs::read_dir("/proc/sys/net/ipv4/conf")? {
        fs::write(entry?.path().join("rp_filter"), "0")?;
    }
    // A kernel without IPv6 has nothing to disable.
    let _ = fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
    if is_host { offload::disable(UPLINK) } else { Ok(()) }
}

/// Runs commands of iproute2 in this thread's namespace.
fn batch(script: &str) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    command
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut ip = command.spawn().context("cannot run ip; the package iproute2 is required")?;
    if let Some(mut stdin) = ip.stdin.take() {
        // If it ended early, its own message is better.
        let _ = stdin.write_all(script.as_bytes());
    }
    let output = ip.wait_with_output()?;
    if !output.status.success() {
        bail!("ip -batch: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
