//! `enroute top`: what running services do now, as text in the terminal.
//!
//! **What it is.** Reads `GET /stats` of admin endpoints at an interval and shows what has changed
//! between two readings, a frame for each service.
//!
//! **What it is not.** No service: it changes nothing, and knows of a service only what its
//! statistics say.
//!
//! **Read first:** [`run`], then `frame.rs`.
#![forbid(unsafe_code)]

use std::{
    io::{IsTerminal, stdout},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use platform::{signal::EndSignal, terminal::Terminal};
use serde_json::Value;

mod change;
mod frame;

use change::Change;

const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A service and what it last said.
struct Service {
    address: String,
    runtime: tokio::runtime::Runtime,
    read_at: Option<Instant>,
    stats: Value,
}

/// Shows what the services at `services` (`host:port` of their admin endpoints) do, every
/// `interval`, until q, Ctrl-C or a signal; with `once` prints one frame of each.
///
/// # Errors
/// A service cannot be read at the start, or standard output is no terminal.
#[allow(clippy::print_stdout, reason = "the frame is the result")]
pub fn run(services: &[String], interval: Duration, once: bool) -> anyhow::Result<()> {
    ensure!(interval >= INTERVAL_MIN, "--interval: expected at least 100ms");
    let services = services.iter().map(|address| Service::new(address));
    let mut services = services.collect::<anyhow::Result<Vec<_>>>()?;
    let mut lines = Vec::new();
    for service in &mut services {
        lines.extend(service.frame()?);
    }
    if once {
        thread::sleep(interval);
        for service in &mut services {
            println!("{}", service.frame()?.join("\n"));
        }
        return Ok(());
    }
    ensure!(
        stdout().is_terminal(),
        "standard output is no terminal; use --once to print one frame"
    );
    let end = EndSignal::listen()?;
    let terminal = Terminal::open()?;
    loop {
        terminal.draw(&lines)?;
        if terminal.waits(interval, &end)? {
            return Ok(());
        }
        lines.clear();
        for service in &mut services {
            let frame = service.frame();
            // It may come back.
            lines.extend(frame.unwrap_or_else(|error| vec![format!("{error:#}")]));
            lines.push(String::new());
        }
    }
}

impl Service {
    fn new(address: &str) -> anyhow::Result<Self> {
        let address = address.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { address, runtime, read_at: None, stats: Value::Null })
    }

    /// Reads the statistics; what has changed since the last reading, as text.
    fn frame(&mut self) -> anyhow::Result<Vec<String>> {
        let address = &self.address;
        let answer = self.runtime.block_on(endpoint::get(address, "/stats"));
        let (status, body) = answer.map_err(anyhow::Error::from_boxed).with_context(|| {
            format!(
                "no answer from the admin endpoint {address}; start the service with --admin, and \
                 give its address here"
            )
        })?;
        let now: Value = serde_json::from_slice(&body).unwrap_or_default();
        let read_at = Instant::now();
        let since = self.read_at.map_or(f64::NAN, |at| (read_at - at).as_secs_f64());
        let lines = frame::lines(address, &Change::new(&self.stats, &now, since));
        let Some(lines) = lines else {
            bail!(
                "{address} is no admin endpoint of `enroute cache` or another service: expected its \
                 statistics from GET /stats, got status {status}; give the address of --admin"
            );
        };
        (self.stats, self.read_at) = (now, Some(read_at));
        Ok(lines)
    }
}
