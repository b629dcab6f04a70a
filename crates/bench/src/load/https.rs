//! GETs of one page over TLS: connections that stay, one request at a time on each.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use super::connect;

/// Connections to one site.
pub(crate) struct Browser {
    streams: Vec<StreamOwned<ClientConnection, std::net::TcpStream>>,
    request: String,
}

impl Browser {
    /// Connects, and reads the page once over each connection; `authority` is a PEM file.
    pub(crate) fn connect(
        address: SocketAddr,
        site: &str,
        authority: &Path,
        connections: usize,
    ) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority)?)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        let open = |_| -> anyhow::Result<_> {
            let name = ServerName::try_from(site.to_owned())?;
            let tls = ClientConnection::new(Arc::clone(&config), name)?;
            Ok(StreamOwned::new(tls, connect(address)?))
        };
        let streams = (0..connections).map(open).collect::<anyhow::Result<_>>()?;
        let request = format!("GET /page HTTP/1.1\r\nHost: {site}\r\n\r\n");
        let mut browser = Self { streams, request };
        browser.load_all()?;
        Ok(browser)
    }

    /// Loads the page repeatedly; returns the number of times and the seconds.
    pub(crate) fn load_for(&mut self, duration: Duration) -> anyhow::Result<(u64, f64)> {
        let (began, mut count) = (Instant::now(), 0);
        while began.elapsed() < duration {
            self.load_all()?;
            count += self.streams.len() as u64;
        }
        Ok((count, began.elapsed().as_secs_f64()))
    }

    /// Sends all requests, then reads all responses.
    fn load_all(&mut self) -> anyhow::Result<()> {
        for stream in &mut self.streams {
            stream.write_all(self.request.as_bytes())?;
        }
        self.streams.iter_mut().try_for_each(read_response)
    }
}

fn read_response(stream: &mut impl Read) -> anyhow::Result<()> {
    let mut response = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        ensure!(count > 0, "the edge closed a connection");
        response.extend_from_slice(&buffer[..count]);
        let text = std::str::from_utf8(&response)?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        ensure!(head.starts_with("HTTP/1.1 200 "), "the edge answers {head}");
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let length: usize = length.context("a response without a length")?;
        if body.len() >= length {
            return Ok(());
        }
    }
}
