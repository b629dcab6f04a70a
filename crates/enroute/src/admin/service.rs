//! The paths of the endpoint, their responses and errors.

use endpoint::{Answer, json, refuse, text};
use http_body_util::{BodyExt, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{ALLOW, HeaderValue},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tracing::{error, info};

use super::{BackupWanted, Observed, Read, Room};
use crate::config;

/// Longest body of a request.
const BODY_BYTES_MAX: usize = 4 << 10;
const NOT_FLUSHED: &str = "nothing can be dropped over HTTP; a database has the command FLUSHALL";
const NOT_RELOADED: &str =
    "only `enroute cache --config FILE` is reloaded over HTTP; other services by SIGHUP";
const READ_EXAMPLE: &str = r#"{"listen": "127.0.0.1:6380", "request": ["GET", "user:42"]}"#;
const BACKUP_EXAMPLE: &str = r#"{"directory": "/backups/monday"}"#;
const EXAMPLE: &str = r#"{"items": 100000, "memory": "512MiB"}"#;

/// Answers one request.
pub(super) async fn answer(request: Request<Incoming>, shared: &impl Observed) -> Answer {
    let path = request.uri().path();
    let Some(method) = method_of(path) else {
        return refuse(
            StatusCode::NOT_FOUND,
            format!(
                "unknown path {path}: expected GET /, /stats, /metrics, /healthz, \
                 POST /storage, POST /flush, POST /reload, POST /backup or POST /explain"
            ),
        );
    };
    let asked = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    if *asked != method {
        let mut answer = refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{path}: expected method {method}, got {asked}"),
        );
        let allow = HeaderValue::from_str(method.as_str()).expect("a method is a header value");
        answer.headers_mut().insert(ALLOW, allow);
        return answer;
    }
    match path {
        "/" => text("text/html; charset=utf-8", shared.page()),
        "/healthz" => health(shared),
        "/metrics" => shared.exposition().answer(request.headers()),
        "/stats" => json(&shared.statistics()),
        "/flush" => {
            if !shared.flush() {
                return refuse(StatusCode::FORBIDDEN, NOT_FLUSHED.to_owned());
            }
            info!("POST /flush: all entries dropped");
            json(&Flushed { flushed: true })
        }
        "/reload" => reload(shared),
        "/backup" => backup(request, shared).await,
        "/explain" => explain(request, shared).await,
        _ => resize(request, shared).await,
    }
}

fn method_of(path: &str) -> Option<Method> {
    match path {
        "/" | "/healthz" | "/metrics" | "/stats" => Some(Method::GET),
        "/storage" | "/flush" | "/reload" | "/backup" | "/explain" => Some(Method::POST),
        _ => None,
    }
}

fn health(shared: &impl Observed) -> Answer {
    if shared.is_draining() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "draining".to_owned());
    }
    text("text/plain; charset=utf-8", "ok\n")
}

/// The body of `POST /storage`; absent fields stay unchanged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    items: Option<usize>,
    memory: Option<config::Bytes>,
}

#[derive(Debug, Serialize)]
struct Flushed {
    flushed: bool,
}

/// Reads the body of a request; the error says what is `expected`.
async fn body<T: DeserializeOwned>(
    request: Request<Incoming>,
    expected: &str,
) -> Result<T, Answer> {
    let refused = |why| refuse(StatusCode::BAD_REQUEST, why);
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| {
        refused(format!("cannot read the body, at most {BODY_BYTES_MAX} bytes: {error}"))
    })?;
    serde_json::from_slice(&body.to_bytes())
        .map_err(|error| refused(format!("{error}; expected {expected}")))
}

fn reload(shared: &impl Observed) -> Answer {
    match shared.reload() {
        Some(Ok(reloaded)) => json(&reloaded),
        Some(Err(error)) => {
            error!("POST /reload: reload failed, nothing changed: {error:#}");
            refuse(StatusCode::UNPROCESSABLE_ENTITY, format!("nothing changed: {error:#}"))
        }
        None => refuse(StatusCode::FORBIDDEN, NOT_RELOADED.to_owned()),
    }
}

async fn backup(request: Request<Incoming>, shared: &impl Observed) -> Answer {
    let wanted: BackupWanted = match body(request, BACKUP_EXAMPLE).await {
        Ok(wanted) => wanted,
        Err(answer) => return answer,
    };
    if !wanted.directory.is_absolute() {
        let why = format!("directory: expected an absolute path, as in {BACKUP_EXAMPLE}");
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    match shared.backup(&wanted.directory) {
        Some(Ok(backup)) => json(&backup),
        Some(Err(error)) => refuse(StatusCode::UNPROCESSABLE_ENTITY, error),
        None => refuse(StatusCode::NOT_FOUND, "only `enroute db` makes backups".to_owned()),
    }
}

/// Neither the key nor the explanation is logged.
async fn explain(request: Request<Incoming>, shared: &impl Observed) -> Answer {
    let read: Read = match body(request, READ_EXAMPLE).await {
        Ok(read) => read,
        Err(answer) => return answer,
    };
    match shared.explain(&read) {
        Some(Ok(lines)) => text("text/plain; charset=utf-8", lines),
        Some(Err(expected)) => refuse(StatusCode::BAD_REQUEST, expected),
        None => refuse(StatusCode::NOT_FOUND, "only `enroute cache` explains reads".to_owned()),
    }
}

async fn resize(request: Request<Incoming>, shared: &impl Observed) -> Answer {
    let wanted: Wanted = match body(request, &format!("one or both of {EXAMPLE}")).await {
        Ok(wanted) => wanted,
        Err(answer) => return answer,
    };
    if wanted.items.is_none() && wanted.memory.is_none() {
        let why = format!("nothing to change; expected one or both of {EXAMPLE}");
        return refuse(StatusCode::BAD_REQUEST, why);
    }
    let room = Room { items_max: wanted.items, bytes_max: wanted.memory.map(config::Bytes::count) };
    match shared.resize(room) {
        Ok(room) => {
            info!(?room, "POST /storage: storage resized");
            json(&room)
        }
        Err(expected) => refuse(StatusCode::BAD_REQUEST, expected),
    }
}
