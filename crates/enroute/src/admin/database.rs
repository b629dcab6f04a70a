//! What the database answers: its state, and new memory.

use std::sync::atomic::Ordering::Relaxed;

use db::parameters::MEMORY_BYTES_MIN;
use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use tracing::info;

use super::service::{Answer, Endpoint, json, refuse, text};
use crate::{config, database::Shared};

const EXAMPLE: &str = r#"{"memory": "512MiB"}"#;

/// What `GET /stats` says; sizes are bytes.
#[derive(Debug, Serialize)]
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
}

impl State {
    fn collect(shared: &Shared) -> Self {
        let server = &shared.server;
        let mut state = Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: shared.now().saturating_sub(server.began).as_secs_f64(),
            commands: server.stats.commands.load(Relaxed),
            clients: server.clients.len(),
            entries: 0,
            entries_in_memory: 0,
            memory_bytes: server.parameters.memory_bytes.load(Relaxed),
            resident_bytes: server.host.resident_bytes(),
            file_bytes: 0,
            live_bytes: 0,
            disk_waits: server.stats.waits.load(Relaxed),
            damages: 0,
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

/// The body of `POST /rescale`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    memory: config::Bytes,
}

/// What `POST /rescale` answers: the memory from now on.
#[derive(Debug, Serialize)]
struct Rescaled {
    memory_bytes: u64,
}

impl Endpoint for Shared {
    const PATHS: &'static [(&'static str, Method)] =
        &[("/stats", Method::GET), ("/healthz", Method::GET), ("/rescale", Method::POST)];

    fn answer(&self, path: &str, body: &[u8]) -> Answer {
        match path {
            "/healthz" => text("text/plain; charset=utf-8", "ok\n"),
            "/stats" => json(&State::collect(self)),
            _ => rescale(body, self),
        }
    }
}

fn rescale(body: &[u8], shared: &Shared) -> Answer {
    let memory_bytes = match serde_json::from_slice(body) {
        Ok(Wanted { memory }) => memory.count() as u64,
        Err(error) => {
            return refuse(StatusCode::BAD_REQUEST, format!("{error}; expected {EXAMPLE}"));
        }
    };
    if memory_bytes < MEMORY_BYTES_MIN {
        let why = format!("{memory_bytes} bytes: at least 8MiB is needed to serve anything");
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    shared.rescale(memory_bytes);
    info!(memory_bytes, "rescaled, as asked over HTTP");
    json(&Rescaled { memory_bytes })
}
