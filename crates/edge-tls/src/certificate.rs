//! A certificate chain as it stands in a file.

use boring::{hash::MessageDigest, x509::X509};

use crate::Error;

/// A certificate and those that lead from it to a root, in that order.
#[derive(Clone)]
pub struct CertificateChain(pub(crate) Vec<X509>);

impl CertificateChain {
    /// Reads PEM.
    ///
    /// # Errors
    /// There is no certificate in it.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let chain =
            X509::stack_from_pem(pem).map_err(|error| Error::Certificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(Error::Certificate("the file contains none".to_owned()));
        }
        Ok(Self(chain))
    }

    /// The SHA-256 of the public key (SubjectPublicKeyInfo), by which a key server knows its key.
    ///
    /// # Errors
    /// The key is of a kind BoringSSL does not know.
    pub fn spki_sha256(&self) -> Result<[u8; 32], Error> {
        let wrong = |error: boring::error::ErrorStack| Error::Certificate(error.to_string());
        let spki = self.0[0].public_key().and_then(|key| key.public_key_to_der()).map_err(wrong)?;
        let digest = boring::hash::hash(MessageDigest::sha256(), &spki).map_err(wrong)?;
        let mut bytes = [0; 32];
        bytes.copy_from_slice(&digest);
        Ok(bytes)
    }
}
