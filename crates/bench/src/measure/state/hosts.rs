//! Four hosts in network namespaces, a node of the cluster and an agent on each, all pairs joined by
//! `enroute link`. Needs root.

use std::{
    fs::File,
    net::SocketAddr,
    os::fd::AsFd,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{
    process::{Child, Cores},
    run::Run,
};

/// Where the agent of each host listens.
pub(super) const AGENT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 6380);
const NODE_PORT: u16 = 7000;

/// The hosts. Everything on them ends with this.
pub(super) struct Hosts {
    /// Ended before their namespaces go.
    processes: Vec<Child>,
    names: Vec<String>,
}

impl Hosts {
    pub(super) const COUNT: usize = 4;

    /// A cluster of four nodes over hosts whose round trips take `rtt`.
    pub(super) fn join(run: &Run, rtt: &str) -> anyhow::Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "hosts in network namespaces need root");
        let names = (1..=Self::COUNT).map(|host| format!("enroute-{}-{host}", std::process::id()));
        let mut hosts = Self { processes: Vec::new(), names: names.collect() };
        for host in 0..Self::COUNT {
            sh(&format!(
                "ip netns add {0} && ip -n {0} link set lo up && ip -n {0} addr add {1}/32 dev lo",
                hosts.names[host],
                ip(host)
            ))?;
        }
        for one in 0..Self::COUNT {
            for other in one + 1..Self::COUNT {
                hosts.cable(run, one, other, rtt)?;
            }
        }
        for host in 0..Self::COUNT {
            let directory = run.servers.directory("host")?;
            let (ip, port) = (ip(host), NODE_PORT.to_string());
            let mut command = hosts.on(host, "redis-server");
            command.args(["--bind", &ip, "--port", &port, "--protected-mode", "no", "--save", ""]);
            command
                .args(["--cluster-enabled", "yes", "--cluster-announce-ip", &ip, "--dir"])
                .arg(directory);
            hosts.start(run, &mut command)?;
        }
        hosts.wait_for(|hosts| {
            (0..Self::COUNT).all(|host| {
                hosts.node_says(host, &["PING"]).is_ok_and(|said| said.contains("PONG"))
            })
        })?;
        let nodes: Vec<String> = (0..Self::COUNT).map(|host| node(host).to_string()).collect();
        let mut create = hosts.on(0, "redis-cli");
        create.args(["--cluster", "create"]).args(&nodes).args([
            "--cluster-replicas",
            "0",
            "--cluster-yes",
        ]);
        let made = create.output().context("redis-cli")?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        hosts.wait_for(|hosts| {
            (0..Self::COUNT).all(|host| {
                hosts
                    .node_says(host, &["CLUSTER", "INFO"])
                    .is_ok_and(|said| said.contains("cluster_state:ok"))
            })
        })?;
        for host in 0..Self::COUNT {
            let mut command =
                hosts.on(host, run.servers.enroute().get_program().to_string_lossy().as_ref());
            command.args([
                "state",
                "agent",
                "--name",
                &format!("host-{}", host + 1),
                "--listen",
                &AGENT.to_string(),
            ]);
            command.args(["--cluster", &node(host).to_string()]);
            hosts.start(run, &mut command)?;
        }
        hosts.wait_for(|hosts| {
            (0..Self::COUNT).all(|host| {
                hosts.inside(host, || std::net::TcpStream::connect(AGENT).is_ok()).unwrap_or(false)
            })
        })?;
        Ok(hosts)
    }

    /// A placer on the first host, at its default periods.
    pub(super) fn placer(&self, run: &Run) -> anyhow::Result<Child> {
        let mut command =
            self.on(0, run.servers.enroute().get_program().to_string_lossy().as_ref());
        command.args(["--log", "info", "state", "placer", "--cluster", &node(0).to_string()]);
        run.servers.spawn("placer", &mut command, Cores::Any)
    }

    /// The node that owns the slot of `key`.
    pub(super) fn owner(&self, key: &str) -> anyhow::Result<SocketAddr> {
        for host in 0..Self::COUNT {
            if !self.node_says(host, &["GET", key])?.contains("MOVED") {
                return Ok(node(host));
            }
        }
        bail!("nobody owns {key}")
    }

    /// Runs `work` on a host; sockets it makes stay there.
    pub(super) fn inside<T: Send>(
        &self,
        host: usize,
        work: impl FnOnce() -> T + Send,
    ) -> anyhow::Result<T> {
        let file = File::open(format!("/run/netns/{}", self.names[host]))?;
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            });
            inside.join().map_err(|_| anyhow::anyhow!("the work on a host panicked"))?
        })
    }

    fn cable(&mut self, run: &Run, one: usize, other: usize, rtt: &str) -> anyhow::Result<()> {
        let net = format!("10.78.{}{}", one + 1, other + 1);
        let device = format!("h{}{}", one + 1, other + 1);
        let (a, b) = (self.names[one].clone(), self.names[other].clone());
        let mut command = run.servers.enroute();
        command.args(["link", "--tun", "--namespace-a", &a, "--address-a", &format!("{net}.1/30")]);
        command.args([
            "--namespace-b",
            &b,
            "--address-b",
            &format!("{net}.2/30"),
            "--device",
            &device,
            "--rtt",
            rtt,
        ]);
        self.start(run, &mut command)?;
        let route = |here: &str, there: usize, via: &str, from: usize| {
            format!("ip -n {here} route add {}/32 via {net}.{via} src {}", ip(there), ip(from))
        };
        let routes = [route(&a, other, "2", one), route(&b, one, "1", other)];
        self.wait_for(|_| sh(&routes[0]).is_ok())?;
        self.wait_for(|_| sh(&routes[1]).is_ok())
    }

    fn on(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[host], program]);
        command
    }

    fn start(&mut self, run: &Run, command: &mut Command) -> anyhow::Result<()> {
        self.processes.push(run.servers.spawn("host", command, Cores::Any)?);
        Ok(())
    }

    fn node_says(&self, host: usize, words: &[&str]) -> anyhow::Result<String> {
        let mut command = self.on(host, "redis-cli");
        let (ip, port) = (ip(host), NODE_PORT.to_string());
        let output = command.args(["-h", &ip, "-p", &port]).args(words).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn wait_for(&self, holds: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let began = Instant::now();
        while !holds(self) {
            ensure!(began.elapsed() < Duration::from_secs(30), "the hosts do not come up");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.processes.clear();
        for name in &self.names {
            let _ = sh(&format!("ip netns del {name}"));
        }
    }
}

fn ip(host: usize) -> String {
    format!("10.78.0.{}", host + 1)
}

fn node(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 78, 0, host as u8 + 1], NODE_PORT))
}

fn sh(command: &str) -> anyhow::Result<()> {
    let status = Command::new("sh").args(["-c", command]).stderr(Stdio::null()).status()?;
    ensure!(status.success(), "{command} failed");
    Ok(())
}
