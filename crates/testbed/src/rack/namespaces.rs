//! Three network namespaces: a client, a router with the data plane, servers behind it.

use std::{
    fs::File,
    net::Ipv4Addr,
    os::fd::AsFd,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use anyhow::{Context, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Address of the router on the client side.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 254);
/// Address of the router on the server side.
pub const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 254);
/// The servers' address.
pub const SERVERS: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);

/// One of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// `eth0` leads to the switch.
    Client,
    /// `client0` and `server0`.
    Switch,
    /// `eth0` leads to the switch.
    Servers,
}

/// The namespaces; dropping this removes them.
#[derive(Debug)]
pub struct Namespaces {
    id: String,
}

impl Namespaces {
    /// Creates them, with a veth pair from the router to each of the other two.
    ///
    /// # Errors
    /// The process lacks root privileges, or `ip` is not installed.
    pub fn build() -> anyhow::Result<Self> {
        static BUILT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), BUILT.fetch_add(1, Relaxed));
        let namespaces = Self { id };
        let switch = namespaces.name(End::Switch);
        for end in [End::Client, End::Switch, End::Servers] {
            ip(&["netns", "add", &namespaces.name(end)]).context(
                "cannot create network namespaces; root and the package iproute2 are required",
            )?;
        }
        for (end, here, net) in [(End::Client, "client0", 1), (End::Servers, "server0", 2)] {
            let far = namespaces.name(end);
            let pair = ["type", "veth", "peer", "name", "eth0", "netns", &far];
            ip(&[&["-n", &switch, "link", "add", here][..], &pair].concat())?;
            let router = format!("10.{net}.0.254");
            ip(&["-n", &switch, "addr", "add", &format!("{router}/24"), "dev", here])?;
            let stations = [(&switch, here, station(End::Switch)), (&far, "eth0", station(end))];
            for (namespace, interface, station) in stations {
                let text = station.map(|byte| format!("{byte:02x}")).join(":");
                ip(&["-n", namespace, "link", "set", interface, "address", &text])?;
            }
            ip(&["-n", &switch, "link", "set", here, "up"])?;
            ip(&["-n", &far, "addr", "add", &format!("10.{net}.0.2/24"), "dev", "eth0"])?;
            ip(&["-n", &far, "link", "set", "eth0", "up"])?;
            ip(&["-n", &far, "link", "set", "lo", "up"])?;
            ip(&["-n", &far, "route", "add", "default", "via", &router])?;
        }
        ip(&["-n", &switch, "link", "set", "lo", "up"])?;
        std::thread::scope(|scope| {
            let forwarding = scope.spawn(|| {
                namespaces.enter(End::Switch)?;
                std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")
                    .context("cannot enable IP forwarding")
            });
            forwarding.join().map_err(|_| anyhow::anyhow!("cannot enable IP forwarding"))?
        })?;
        Ok(namespaces)
    }

    /// Its name for `ip netns`.
    pub fn name(&self, end: End) -> String {
        let letter = match end {
            End::Client => 'c',
            End::Switch => 's',
            End::Servers => 'd',
        };
        format!("er{}{letter}", self.id)
    }

    /// Path of its file.
    pub fn file(&self, end: End) -> PathBuf {
        format!("/run/netns/{}", self.name(end)).into()
    }

    /// Moves this thread into one of them.
    ///
    /// # Errors
    /// The kernel call fails.
    pub fn enter(&self, end: End) -> anyhow::Result<()> {
        let path = self.file(end);
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("cannot enter {}", path.display()))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for end in [End::Client, End::Switch, End::Servers] {
            let _ = ip(&["netns", "del", &self.name(end)]);
        }
    }
}

/// Ethernet address of the interfaces of an end.
pub fn station(end: End) -> [u8; 6] {
    [2, 0, 0, 0, 0, end as u8]
}

/// Runs iproute2's `ip`.
///
/// # Errors
/// `ip` failed; the error contains its output.
pub fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("ip").args(arguments).output().context("cannot run ip")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("ip {}: {}", arguments.join(" "), said.trim());
    }
    Ok(())
}
