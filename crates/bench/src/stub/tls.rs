//! An echo server with rustls.

use std::{io, net::TcpListener, path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::aws_lc_rs::{self, Ticketer},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{copy, split},
    task::{LocalSet, spawn_local},
};
use tokio_rustls::TlsAcceptor;

/// Serves until killed, on one thread.
pub(super) fn serve(listener: TcpListener, certificate: &Path, key: &Path) -> io::Result<()> {
    let acceptor = TlsAcceptor::from(Arc::new(config(certificate, key)?));
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let acceptor = acceptor.clone();
            spawn_local(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let (mut read, mut write) = split(stream);
                // A client that disconnects ends its task; errors are ignored.
                let _ = copy(&mut read, &mut write).await;
            });
        }
    })
}

/// With session tickets, as in the cache.
fn config(certificate: &Path, key: &Path) -> io::Result<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(io::Error::other)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|tls| tls.with_no_client_auth().with_single_cert(chain, key))
        .map_err(io::Error::other)?;
    config.ticketer = Ticketer::new().map_err(io::Error::other)?;
    Ok(config)
}
