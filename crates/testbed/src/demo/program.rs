//! Runs this program as a child process, with the commands that a user would type.
#![allow(unsafe_code)]

use std::{
    io::{self, BufRead, BufReader},
    net::SocketAddr,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context, bail};
use rustix::process::{Signal, set_parent_process_death_signal};

/// A child process that is ended when this one ends.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This program, to be started with arguments. The calling thread must outlive the process.
pub(super) fn ourselves() -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    // Ctrl-C in a terminal must reach only the demonstration, which ends its processes in order.
    command.process_group(0).stdin(Stdio::null());
    // SAFETY: between fork and exec there is one system call, which allocates nothing.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    Ok(command)
}

/// Starts a service and waits for the line with its address: `SCHEME://ADDRESS -> …`. Later output
/// goes to standard error.
pub(super) fn serving(
    command: &mut Command,
    scheme: &str,
) -> anyhow::Result<(Running, SocketAddr)> {
    let mut running = Running(command.stderr(Stdio::piped()).spawn()?);
    let mut said = BufReader::new(running.0.stderr.take().context("piped")?);
    let mut before = String::new();
    loop {
        let mut line = String::new();
        if said.read_line(&mut line)? == 0 {
            bail!("expected the address it listens on, got: {}", before.trim());
        }
        let address = line.strip_prefix(scheme).and_then(|line| line.strip_prefix("://"));
        if let Some((address, _)) = address.and_then(|address| address.split_once(" -> ")) {
            let address = address.parse().with_context(|| line.clone())?;
            thread::spawn(move || io::copy(&mut said, &mut io::stderr()));
            return Ok((running, address));
        }
        before += &line;
    }
}
