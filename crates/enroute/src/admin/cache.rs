//! What the cache answers: its page, statistics, new limits, a flush.

use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use tracing::info;

use super::{
    Statistics, exposition,
    service::{Answer, Endpoint, METRICS, json, refuse, text},
};
use crate::{
    config,
    runtime::{Shared, StorageLimits},
};

const PAGE: &str = include_str!("page.html");
const EXAMPLE: &str = r#"{"items": 100000, "memory": "512MiB"}"#;

impl Endpoint for Shared {
    const PATHS: &'static [(&'static str, Method)] = &[
        ("/", Method::GET),
        ("/stats", Method::GET),
        ("/metrics", Method::GET),
        ("/healthz", Method::GET),
        ("/storage", Method::POST),
        ("/flush", Method::POST),
    ];

    fn answer(&self, path: &str, body: &[u8]) -> Answer {
        match path {
            "/" => text("text/html; charset=utf-8", PAGE),
            "/healthz" => health(self),
            "/metrics" => text(METRICS, exposition(&Statistics::collect(self))),
            "/stats" => json(&Statistics::collect(self)),
            "/flush" => {
                self.shards.clear();
                info!("emptied, as asked over HTTP");
                json(&Flushed { flushed: true })
            }
            _ => resize(body, self),
        }
    }
}

fn health(shared: &Shared) -> Answer {
    if shared.is_draining() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "draining".to_owned());
    }
    text("text/plain; charset=utf-8", "ok\n")
}

/// The body of `POST /storage`; what is absent stays as it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    items: Option<usize>,
    memory: Option<config::Bytes>,
}

/// What `POST /storage` answers: the limits from now on.
#[derive(Debug, Serialize)]
struct Limits {
    items_max: Option<usize>,
    bytes_max: usize,
}

#[derive(Debug, Serialize)]
struct Flushed {
    flushed: bool,
}

fn resize(body: &[u8], shared: &Shared) -> Answer {
    let wanted: Wanted = match serde_json::from_slice(body) {
        Ok(wanted) => wanted,
        Err(error) => {
            let why = format!("{error}; expected one or both of {EXAMPLE}");
            return refuse(StatusCode::BAD_REQUEST, why);
        }
    };
    if wanted.items.is_none() && wanted.memory.is_none() {
        let why = format!("nothing to change; expected one or both of {EXAMPLE}");
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    let StorageLimits { items_max, bytes_max } = shared.shards.resize(|limits| {
        limits.items_max = wanted.items.unwrap_or(limits.items_max);
        limits.bytes_max = wanted.memory.map_or(limits.bytes_max, config::Bytes::count);
    });
    info!(items_max, bytes_max, "storage resized, as asked over HTTP");
    json(&Limits { items_max: (items_max != usize::MAX).then_some(items_max), bytes_max })
}
