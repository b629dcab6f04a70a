//! TLS termination with private keys that may be remote.
//!
//! **What it is.** An [`Acceptor`] ends TLS 1.2 and 1.3 for several domains, told apart by the
//! client's server name (SNI). The key of a domain is a [`Key::Local`], or a [`Key::Remote`]: then
//! each full handshake asks a [`PrivateKeySource`] once, with *what* is to be signed in parts
//! ([`Signed`]), never a digest (dReDBox D6.3 §3.1). Returning clients with a session ticket cause
//! no such request. [`Connector`] is the other direction: TLS to an origin.
//!
//! **What it is not.** No sockets, no clock, no HTTP, no protocol to a key server: streams come
//! from the caller, and the source is the caller's.
//!
//! **Why a crate of its own:** it is the only one that needs BoringSSL, whose build takes cmake,
//! a C++ compiler and libclang (docs/decisions/0020-…). rustls signs synchronously and knows no RSA
//! key exchange.
//!
//! **Read first:** [`Acceptor`], then `signed.rs`, what a key server is asked to sign.
#![deny(unsafe_code)]

mod acceptor;
mod alert;
mod authority;
mod certificate;
mod connector;
mod method;
mod signed;
mod source;

pub use acceptor::{Acceptor, HandshakeFailure, Key, LocalKey, Protocol, Session, Site, TlsStream};
pub use authority::{Authority, Issued, KeyKind, random_hex};
pub use certificate::CertificateChain;
pub use connector::Connector;
pub use signed::{NotSigned, Signed};
pub use source::{KeyFailure, KeyFuture, Premaster, PrivateKeySource, SignatureAlgorithm};

/// Errors of a certificate, a key or a connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The certificate file is no PEM, or empty.
    #[error("expected a certificate in PEM, found none: {0}")]
    Certificate(String),
    /// The key file is no PEM key.
    #[error("expected a private key in PEM, found none: {0}")]
    Key(String),
    /// Key and certificate are of different pairs.
    #[error("the key does not belong to the certificate")]
    OtherKey,
    /// BoringSSL refused a setting.
    #[error("cannot set up TLS: {0}")]
    Setup(String),
    /// A handshake with an origin failed.
    #[error("TLS with {domain}: {reason}")]
    Connect {
        /// The peer.
        domain: String,
        /// Why it failed.
        reason: String,
    },
}
