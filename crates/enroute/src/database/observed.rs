//! Statistics and settings of the database at the admin endpoint.

use std::{path::Path, sync::atomic::Ordering::Relaxed};

use db::{latency::CommandLatencies, memory::MEMORY_BYTES_MIN};
use endpoint::{Exposition, Latency};
use serde::Serialize;
use serde_json::Value;
use telemetry::Latencies;

use super::Shared;
use crate::admin::{Backup, Observed, Room};

/// Content of `GET /stats`; sizes are in bytes.
#[derive(Debug, Default, Serialize)]
struct State {
    version: &'static str,
    uptime_seconds: f64,
    commands: u64,
    clients: usize,
    entries: u64,
    entries_in_memory: u64,
    memory_bytes: u64,
    resident_bytes: u64,
    file_bytes: u64,
    live_bytes: u64,
    disk_waits: u64,
    damages: u64,
    scan_passed_over: u64,
    command_latency: CommandLatency,
}

/// Latency of commands by what they waited for.
#[derive(Debug, Default, Serialize)]
struct CommandLatency {
    nothing: Latency,
    disk: Latency,
    parts: Latency,
}

impl CommandLatency {
    fn collect(shared: &Shared) -> Self {
        let sum = |of: fn(&CommandLatencies) -> &Latencies| {
            let mut sum = Latency::default();
            shared.latencies.iter().for_each(|thread| of(thread).add_to(&mut sum.0));
            sum
        };
        Self { nothing: sum(|of| &of.prompt), disk: sum(|of| &of.disk), parts: sum(|of| &of.parts) }
    }

    fn expose(&self, text: &mut Exposition) {
        let help = "From reading a command until its answer was written; of commands that waited, \
                    from the first attempt until execution.";
        let mut latencies = text.histogram("command_latency_seconds", help);
        for (reason, latency) in
            [("nothing", &self.nothing), ("disk", &self.disk), ("parts", &self.parts)]
        {
            latencies.labelled(&[("waited_for", reason)], latency);
        }
    }
}

/// Counters of `GET /metrics` from [`State`], with their help texts.
const COUNTERS: [(&str, &str); 4] = [
    ("commands", "Commands executed."),
    ("disk_waits", "Commands that waited for the disk."),
    ("damages", "Damaged places in the files."),
    ("scan_passed_over", "Names that SCAN and KEYS could not read."),
];

/// Gauges of `GET /metrics` from [`State`], with their help texts.
const GAUGES: [(&str, &str); 7] = [
    ("clients", "Connected clients."),
    ("entries", "Entries stored."),
    ("entries_in_memory", "Entries whose values are in memory."),
    ("memory_bytes", "Memory limit of the process."),
    ("resident_bytes", "Resident memory of the process."),
    ("file_bytes", "Size of the files."),
    ("live_bytes", "Size of live entries in the files."),
];

impl State {
    fn collect(shared: &Shared) -> Self {
        let server = &shared.server;
        let mut state = Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: shared.now().saturating_sub(server.began).as_secs_f64(),
            commands: server.stats.commands.load(Relaxed),
            clients: server.clients.len(),
            memory_bytes: server.parameters.memory_bytes.load(Relaxed),
            resident_bytes: server.host.resident_bytes(),
            disk_waits: server.stats.waits.load(Relaxed),
            scan_passed_over: server.stats.passed_over.load(Relaxed),
            command_latency: CommandLatency::collect(shared),
            ..Self::default()
        };
        for index in 0..shared.locks.len() {
            let stats = shared.locks.hold(index).store.stats();
            state.entries += stats.entries;
            state.entries_in_memory += stats.entries_in_memory;
            state.file_bytes += stats.file_bytes;
            state.live_bytes += stats.live_bytes;
            state.damages += stats.damages;
        }
        state
    }
}

impl Observed for Shared {
    fn page(&self) -> &'static str {
        "<!doctype html><title>enroute db</title><p><a href=/stats>/stats</a>, <a href=/metrics>/metrics</a>; \
         POST {\"memory\": \"1GiB\"} to /storage to rescale."
    }

    fn is_draining(&self) -> bool {
        self.is_ending()
    }

    fn statistics(&self) -> Value {
        serde_json::to_value(State::collect(self)).expect("plain values become JSON")
    }

    fn exposition(&self) -> Exposition {
        let (state, mut text) = (State::collect(self), Exposition::new("enroute_db"));
        let statistics = serde_json::to_value(&state).expect("plain values become JSON");
        let number = |name| statistics[name].as_u64().unwrap_or_default();
        text.gauge("uptime_seconds", "Time since the database started serving.")
            .value(state.uptime_seconds);
        COUNTERS.iter().for_each(|(name, help)| text.counter(name, help).value(number(name)));
        GAUGES.iter().for_each(|(name, help)| text.gauge(name, help).value(number(name)));
        state.command_latency.expose(&mut text);
        text
    }

    fn flush(&self) -> bool {
        false
    }

    fn backup(&self, directory: &Path) -> Option<Result<Backup, String>> {
        Some(self.backups.ask(directory))
    }

    fn resize(&self, wanted: Room) -> Result<Room, String> {
        if let Some(bytes) = wanted.memory_alone()? {
            if (bytes as u64) < MEMORY_BYTES_MIN {
                return Err(format!("expected `memory` of at least 32MiB, got {bytes} bytes"));
            }
            self.rescale(bytes as u64);
        }
        let bytes_max = self.server.parameters.memory_bytes.load(Relaxed) as usize;
        Ok(Room { items_max: None, bytes_max: Some(bytes_max) })
    }
}
