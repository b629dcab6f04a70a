//! Ending TLS for several domains.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock},
};

use boring::{
    error::ErrorStack,
    ex_data::Index,
    pkey::{PKey, Private},
    sha::sha256,
    ssl::{
        AlpnError, NameType, SniError, Ssl, SslAcceptor, SslAcceptorBuilder, SslAlert, SslContext,
        SslMethod, SslRef, SslSessionCacheMode, SslVersion, select_next_proto,
    },
};
use parking_lot::RwLock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_boring::HandshakeError;

use crate::{
    CertificateChain, Error, PrivateKeySource,
    method::{Refusal, RemoteKey},
};

/// A decrypted stream.
pub type TlsStream<S> = tokio_boring::SslStream<S>;

/// Forward secret, authenticated ciphers; TLS 1.3 brings its own.
const CIPHERS: &str = "ECDHE+AESGCM:ECDHE+CHACHA20";
/// Cipher suites that `rsa_key_exchange` adds: RFC 5288 without ECDHE.
const RSA_CIPHERS: &str = ":AES128-GCM-SHA256:AES256-GCM-SHA384";
/// RFC 7301, in the order we prefer them.
const PROTOCOLS: &[u8] = b"\x02h2\x08http/1.1";

/// Index of the data attached to a connection: its site, and why its key was refused.
static SITE: LazyLock<Index<SslContext, Arc<str>>> =
    LazyLock::new(|| SslContext::new_ex_index().expect("BoringSSL has memory for an index"));
pub(crate) static REFUSAL: LazyLock<Index<Ssl, Refusal>> =
    LazyLock::new(|| Ssl::new_ex_index().expect("BoringSSL has memory for an index"));

/// The private key of a domain.
#[derive(Clone)]
pub enum Key {
    /// In this process.
    Local(LocalKey),
    /// Elsewhere.
    Remote(Arc<dyn PrivateKeySource>),
}

/// A private key in this process.
#[derive(Clone)]
pub struct LocalKey(PKey<Private>);

impl LocalKey {
    /// Reads the PEM of the key whose other half is in `certificates`.
    ///
    /// # Errors
    /// It is no key, or of another pair than the certificate.
    pub fn from_pem(pem: &[u8], certificates: &CertificateChain) -> Result<Self, Error> {
        let wrong = |error: ErrorStack| Error::Key(error.to_string());
        let key = PKey::private_key_from_pem(pem).map_err(wrong)?;
        let public = certificates.0[0].public_key().map_err(wrong)?;
        if public.public_eq(&key) { Ok(Self(key)) } else { Err(Error::OtherKey) }
    }
}

/// One domain.
#[derive(Clone)]
pub struct Site {
    /// Its name, `shop.example`, or `*.example` for all names one label below.
    pub domain: String,
    /// Its certificate chain for clients.
    pub certificates: CertificateChain,
    /// Its private key.
    pub key: Key,
    /// Let TLS 1.2 clients without ECDHE encrypt the premaster secret to the certificate's key. No
    /// forward secrecy: recorded traffic can be read by anything that gets the key later.
    pub rsa_key_exchange: bool,
}

/// Ends TLS for all its sites. Tickets are sealed with keys of its own, which live and change
/// (every two days) in its memory: neither new certificates nor the absence of a key server touch
/// them.
pub struct Acceptor {
    /// The context in which every connection begins; it has the ticket keys.
    base: SslAcceptor,
    contexts: Arc<RwLock<Contexts>>,
}

/// The contexts that connections switch to, by domain.
type Contexts = HashMap<String, SslContext>;

/// The result of the handshake's negotiation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The `domain` of the site, as configured.
    pub site: Arc<str>,
    /// The session was resumed: no private key was used.
    pub resumed: bool,
    /// The application protocol.
    pub protocol: Protocol,
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
}

/// The protocol agreed on by ALPN; HTTP/1.1 where the client names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1
    Http1,
    /// HTTP/2
    Http2,
}

/// A handshake that failed.
#[derive(Debug)]
pub struct HandshakeFailure {
    /// Why.
    pub reason: String,
    /// The key could not be used: not the client's fault.
    pub key_failed: bool,
}

impl fmt::Display for HandshakeFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.key_failed { "the private key could not be used: " } else { "" };
        write!(out, "{what}{}", self.reason)
    }
}

impl Acceptor {
    /// An acceptor for these sites; of two with one domain, the later.
    ///
    /// # Errors
    /// BoringSSL refuses something of it.
    pub fn new(sites: &[Site]) -> Result<Self, Error> {
        let contexts = Arc::new(RwLock::new(contexts(sites)?));
        let found = Arc::clone(&contexts);
        let mut builder = base().map_err(setup)?;
        builder.set_servername_callback(move |ssl, alert| {
            let name = ssl.servername(NameType::HOST_NAME).unwrap_or_default().to_ascii_lowercase();
            let contexts = found.read();
            // A client without a server name gets the only site.
            let only = contexts.values().next().filter(|_| name.is_empty() && contexts.len() == 1);
            let found = find(&contexts, &name).or(only);
            if found.is_some_and(|context| ssl.set_ssl_context(context).is_ok()) {
                return Ok(());
            }
            *alert = SslAlert::UNRECOGNIZED_NAME;
            ssl.replace_ex_data(*REFUSAL, Refusal(format!("no site has the name {name:?}")));
            Err(SniError::ALERT_FATAL)
        });
        Ok(Self { base: builder.build(), contexts })
    }

    /// Uses these sites for new handshakes. Open connections and handshakes in progress are not
    /// affected, and tickets stay valid.
    ///
    /// # Errors
    /// BoringSSL rejects a site; then nothing has changed.
    pub fn replace(&self, sites: &[Site]) -> Result<(), Error> {
        let contexts = contexts(sites)?;
        *self.contexts.write() = contexts;
        Ok(())
    }

    /// Performs the TLS handshake with a client.
    ///
    /// # Errors
    /// The handshake failed; the client got an alert if one applies.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin + fmt::Debug>(
        &self,
        stream: S,
    ) -> Result<(TlsStream<S>, Session), HandshakeFailure> {
        let stream = tokio_boring::accept(&self.base, stream).await.map_err(|error| {
            let refusal = error.ssl().and_then(|ssl| ssl.ex_data(*REFUSAL));
            let named = error.ssl().is_some_and(|ssl| site_of(ssl).is_some());
            HandshakeFailure {
                key_failed: refusal.is_some() && named,
                reason: refusal.map_or_else(|| describe(&error), |Refusal(reason)| reason.clone()),
            }
        })?;
        let ssl = stream.ssl();
        let session = Session {
            site: site_of(ssl).cloned().unwrap_or_default(),
            resumed: ssl.session_reused(),
            protocol: match ssl.selected_alpn_protocol() {
                Some(b"h2") => Protocol::Http2,
                _ => Protocol::Http1,
            },
            version: ssl.version_str(),
        };
        Ok((stream, session))
    }
}

fn site_of(ssl: &SslRef) -> Option<&Arc<str>> {
    ssl.ssl_context().ex_data(*SITE)
}

fn find<'a, T>(sites: &'a HashMap<String, T>, name: &str) -> Option<&'a T> {
    sites.get(name).or_else(|| {
        let (_, parent) = name.split_once('.')?;
        sites.get(&format!("*.{parent}"))
    })
}

fn base() -> Result<SslAcceptorBuilder, ErrorStack> {
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    builder.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    // Sessions live in tickets at the clients, so they cost no memory here.
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    builder.set_alpn_select_callback(|_, client| {
        select_next_proto(PROTOCOLS, client).ok_or(AlpnError::ALERT_FATAL)
    });
    Ok(builder)
}

fn contexts(sites: &[Site]) -> Result<Contexts, Error> {
    sites.iter().map(|site| Ok((site.domain.to_ascii_lowercase(), context(site)?))).collect()
}

fn context(site: &Site) -> Result<SslContext, Error> {
    let mut builder = base().map_err(setup)?;
    let ciphers = CIPHERS.to_owned() + if site.rsa_key_exchange { RSA_CIPHERS } else { "" };
    builder.set_strict_cipher_list(&ciphers).map_err(setup)?;
    // A ticket of one site opens none of another.
    builder.set_session_id_context(&sha256(site.domain.as_bytes())).map_err(setup)?;
    builder.replace_ex_data(*SITE, site.domain.as_str().into());
    let (leaf, chain) = site.certificates.0.split_first().expect("a chain is never empty");
    builder.set_certificate(leaf).map_err(setup)?;
    for certificate in chain {
        builder.add_extra_chain_cert(certificate.clone()).map_err(setup)?;
    }
    match &site.key {
        Key::Local(LocalKey(key)) => builder.set_private_key(key).map_err(setup)?,
        Key::Remote(source) => {
            builder.set_async_private_key_method(RemoteKey(Arc::clone(source)));
        }
    }
    Ok(builder.build().into_context())
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn setup(error: ErrorStack) -> Error {
    Error::Setup(error.to_string())
}

/// The error of a handshake, in one line.
pub(crate) fn describe<S: fmt::Debug>(error: &HandshakeError<S>) -> String {
    if let Some(error) = error.as_io_error() {
        return error.to_string();
    }
    let text = error.to_string();
    if text.is_empty() { "the other side closed the connection".to_owned() } else { text }
}

#[cfg(test)]
mod tests;
