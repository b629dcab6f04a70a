//! The admin endpoint of a command.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use anyhow::{Context, bail};
use endpoint::Endpoint;
use platform::listening;
use serde::{Deserialize, Serialize};

use crate::{
    admin::{self, Observed},
    config::AdminDocument,
};

/// The address of an admin endpoint that does not serve yet.
pub(super) struct Admin {
    socket: TcpListener,
    names: Vec<String>,
}

impl Admin {
    /// Listens, if an endpoint is configured.
    pub(super) fn listen(document: Option<&AdminDocument>) -> anyhow::Result<Option<Self>> {
        let Some(AdminDocument { listen, names }) = document else { return Ok(None) };
        let socket = listening::bind_aside(*listen).context("the admin endpoint")?;
        Ok(Some(Self { socket, names: names.clone() }))
    }

    /// Listens at `address`, if there is one.
    pub(super) fn at(address: Option<SocketAddr>) -> anyhow::Result<Option<Self>> {
        let document = address.map(|listen| AdminDocument { listen, names: Vec::new() });
        Self::listen(document.as_ref())
    }

    /// Its socket, for another process.
    pub(super) fn socket(&self) -> std::io::Result<TcpListener> {
        self.socket.try_clone()
    }

    /// Serves `shared`, and prints where.
    pub(super) fn serve(self, shared: Arc<impl Observed>) -> anyhow::Result<Endpoint> {
        let endpoint = admin::start(self.socket, shared, self.names)
            .context("cannot start the admin endpoint")?;
        eprintln!("admin: http://{}/", endpoint.address());
        Ok(endpoint)
    }
}

/// Posts `body` to an admin endpoint; returns the answer.
pub(super) fn post(admin: &str, path: &str, body: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(endpoint::post(admin, path, body));
    let (status, body) = answer.map_err(anyhow::Error::from_boxed).with_context(|| {
        format!(
            "no answer from the admin endpoint {admin}; start the process with --admin, and give \
             its address here"
        )
    })?;
    if !status.is_success() {
        let refusal: Option<Refusal> = serde_json::from_slice(&body).ok();
        let text = || String::from_utf8_lossy(&body).trim().to_owned();
        bail!("{}", refusal.map_or_else(text, |refusal| refusal.error));
    }
    Ok(body.to_vec())
}

/// An error of the endpoint.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}
