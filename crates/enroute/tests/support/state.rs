//! A running `enroute state agent` or `placer`, and the manual commands.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use state::slot::Slot;

use super::cluster::connection;
use super::enroute::program;
use super::process::{PATIENCE, Process};

/// An agent for the nodes of a cluster. Dropping it kills the process.
pub struct Agent {
    program: PathBuf,
    /// `None` only during a restart.
    process: Option<Process>,
    address: SocketAddr,
    nodes: Vec<SocketAddr>,
    options: Vec<String>,
}

impl Agent {
    pub fn start(nodes: &[SocketAddr]) -> Self {
        Self::start_with(nodes, &[])
    }

    /// As `start`, with further options.
    pub fn start_with(nodes: &[SocketAddr], options: &[&str]) -> Self {
        Self::run(&program(), nodes, options)
    }

    /// As `start_with`, with another build of the program.
    pub fn run(program: &Path, nodes: &[SocketAddr], options: &[&str]) -> Self {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let (process, address) = start_agent(program, nodes, "127.0.0.1:0", &options);
        let (program, nodes) = (program.to_owned(), nodes.to_vec());
        Self { program, process: Some(process), address, nodes, options }
    }

    /// Kills it as `kill -9` does, and starts it again at the same address.
    pub fn restart(&mut self) {
        self.process = None;
        let address = self.address.to_string();
        let started = start_agent(&self.program, &self.nodes, &address, &self.options);
        self.process = Some(started.0);
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }
}

fn start_agent(
    program: &Path,
    nodes: &[SocketAddr],
    listen: &str,
    options: &[String],
) -> (Process, SocketAddr) {
    let mut command = Command::new(program);
    command.args(["state", "agent", "--listen", listen, "--cluster", &listed(nodes)]);
    command.args(options);
    let process = Process::start(&mut command);
    let line = process.stderr_line(" -> ");
    let line = line.unwrap_or_else(|| panic!("no agent:\n{}", process.stderr()));
    let address = line.split("://").nth(1).and_then(|rest| rest.split(' ').next());
    let address = address.and_then(|address| address.parse().ok()).expect("an address");
    (process, address)
}

/// A placer with this name. Dropping it kills it as `kill -9` does.
pub fn placer(nodes: &[SocketAddr], name: &str) -> Process {
    placer_with(nodes, name, &[])
}

/// As `placer`, with further options.
pub fn placer_with(nodes: &[SocketAddr], name: &str, options: &[&str]) -> Process {
    let words = ["placer", "--log", "info", "--name", name];
    Process::start(&mut by_hand(nodes, &[&words, options].concat()))
}

/// The command `enroute state WORDS --cluster NODES`, not started.
pub fn by_hand(nodes: &[SocketAddr], words: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("state").args(words).args(["--cluster", &listed(nodes)]);
    command
}

/// Runs that command to its end; returns the status and the output.
pub fn said(nodes: &[SocketAddr], words: &[&str]) -> (Output, String) {
    let output = by_hand(nodes, words).output().expect("the program starts");
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output, String::from_utf8_lossy(&text).into_owned())
}

/// The node that claims the slot. Nodes are queried one by one, so that a slot that moves at that
/// time may have no owner in the replies; then they are queried again.
pub fn owner(nodes: &[SocketAddr], slot: usize) -> usize {
    let mut asked = (0..100).map(|_| owner_now(nodes, slot));
    asked.find_map(|owner| owner).expect("the slot has an owner")
}

/// As `owner`, with a single query of each node.
pub fn owner_now(nodes: &[SocketAddr], slot: usize) -> Option<usize> {
    let owns = |node: &SocketAddr| {
        let text: String =
            redis::cmd("CLUSTER").arg("NODES").query(&mut connection(*node)).expect("nodes");
        let own =
            text.lines().find(|line| line.contains("myself")).expect("its own line").to_owned();
        let mut ranges = own.split(' ').skip(8).filter(|word| !word.starts_with('['));
        ranges.any(|range| {
            let (first, last) = range.trim().split_once('-').unwrap_or((range, range));
            let bound = |text: &str| text.trim().parse::<usize>().expect("a slot");
            (bound(first)..=bound(last)).contains(&slot)
        })
    };
    nodes.iter().position(owns)
}

/// Reads `key` through an agent until it serves copies: then hardly any GET reaches the node to
/// which `direct` connects.
pub fn until_copied(
    client: &mut redis::Connection,
    key: &str,
    nodes: &[SocketAddr],
    direct: fn(SocketAddr) -> redis::Connection,
) {
    let of = |node: &SocketAddr| {
        let mut info = redis::cmd("INFO");
        let info: String = info.arg("commandstats").query(&mut direct(*node)).expect("statistics");
        let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
        calls.and_then(|calls| calls.split(',').next()?.parse::<u64>().ok()).unwrap_or_default()
    };
    let executed = || nodes.iter().map(of).sum::<u64>();
    let started = Instant::now();
    loop {
        let before = executed();
        for _ in 0..200 {
            redis::cmd("GET").arg(key).query::<String>(client).expect("a value");
        }
        // The agent itself queries twice a second which slots to copy.
        if executed() - before < 50 {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "nothing is answered from a copy");
    }
}

/// Whether the slot is migrating from that node.
pub fn is_open(node: SocketAddr, slot: usize) -> bool {
    let told: String =
        redis::cmd("CLUSTER").arg("NODES").query(&mut connection(node)).expect("nodes");
    told.contains(&format!("[{slot}->-"))
}

fn listed(nodes: &[SocketAddr]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Sets the flag at the end of the test, however it ends.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Three tags whose slots are at that node.
pub fn tags_at(nodes: &[SocketAddr], node: usize) -> [String; 3] {
    let mut tags = (0..).map(|number| format!("{{tag:{number}}}"));
    std::array::from_fn(|_| {
        tags.find(|tag| owner(nodes, slot_of(tag)) == node).expect("a third of all")
    })
}

pub fn slot_of(key: &str) -> usize {
    Slot::of(key.as_bytes()).number()
}

/// Reads these keys, and writes them occasionally, through an agent.
pub fn use_keys(agent: SocketAddr, keys: &[String], over: &AtomicBool) {
    let mut client = connection(agent);
    for turn in 0_u64.. {
        for key in keys {
            let (name, value) = if turn % 11 == 0 { ("SET", Some(turn)) } else { ("GET", None) };
            redis::cmd(name).arg(key).arg(value).query::<redis::Value>(&mut client).expect("OK");
        }
        if over.load(Ordering::Relaxed) {
            return;
        }
    }
}

pub fn wait_for(holds: impl Fn() -> bool, or: impl Fn() -> String) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{}", or());
        thread::sleep(Duration::from_millis(100));
    }
}
