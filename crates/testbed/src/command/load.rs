//! `enroute keyserver load`: requests to a key server.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::Args;
use wire::ski::{KeyId, Operation, Request, Scheme, TranscriptHash};

use crate::{
    keyserver::load::{self, Load},
    services::{KeyClient, KeyServer},
};

#[derive(Debug, Args)]
#[allow(missing_docs, reason = "it would be shown as help")]
pub struct Arguments {
    /// Address of the key server, HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    server: String,

    /// Name in the key server's certificate [default: the host of --server]
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,

    /// Authorities that may have signed the key server's certificate, PEM
    #[arg(long, value_name = "FILE")]
    authorities: PathBuf,

    /// Certificate of the edge, PEM
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,

    /// Private key of --certificate, PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Id of the key to sign with, as `enroute keyserver list` shows it
    #[arg(long, value_name = "ID", value_parser = key_id)]
    spki: KeyId,

    /// TLS 1.3 signature scheme
    #[arg(long, default_value = "ecdsa_secp256r1_sha256", value_name = "SCHEME", value_parser = scheme)]
    scheme: Scheme,

    /// Number of connections of each thread
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    connections: usize,

    /// Number of sending threads
    #[arg(long, default_value_t = NonZeroUsize::MIN, value_name = "COUNT")]
    threads: NonZeroUsize,

    /// Requests per second; each thread then keeps one core busy [default: maximum throughput]
    #[arg(long, value_name = "COUNT")]
    rate: Option<f64>,

    /// Maximum number of outstanding requests
    #[arg(long, default_value_t = 64, value_name = "COUNT")]
    outstanding: usize,

    /// Duration in seconds
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    seconds: f64,
}

fn key_id(text: &str) -> Result<KeyId, String> {
    KeyId::decode(text).ok_or_else(|| "expected 64 hexadecimal digits".into())
}

fn scheme(text: &str) -> Result<Scheme, String> {
    Scheme::named(text)
        .filter(|scheme| scheme.is_of_tls13())
        .ok_or_else(|| "expected a name of RFC 8446, for example rsa_pss_rsae_sha256".into())
}

impl Arguments {
    /// Sends the load, and prints the report as JSON.
    ///
    /// # Errors
    /// As for [`load::run`].
    #[allow(clippy::print_stdout, reason = "the report is what was asked for")]
    pub fn run<C: KeyClient>(&self) -> anyhow::Result<()> {
        let report = load::run::<C>(&Load {
            server: KeyServer {
                address: self.server.clone(),
                name: self.server_name.clone(),
                authorities: self.authorities.clone(),
                certificate: self.certificate.clone(),
                key: self.key.clone(),
                connections: self.connections,
                patience: Duration::from_secs(10),
            },
            request: Request {
                key: self.spki,
                server_name: None,
                operation: Operation::CertificateVerify {
                    transcript_hash: TranscriptHash::Sha256([7; 32]),
                    scheme: self.scheme,
                },
            },
            threads: self.threads.get(),
            rate: self.rate,
            outstanding: self.outstanding,
            time: Duration::try_from_secs_f64(self.seconds).context("--seconds")?,
        })?;
        println!("{}", serde_json::to_string(&report)?);
        Ok(())
    }
}
