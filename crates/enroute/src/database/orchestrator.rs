//! Asking an orchestrator for memory (dReDBox key server, §5: the `rescale` call, a JSON object
//! sent through a socket and a response). The format is `docs/formats/rescale.md`.

use std::{str::FromStr, time::Duration};

use anyhow::{Context, bail};
use hyper::{StatusCode, Uri};
use serde::{Deserialize, Serialize};
use tokio::{runtime::Runtime, time::timeout};

/// Longest wait for an answer, connecting included.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request to an orchestrator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rescale {
    /// The version of the format: 1.
    pub version: u32,
    /// The process that asks.
    pub process_id: u32,
    /// The requested resident memory of the process, in bytes.
    pub memory_bytes: u64,
    /// The memory it has now; equal to the memory it wants after a release.
    pub present_bytes: u64,
    /// Resident memory of the process now, in bytes.
    pub resident_bytes: u64,
    /// The reason, for people.
    pub reason: String,
}

/// The orchestrator's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The memory the process may use from now on, in bytes: at least its present memory, at most
    /// the requested memory.
    pub granted_bytes: u64,
}

/// The present version of the format.
pub const VERSION: u32 = 1;

/// Address of an orchestrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    host_port: String,
    path: String,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not an HTTP URL; write for example http://127.0.0.1:9130/rescale")
        };
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong());
        };
        let port = authority.port_u16().unwrap_or(80);
        let host_port = format!("{}:{port}", authority.host());
        Ok(Self { host_port, path: uri.path().to_owned() })
    }
}

/// An orchestrator that can be asked.
pub(super) struct Orchestrator {
    place: Place,
    runtime: Runtime,
}

impl Orchestrator {
    pub(super) fn new(place: Place) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self { place, runtime: runtime.context("cannot start the client of the orchestrator")? })
    }

    /// Asks for `memory_bytes` in place of `present_bytes`; returns the granted memory.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    pub(super) fn ask(
        &self,
        present_bytes: u64,
        memory_bytes: u64,
        reason: &str,
    ) -> anyhow::Result<u64> {
        let rescale = Rescale {
            version: VERSION,
            process_id: std::process::id(),
            memory_bytes,
            present_bytes,
            resident_bytes: super::host::resident_bytes(),
            reason: reason.to_owned(),
        };
        let asked =
            self.runtime.block_on(async { timeout(PATIENCE, self.exchange(&rescale)).await });
        asked
            .unwrap_or_else(|_| bail!("no answer within {PATIENCE:?}"))
            .with_context(|| format!("the orchestrator at {}", self.place.host_port))
    }

    async fn exchange(&self, rescale: &Rescale) -> anyhow::Result<u64> {
        let posted = endpoint::post(&self.place.host_port, &self.place.path, rescale).await;
        let (status, body) = posted.map_err(anyhow::Error::from_boxed).context("no reply")?;
        if status != StatusCode::OK {
            bail!("expected status 200, got {status}: {}", String::from_utf8_lossy(&body).trim());
        }
        let granted: Granted = serde_json::from_slice(&body)
            .context("expected {\"granted_bytes\": …}, see docs/formats/rescale.md")?;
        Ok(granted.granted_bytes)
    }
}
