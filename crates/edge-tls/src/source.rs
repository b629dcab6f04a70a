//! Interface to a remote private key.

use std::{future::Future, pin::Pin};

use crate::Signed;

/// Answers a full handshake, wherever the key is.
pub trait PrivateKeySource: Send + Sync + 'static {
    /// Signs a handshake of a client that asks for `server_name`.
    fn sign(
        &self,
        server_name: Option<&str>,
        algorithm: SignatureAlgorithm,
        signed: Signed,
    ) -> KeyFuture<Vec<u8>>;

    /// Decrypts a client's RSA-encrypted premaster secret (TLS 1.2 without ECDHE). A bad padding is
    /// no error: then the answer is random, and the handshake fails later, as RFC 5246 §7.4.7.1
    /// demands. Only asked where RSA key exchange was switched on.
    fn decrypt(&self, server_name: Option<&str>, encrypted: Vec<u8>) -> KeyFuture<Premaster>;
}

/// An answer that is awaited by the handshake.
pub type KeyFuture<T> = Pin<Box<dyn Future<Output = Result<T, KeyFailure>> + Send>>;

/// A decrypted premaster secret.
pub type Premaster = [u8; 48];

/// Why there is no answer; the client gets `internal_error`, the log this text.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct KeyFailure(pub String);

/// Signature algorithm, by its number in TLS (RFC 8446 §4.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u16)]
pub enum SignatureAlgorithm {
    /// RSA PKCS#1 v1.5 with SHA-256; TLS 1.2 only.
    RsaPkcs1Sha256 = 0x0401,
    /// RSA PKCS#1 v1.5 with SHA-384; TLS 1.2 only.
    RsaPkcs1Sha384 = 0x0501,
    /// RSA PKCS#1 v1.5 with SHA-512; TLS 1.2 only.
    RsaPkcs1Sha512 = 0x0601,
    /// ECDSA on P-256 with SHA-256.
    EcdsaP256Sha256 = 0x0403,
    /// ECDSA on P-384 with SHA-384.
    EcdsaP384Sha384 = 0x0503,
    /// RSA PSS with SHA-256.
    RsaPssSha256 = 0x0804,
    /// RSA PSS with SHA-384.
    RsaPssSha384 = 0x0805,
    /// RSA PSS with SHA-512.
    RsaPssSha512 = 0x0806,
    /// Ed25519.
    Ed25519 = 0x0807,
}

impl SignatureAlgorithm {
    /// All of them, in the order an edge prefers them.
    pub const ALL: [Self; 9] = [
        Self::EcdsaP256Sha256,
        Self::EcdsaP384Sha384,
        Self::Ed25519,
        Self::RsaPssSha256,
        Self::RsaPssSha384,
        Self::RsaPssSha512,
        Self::RsaPkcs1Sha256,
        Self::RsaPkcs1Sha384,
        Self::RsaPkcs1Sha512,
    ];

    /// Its number in TLS.
    #[must_use]
    pub fn code(self) -> u16 {
        self as u16
    }
}
