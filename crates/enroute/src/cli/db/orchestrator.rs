//! `enroute db orchestrator`: the reference receiver of `docs/formats/rescale.md`. It grants memory
//! and sets the limit of a cgroup to the grant.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::Args;
use endpoint::{Answer, Endpoint, json, refuse};
use http_body_util::{BodyExt, Limited};
use hyper::{Method, Request, StatusCode, body::Incoming};
use tracing::{info, warn};

use crate::{
    cli::signal::EndSignal,
    config,
    database::orchestrator::{Granted, Rescale, VERSION},
};

const EXAMPLES: &str = "\
EXAMPLES:
  Grant up to 4 GiB to a database that adjusts its memory to a latency target:
    enroute db orchestrator --cgroup /sys/fs/cgroup/database --max 4GiB
    enroute db --autoscale p99=1ms,max=8GiB --orchestrator http://127.0.0.1:9130/rescale

docs/formats/rescale.md describes the requests.";

/// Run the reference orchestrator: grant memory to databases by setting the limit of a cgroup
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Address for requests of databases, HTTP. It has no authentication: use a loopback address
    #[arg(long, value_parser = crate::cli::socket_address, value_name = "HOST:PORT", default_value = "127.0.0.1:9130")]
    listen: SocketAddr,

    /// Directory of the database's cgroup, version 1 or 2
    #[arg(long, value_name = "DIRECTORY")]
    cgroup: PathBuf,

    /// Maximum grant. The limit of the cgroup is set to 9/8 of the grant, to leave room for memory
    /// that the kernel keeps for the process
    #[arg(long, value_name = "SIZE")]
    max: config::Bytes,

    /// Additional host name accepted in the Host header, besides IP addresses, localhost and the
    /// machine's name. Repeatable
    #[arg(long, value_name = "HOST")]
    name: Vec<String>,
}

/// Longest request.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Requests are handled one at a time: grants are rare, and each depends on the one before.
const CONNECTIONS_MAX: usize = 1;

/// Rules for requests.
struct Receiver {
    /// The file that holds the group's limit.
    limit: PathBuf,
    max_bytes: u64,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let receiver =
        Receiver { limit: limit_of(&arguments.cgroup)?, max_bytes: arguments.max.count() as u64 };
    let end = EndSignal::listen()?;
    let socket = TcpListener::bind(arguments.listen)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let names = arguments.name.clone();
    let answer = async move |request| receiver.answer(request).await;
    let endpoint = Endpoint::start("orchestrator", CONNECTIONS_MAX, socket, names, answer)
        .context("cannot start the endpoint for requests")?;
    eprintln!("http://{}/rescale grants memory", endpoint.address());
    end.wait(None);
    Ok(())
}

/// The limit file of a group: of version 2, or of version 1.
fn limit_of(cgroup: &Path) -> anyhow::Result<PathBuf> {
    let files = ["memory.max", "memory.limit_in_bytes"].map(|name| cgroup.join(name));
    match files.into_iter().find(|file| file.is_file()) {
        Some(file) => Ok(file),
        None => bail!(
            "--cgroup: expected a directory with memory.max or memory.limit_in_bytes, found \
             neither in {}",
            cgroup.display()
        ),
    }
}

impl Receiver {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        match self.judge(request).await {
            Ok(granted) => json(&granted),
            Err((status, error)) => refuse(status, error),
        }
    }

    async fn judge(&self, request: Request<Incoming>) -> Result<Granted, (StatusCode, String)> {
        if request.uri().path() != "/rescale" {
            return Err((StatusCode::NOT_FOUND, "unknown path: expected POST /rescale".to_owned()));
        }
        if request.method() != Method::POST {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "expected method POST".to_owned()));
        }
        let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
        let body = body.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?.to_bytes();
        let asked: Rescale = serde_json::from_slice(&body)
            .map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        if asked.version != VERSION {
            let why = format!("version {}: expected {VERSION}", asked.version);
            return Err((StatusCode::BAD_REQUEST, why));
        }
        let granted_bytes = asked.memory_bytes.min(self.max_bytes);
        let limit_bytes = granted_bytes + granted_bytes / 8;
        if let Err(error) = fs::write(&self.limit, limit_bytes.to_string()) {
            let why = format!("{}: {error}", self.limit.display());
            warn!(limit_bytes, "cannot set the memory limit of the cgroup, request refused: {why}");
            return Err((StatusCode::SERVICE_UNAVAILABLE, why));
        }
        info!(
            process_id = asked.process_id,
            asked_bytes = asked.memory_bytes,
            granted_bytes,
            limit_bytes,
            "memory granted: {}",
            asked.reason
        );
        Ok(Granted { granted_bytes })
    }
}
