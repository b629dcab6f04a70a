//! The admin endpoint of a command.

use std::{net::TcpListener, sync::Arc};

use anyhow::Context;

use endpoint::Endpoint;

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
        let socket = TcpListener::bind(listen).with_context(|| {
            format!(
                "cannot listen on {listen} for the admin endpoint; check that no other process \
                 uses the address"
            )
        })?;
        Ok(Some(Self { socket, names: names.clone() }))
    }

    /// Serves `shared`, and prints where.
    pub(super) fn serve(self, shared: Arc<impl Observed>) -> anyhow::Result<Endpoint> {
        let endpoint = admin::start(self.socket, shared, self.names)
            .context("cannot start the admin endpoint")?;
        eprintln!("admin: http://{}/", endpoint.address());
        Ok(endpoint)
    }
}
