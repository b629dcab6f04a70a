//! A running `enroute state agent` or `placer`, and what is done by hand.

use std::net::SocketAddr;
use std::process::{Command, Output};

use super::enroute::program;
use super::process::Process;

/// An agent before the nodes of a cluster. Dropping it kills it.
pub struct Agent {
    process: Process,
    address: SocketAddr,
}

impl Agent {
    pub fn start(nodes: &[SocketAddr]) -> Self {
        let process = Process::start(Command::new(program()).args([
            "state",
            "agent",
            "--listen",
            "127.0.0.1:0",
            "--cluster",
            &listed(nodes),
        ]));
        let line = process.stderr_line(" -> ");
        let line = line.unwrap_or_else(|| panic!("no agent:\n{}", process.stderr()));
        let address = line.split("://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.and_then(|address| address.parse().ok()).expect("an address");
        Self { process, address }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// A placer of this name. Dropping it kills it as `kill -9` does.
pub fn placer(nodes: &[SocketAddr], name: &str) -> Process {
    let mut command = Command::new(program());
    Process::start(command.args([
        "--log",
        "info",
        "state",
        "placer",
        "--name",
        name,
        "--cluster",
        &listed(nodes),
    ]))
}

/// `enroute state WORDS --cluster NODES`, ready to start.
pub fn by_hand(nodes: &[SocketAddr], words: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("state").args(words).args(["--cluster", &listed(nodes)]);
    command
}

/// What that said, when it has ended.
pub fn said(nodes: &[SocketAddr], words: &[&str]) -> (Output, String) {
    let output = by_hand(nodes, words).output().expect("the program starts");
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output, String::from_utf8_lossy(&text).into_owned())
}

fn listed(nodes: &[SocketAddr]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
