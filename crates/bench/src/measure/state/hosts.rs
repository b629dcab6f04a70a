//! Four hosts in network namespaces, a node of the cluster on each, all pairs joined by
//! `enroute link`. Needs root.

use std::{
    fs::{File, read_link},
    net::SocketAddr,
    os::fd::AsFd,
    path::PathBuf,
    process::{self, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{
    process::{Child, Cores},
    servers::Servers,
};

/// Address of the agent of each host.
pub(super) const AGENT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 6380);
const NODE_PORT: u16 = 7000;
/// Timeout for the start of a process.
const PATIENCE: Duration = Duration::from_secs(30);

/// The hosts. Everything on them ends with this.
pub(super) struct Hosts<'a> {
    servers: &'a Servers,
    /// Ended before their namespaces go.
    processes: Vec<Child>,
    namespaces: Vec<Namespace>,
}

/// A network namespace without a name: it is there while the process that holds it is, which ends
/// with this handle, or with this program at the latest, as it reads a pipe whose other end is
/// here.
struct Namespace(process::Child);

impl<'a> Hosts<'a> {
    pub(super) const COUNT: usize = 4;

    /// A cluster of four nodes over hosts whose round trips take `rtt`.
    pub(super) fn join(servers: &'a Servers, rtt: &str) -> anyhow::Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "hosts in network namespaces need root");
        let namespaces = (0..Self::COUNT).map(|_| Namespace::make()).collect::<Result<_, _>>()?;
        let mut hosts = Self { servers, processes: Vec::new(), namespaces };
        for host in 0..Self::COUNT {
            let (mut up, mut address) = (hosts.on(host, "ip"), hosts.on(host, "ip"));
            succeeds(up.args(["link", "set", "lo", "up"]))?;
            succeeds(address.args(["addr", "add", &format!("{}/32", ip(host)), "dev", "lo"]))?;
        }
        for one in 0..Self::COUNT {
            for other in one + 1..Self::COUNT {
                hosts.cable(one, other, rtt)?;
            }
        }
        for host in 0..Self::COUNT {
            hosts.start_node(host)?;
        }
        hosts.all(|hosts, host| {
            hosts.node_says(host, &["PING"]).is_ok_and(|said| said.contains("PONG"))
        })?;
        let nodes: Vec<String> = (0..Self::COUNT).map(|host| node(host).to_string()).collect();
        let mut create = hosts.on(0, "redis-cli");
        create.args(["--cluster", "create"]).args(&nodes);
        create.args(["--cluster-replicas", "0", "--cluster-yes"]);
        let made = create.output().context("redis-cli")?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        hosts.all(|hosts, host| {
            let said = hosts.node_says(host, &["CLUSTER", "INFO"]);
            said.is_ok_and(|said| said.contains("cluster_state:ok"))
        })?;
        Ok(hosts)
    }

    /// An agent on each host, and a placer with this `--copies` on the first, at their default
    /// periods. Returns when the placer leads.
    pub(super) fn follow(&mut self, copies: &str) -> anyhow::Result<()> {
        for host in 0..Self::COUNT {
            let (name, listen) = (format!("host-{}", host + 1), AGENT.to_string());
            let mut command = self.enroute(host);
            command.args(["agent", "--name", &name, "--listen", &listen]);
            self.start("agent", command.args(["--cluster", &node(host).to_string()]))?;
        }
        self.all(|hosts, host| {
            hosts.inside(host, || std::net::TcpStream::connect(AGENT).is_ok()).unwrap_or(false)
        })?;
        let mut placer = self.enroute(0);
        self.start(
            "placer",
            placer.args(["placer", "--copies", copies, "--cluster", &node(0).to_string()]),
        )?;
        self.all(|hosts, _| hosts.status().is_ok_and(|said| said.contains("agents: host-1")))
    }

    /// Returns the output of `enroute state status`.
    pub(super) fn status(&self) -> anyhow::Result<String> {
        let mut command = self.enroute(0);
        let output = command.args(["status", "--cluster", &node(0).to_string()]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The node that owns the slot of `key`.
    pub(super) fn owner(&self, key: &str) -> anyhow::Result<SocketAddr> {
        for host in 0..Self::COUNT {
            if !self.node_says(host, &["GET", key])?.contains("MOVED") {
                return Ok(node(host));
            }
        }
        bail!("{key} has no owner")
    }

    /// Runs `work` on a host; sockets it makes stay there.
    pub(super) fn inside<T: Send>(
        &self,
        host: usize,
        work: impl FnOnce() -> T + Send,
    ) -> anyhow::Result<T> {
        let file = File::open(self.namespaces[host].file())?;
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            });
            inside.join().map_err(|_| anyhow::anyhow!("the work on a host panicked"))?
        })
    }

    fn cable(&mut self, one: usize, other: usize, rtt: &str) -> anyhow::Result<()> {
        let net = format!("10.78.{}{}", one + 1, other + 1);
        let device = format!("h{}{}", one + 1, other + 1);
        let mut command = self.servers.enroute();
        command.args(["link", "--tun", "--rtt", rtt, "--device", &device]);
        command.arg("--namespace-a").arg(self.namespaces[one].file());
        command.arg("--namespace-b").arg(self.namespaces[other].file());
        command.args(["--address-a", &format!("{net}.1/30")]);
        self.start("link", command.args(["--address-b", &format!("{net}.2/30")]))?;
        for (here, there, via) in [(one, other, "2"), (other, one, "1")] {
            let (to, via) = (format!("{}/32", ip(there)), format!("{net}.{via}"));
            wait_for(|| {
                let mut route = self.on(here, "ip");
                let words = ["route", "add", &to, "via", &via, "src", &ip(here)];
                succeeds(route.args(words)).is_ok()
            })?;
        }
        Ok(())
    }

    fn start_node(&mut self, host: usize) -> anyhow::Result<()> {
        let (ip, port) = (ip(host), NODE_PORT.to_string());
        let mut command = self.on(host, "redis-server");
        command.args(["--bind", &ip, "--port", &port, "--protected-mode", "no", "--save", ""]);
        command.args(["--cluster-enabled", "yes", "--cluster-announce-ip", &ip, "--dir"]);
        command.arg(self.servers.directory("host")?);
        self.start("node", &mut command)
    }

    fn on(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let namespace = self.namespaces[host].file();
        command.arg(format!("--net={}", namespace.display())).arg("--").arg(program);
        command
    }

    /// `enroute state` on a host.
    fn enroute(&self, host: usize) -> Command {
        let enroute = self.servers.enroute();
        let mut command = self.on(host, &enroute.get_program().to_string_lossy());
        command.args(["--log", "info", "state"]);
        command
    }

    fn start(&mut self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        self.processes.push(self.servers.spawn(name, command, Cores::Any)?);
        Ok(())
    }

    fn node_says(&self, host: usize, words: &[&str]) -> anyhow::Result<String> {
        let mut command = self.on(host, "redis-cli");
        let (ip, port) = (ip(host), NODE_PORT.to_string());
        let output = command.args(["-h", &ip, "-p", &port]).args(words).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until it holds of every host.
    fn all(&self, holds: impl Fn(&Self, usize) -> bool) -> anyhow::Result<()> {
        wait_for(|| (0..Self::COUNT).all(|host| holds(self, host)))
    }
}

impl Drop for Hosts<'_> {
    fn drop(&mut self) {
        self.processes.clear();
    }
}

impl Namespace {
    fn make() -> anyhow::Result<Self> {
        let mut command = Command::new("unshare");
        let holder = command.args(["--net", "cat"]).stdin(Stdio::piped()).spawn();
        let namespace = Self(holder.context("unshare")?);
        let ours = read_link("/proc/self/ns/net")?;
        wait_for(|| read_link(namespace.file()).is_ok_and(|theirs| theirs != ours))?;
        Ok(namespace)
    }

    fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(holds: impl Fn() -> bool) -> anyhow::Result<()> {
    let began = Instant::now();
    while !holds() {
        ensure!(began.elapsed() < PATIENCE, "the hosts do not come up");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn ip(host: usize) -> String {
    format!("10.78.0.{}", host + 1)
}

/// The node on a host.
pub(super) fn node(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 78, 0, host as u8 + 1], NODE_PORT))
}

fn succeeds(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stderr(Stdio::null()).status()?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
