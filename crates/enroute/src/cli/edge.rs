//! `enroute edge`: TLS close to clients, with keys on a key server, and a content cache.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use crate::config::{Document, EdgeDocument};

const EXAMPLES: &str = "\
EXAMPLES:
  Check the file, then serve:
    enroute config check edge.toml
    enroute edge --config edge.toml

  A configuration file for one domain with its key on a key server:
    [edge]
    listen = \"0.0.0.0:443\"

    [edge.identity]
    certificate = \"edge.pem\"
    key = \"edge.key\"
    authorities = \"keyserver-ca.pem\"

    [[edge.site]]
    domain = \"shop.example\"
    certificate = \"shop.pem\"
    key = \"keyserver:keys.example:7443\"
    origin = \"http://10.0.0.7:8080\"

docs/guide/edge.md describes all options.

SIGTERM and Ctrl-C wait for requests in progress (drain_timeout, 10 s), then exit. SIGHUP reads the
file, certificates and keys again: changes of sites and [edge.identity] apply to new connections;
the log names changes that need a restart. If any file has a mistake, nothing changes.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Configuration file, TOML, with [edge] and [[edge.site]]
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let document = Document::read(&arguments.config)?;
    match &document.edge {
        Some(edge) => serve(arguments, &document, edge),
        None => bail!("{}: expected [edge], found none", arguments.config.display()),
    }
}

#[cfg(not(feature = "edge"))]
fn serve(_: &Arguments, _: &Document, _: &EdgeDocument) -> anyhow::Result<()> {
    bail!(testbed::command::demo::EDGE_ABSENT)
}

#[cfg(feature = "edge")]
fn serve(arguments: &Arguments, document: &Document, edge: &EdgeDocument) -> anyhow::Result<()> {
    use std::sync::Arc;

    use tracing::{info, warn};

    use super::{
        admin::Admin,
        signal::{EndSignal, on_hangup},
    };
    use crate::edge::Edge;

    let end = EndSignal::listen()?;
    platform::open_files::raise();
    let admin = Admin::listen(document.admin.as_ref())?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let drain = document.drain_timeout.map(crate::config::Time::duration);
    let serving = Edge::start(edge.setup(document.workers.unwrap_or(cores), drain)?)?;
    let (shared, config) = (Arc::clone(serving.shared()), arguments.config.clone());
    let started = document.clone();
    let served = edge.clone();
    on_hangup(move || {
        let mut read = Document::read(&config)?;
        let Some(written) = read.edge.take() else {
            bail!("{}: expected [edge], found none", config.display())
        };
        let (next, waiting) = served.with_sites_of(written);
        shared.replace(next.sites(&shared.key_latency)?)?;
        info!("SIGHUP: sites, certificates and keys reloaded");
        // These are all changes in `[edge]`.
        read.edge.clone_from(&started.edge);
        let others = started.changes(&read);
        for name in waiting.into_iter().map(str::to_owned).chain(others) {
            warn!("SIGHUP: {name} changed in the file; restart to apply it");
        }
        Ok(())
    })?;
    for site in &edge.sites {
        eprintln!("https://{} -> {}", site.domain, site.origin.0);
    }
    eprintln!("edge: https://{}", serving.address());
    let shared = Arc::clone(serving.shared());
    let admin = admin.map(|admin| admin.serve(shared)).transpose()?;
    end.wait(None);
    serving.stop();
    drop(admin);
    Ok(())
}
