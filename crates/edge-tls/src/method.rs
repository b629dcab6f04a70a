//! The bridge between BoringSSL's private key calls and a [`PrivateKeySource`].

use std::sync::Arc;

use boring::{
    rand::rand_bytes,
    ssl::{NameType, SslRef, SslSignatureAlgorithm, SslVersion},
};
use tokio_boring::{
    AsyncPrivateKeyMethod, AsyncPrivateKeyMethodError, BoxPrivateKeyMethodFinish,
    BoxPrivateKeyMethodFuture,
};

use crate::{
    KeyFailure, Premaster, PrivateKeySource, SignatureAlgorithm, Signed, alert::send_internal_error,
};

/// A key that is asked over its source.
pub(crate) struct RemoteKey(pub(crate) Arc<dyn PrivateKeySource>);

/// Why a key was not used, stored at the connection for the report of the failed handshake.
pub(crate) struct Refusal(pub(crate) String);

impl AsyncPrivateKeyMethod for RemoteKey {
    fn sign(
        &self,
        ssl: &mut SslRef,
        input: &[u8],
        algorithm: SslSignatureAlgorithm,
        _: &mut [u8],
    ) -> Result<BoxPrivateKeyMethodFuture, AsyncPrivateKeyMethodError> {
        let tls_1_3 = ssl.version2() == Some(SslVersion::TLS1_3);
        let asked = match (algorithm_of(algorithm), Signed::parse(input, tls_1_3)) {
            (Some(algorithm), Ok(signed)) => self.0.sign(name_in(ssl), algorithm, signed),
            (None, _) => failed(format!("the client chose {algorithm:?}, which was not offered")),
            (_, Err(error)) => failed(error.to_string()),
        };
        Ok(Box::pin(async move { Ok(finish(asked.await)) }))
    }

    fn decrypt(
        &self,
        ssl: &mut SslRef,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<BoxPrivateKeyMethodFuture, AsyncPrivateKeyMethodError> {
        let asked = self.0.decrypt(name_in(ssl), input.to_vec());
        let block_bytes = output.len().min(input.len());
        Ok(Box::pin(async move {
            let block = asked.await.and_then(|premaster| padded(&premaster, block_bytes));
            Ok(finish(block))
        }))
    }
}

/// Returns the server name that the client requests.
fn name_in(ssl: &SslRef) -> Option<&str> {
    ssl.servername(NameType::HOST_NAME)
}

fn failed<T: 'static + Send>(reason: String) -> crate::KeyFuture<T> {
    Box::pin(async { Err(KeyFailure(reason)) })
}

fn finish(answer: Result<Vec<u8>, KeyFailure>) -> BoxPrivateKeyMethodFinish {
    Box::new(move |ssl, output| {
        let written = answer.and_then(|answer| {
            let room = output.len();
            let place = output.get_mut(..answer.len()).ok_or_else(|| {
                KeyFailure(format!(
                    "expected a reply of at most {room} bytes, got {}",
                    answer.len()
                ))
            })?;
            place.copy_from_slice(&answer);
            Ok(answer.len())
        });
        written.map_err(|KeyFailure(reason)| {
            send_internal_error(ssl);
            ssl.replace_ex_data(*crate::acceptor::REFUSAL, Refusal(reason));
            AsyncPrivateKeyMethodError
        })
    })
}

/// The block BoringSSL expects, PKCS#1 around the premaster secret: it does the unpadding itself,
/// because a key server never reveals whether the padding was valid.
fn padded(premaster: &Premaster, block_bytes: usize) -> Result<Vec<u8>, KeyFailure> {
    let Some(padding_bytes) = block_bytes.checked_sub(premaster.len() + 3).filter(|&n| n >= 8)
    else {
        return Err(KeyFailure(format!("an RSA key of {block_bytes} bytes is too short")));
    };
    let mut block = vec![0; block_bytes];
    block[1] = 2;
    let padding = &mut block[2..2 + padding_bytes];
    rand_bytes(padding).map_err(|error| KeyFailure(error.to_string()))?;
    for byte in padding.iter_mut().filter(|byte| **byte == 0) {
        *byte = 1;
    }
    block[3 + padding_bytes..].copy_from_slice(premaster);
    Ok(block)
}

fn algorithm_of(algorithm: SslSignatureAlgorithm) -> Option<SignatureAlgorithm> {
    SignatureAlgorithm::ALL.into_iter().find(|known| bound(*known) == algorithm)
}

/// The same algorithm as BoringSSL's binding names it.
fn bound(algorithm: SignatureAlgorithm) -> SslSignatureAlgorithm {
    match algorithm {
        SignatureAlgorithm::RsaPkcs1Sha256 => SslSignatureAlgorithm::RSA_PKCS1_SHA256,
        SignatureAlgorithm::RsaPkcs1Sha384 => SslSignatureAlgorithm::RSA_PKCS1_SHA384,
        SignatureAlgorithm::RsaPkcs1Sha512 => SslSignatureAlgorithm::RSA_PKCS1_SHA512,
        SignatureAlgorithm::EcdsaP256Sha256 => SslSignatureAlgorithm::ECDSA_SECP256R1_SHA256,
        SignatureAlgorithm::EcdsaP384Sha384 => SslSignatureAlgorithm::ECDSA_SECP384R1_SHA384,
        SignatureAlgorithm::RsaPssSha256 => SslSignatureAlgorithm::RSA_PSS_RSAE_SHA256,
        SignatureAlgorithm::RsaPssSha384 => SslSignatureAlgorithm::RSA_PSS_RSAE_SHA384,
        SignatureAlgorithm::RsaPssSha512 => SslSignatureAlgorithm::RSA_PSS_RSAE_SHA512,
        SignatureAlgorithm::Ed25519 => SslSignatureAlgorithm::ED25519,
    }
}
