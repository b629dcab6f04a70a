//! The key server as the source of private keys.

use std::{sync::Arc, time::Instant};

use edge_tls::{KeyFailure, KeyFuture, Premaster, PrivateKeySource, SignatureAlgorithm, Signed};
use keyservice::Client;
use wire::ski::{KeyId, Operation, Params, Request, Scheme, TranscriptHash, request::Signature};

use super::stats::{SharedLatencies, time};

/// One private key, kept at a key server.
pub struct KeyServer {
    client: Client,
    key: KeyId,
    latency: Arc<SharedLatencies>,
}

impl KeyServer {
    /// Creates the key whose public key has this SHA-256.
    pub fn new(client: Client, spki_sha256: [u8; 32], latency: Arc<SharedLatencies>) -> Self {
        Self { client, key: KeyId(spki_sha256), latency }
    }

    /// Asks for the name that the TLS client requested: a key for `*.example` serves each of its
    /// names.
    fn ask(&self, server_name: Option<&str>, operation: Operation) -> KeyFuture<Vec<u8>> {
        let server_name = server_name.map(str::to_owned);
        let request = Request { key: self.key, server_name, operation };
        let (client, latency) = (self.client.clone(), Arc::clone(&self.latency));
        Box::pin(async move {
            let began = Instant::now();
            let answer = client.ask(&request).await;
            time(&latency, began);
            answer.map_err(|error| KeyFailure(error.to_string()))
        })
    }
}

impl PrivateKeySource for KeyServer {
    fn sign(
        &self,
        server_name: Option<&str>,
        algorithm: SignatureAlgorithm,
        signed: Signed,
    ) -> KeyFuture<Vec<u8>> {
        match operation(algorithm, signed) {
            Ok(operation) => self.ask(server_name, operation),
            Err(reason) => Box::pin(async { Err(KeyFailure(reason)) }),
        }
    }

    fn decrypt(&self, server_name: Option<&str>, encrypted: Vec<u8>) -> KeyFuture<Premaster> {
        let asked = self.ask(server_name, Operation::Premaster { encrypted });
        Box::pin(async move {
            let secret = asked.await?;
            let length = secret.len();
            secret.try_into().map_err(|_| {
                KeyFailure(format!("expected a premaster secret of 48 bytes, got {length}"))
            })
        })
    }
}

/// Converts the operation to a request to the key server.
fn operation(algorithm: SignatureAlgorithm, signed: Signed) -> Result<Operation, String> {
    let scheme = Scheme::numbered(algorithm.code())
        .ok_or_else(|| format!("key servers do not support {algorithm:?}"))?;
    Ok(match signed {
        Signed::ServerKeyExchange { client_random, server_random, parameters } => {
            Operation::ServerKeyExchange {
                client_random,
                server_random,
                params: Params::decode(&parameters, 0).map_err(|error| error.to_string())?,
                signature: Signature::Scheme(scheme),
            }
        }
        Signed::CertificateVerify { transcript_hash } => Operation::CertificateVerify {
            transcript_hash: TranscriptHash::new(&transcript_hash)
                .ok_or("expected a transcript hash of 32 or 48 bytes")?,
            scheme,
        },
    })
}
