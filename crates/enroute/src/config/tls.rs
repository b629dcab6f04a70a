//! TLS of a listener and of its origin, as written in the file.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::Context;
use notation::AddressTls;
use platform::tls;
use rustls::pki_types::DnsName;
use serde::Deserialize;

use super::ListenerDocument;

/// TLS to clients; all files are PEM.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsDocument {
    /// Certificate and the chain above it.
    pub cert: Option<PathBuf>,
    /// Private key of `cert`.
    pub key: Option<PathBuf>,
    /// Authorities: each client must present a certificate signed by one of them. Default: clients
    /// need none.
    pub ca: Option<PathBuf>,
    /// Server names (SNI) of its clients, for all of which `cert` must be valid; default: any.
    /// Listeners with names can have the same address.
    #[serde(default)]
    pub names: Vec<String>,
    /// The TLS of clients ends at the origin: it is relayed and nothing is cached.
    #[serde(default)]
    pub pass_through: bool,
}

/// TLS to an origin whose address requires it; all files are PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OriginTlsDocument {
    /// Authorities that may have signed the origin's certificate; default: those of the system.
    pub ca: Option<PathBuf>,
    /// Client certificate for an origin that requires one.
    pub cert: Option<PathBuf>,
    /// Private key of `cert`.
    pub key: Option<PathBuf>,
    /// Name in the certificate of the origin; default: the host in its address.
    pub name: Option<String>,
}

impl ListenerDocument {
    /// The first mistake in the TLS options of a listener.
    pub(super) fn find_tls_mistake(&self) -> Result<(), (&'static str, String)> {
        let mistake = |field, message: &str| Err((field, message.to_owned()));
        let Self { listen, origin, .. } = self;
        if listen.tls.as_ref().is_some_and(|tls| *tls != AddressTls::default()) {
            return mistake(
                "listen",
                "TLS files of a listener belong to `tls = { cert, key, ca }`",
            );
        }
        if listen.tls.is_some() && self.tls.is_none() {
            let message = format!("listen = \"{listen}\" needs `tls = {{ cert, key }}`");
            return Err(("listen", message));
        }
        if origin.tls.is_some() && origin.is_original() {
            return mistake(
                "origin",
                "TLS cannot be combined with origin `original`: the name in the certificates of \
                 the origins is not known",
            );
        }
        if let Some(name) = self.names().iter().find(|name| DnsName::try_from(&***name).is_err()) {
            return Err(("tls", format!("expected DNS names in `names`, found \"{name}\"")));
        }
        let Some(written) = self.tls.as_ref() else { return self.find_origin_mistake() };
        if !written.pass_through {
            return match (&written.cert, &written.key) {
                (Some(_), Some(_)) => self.find_origin_mistake(),
                _ => mistake("tls", "expected `cert` and `key`, or `pass_through = true`"),
            };
        }
        if [&written.cert, &written.key, &written.ca].into_iter().any(Option::is_some) {
            return mistake("tls", "`pass_through` presents no certificate: remove the files");
        }
        if self.origin_tls.is_some() || origin.is_original() || self.feed.is_some() {
            return mistake(
                "tls",
                "`pass_through` cannot be combined with `origin_tls`, `feed` or origin `original`",
            );
        }
        Ok(())
    }

    /// The first mistake in the options of TLS to its origin.
    fn find_origin_mistake(&self) -> Result<(), (&'static str, String)> {
        let mistake = |field, message: &str| Err((field, message.to_owned()));
        let Some(written) = &self.origin_tls else { return Ok(()) };
        let Some(address) = &self.origin.tls else {
            return mistake(
                "origin_tls",
                "the address of the origin does not ask for TLS; write rediss://HOST:PORT, \
                 mongodb://HOST:PORT/?tls=true or dynamodbs://HOST",
            );
        };
        if written.cert.is_some() != written.key.is_some() {
            return mistake("origin_tls", "expected `cert` and `key` together");
        }
        if (written.ca.is_some() && address.ca.is_some())
            || (written.cert.is_some() && address.identity.is_some())
        {
            return mistake(
                "origin_tls",
                "the same file is also named in the address of the origin",
            );
        }
        Ok(())
    }

    /// Whether the TLS of its clients ends at the origin.
    pub(super) fn passes_through(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.pass_through)
    }

    /// Server names of its clients; none are any.
    pub(super) fn names(&self) -> Vec<String> {
        let names = self.tls.iter().flat_map(|tls| &tls.names);
        names.map(|name| name.to_ascii_lowercase()).collect()
    }

    /// The address that clients are told, of a listener at `bound`.
    pub(super) fn advertised(&self, bound: SocketAddr) -> String {
        let named = || Some(format!("{}:{}", self.names().first()?, bound.port()));
        self.advertise.clone().or_else(named).unwrap_or_else(|| bound.to_string())
    }

    /// Whether the server name decides between this listener and `other` of the same address.
    pub(super) fn shares_port(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.names(), other.names());
        self.listen.host_port == other.listen.host_port && !ours.is_empty() && !theirs.is_empty()
    }

    /// All files of TLS that it names, with their fields.
    pub(super) fn tls_files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let clients = self.tls.iter().flat_map(|TlsDocument { cert, key, ca, .. }| {
            [cert.as_ref(), key.as_ref(), ca.as_ref()].map(|path| ("tls", path))
        });
        let origin =
            self.origin_tls.iter().flat_map(|OriginTlsDocument { ca, cert, key, .. }| {
                [ca.as_ref(), cert.as_ref(), key.as_ref()].map(|path| ("origin_tls", path))
            });
        let address = self.origin.tls.iter().flat_map(|AddressTls { ca, identity }| {
            [ca.as_ref(), identity.as_ref()].map(|path| ("origin", path))
        });
        let all = clients.chain(origin).chain(address);
        all.filter_map(|(field, path)| Some((field, path?)))
    }

    /// TLS to its clients.
    pub(super) fn server_tls(&self) -> anyhow::Result<Option<Arc<tls::Server>>> {
        let Some(TlsDocument { cert, key, ca, .. }) = self.tls.clone() else { return Ok(None) };
        let (Some(certificate), Some(key)) = (cert, key) else { return Ok(None) };
        let files = tls::Files { certificate, key, authority: ca, names: self.names() };
        Ok(Some(Arc::new(tls::Server::new(files)?)))
    }

    /// TLS to its origin.
    pub(super) fn client_tls(&self) -> anyhow::Result<Option<Arc<tls::Client>>> {
        let Some(address) = self.origin.tls.clone().filter(|_| !self.passes_through()) else {
            return Ok(None);
        };
        let written = self.origin_tls.clone().unwrap_or_default();
        let identity = address.identity.map(|file| (file.clone(), file));
        let expected = tls::Expected {
            name: written.name,
            authority: written.ca.or(address.ca),
            identity: written.cert.zip(written.key).or(identity),
        };
        let client = tls::Client::new(expected);
        Ok(Some(Arc::new(client.with_context(|| format!("origin = \"{}\"", self.origin))?)))
    }
}
