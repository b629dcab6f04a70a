//! Requests of an edge: three operations, each with the parts of a handshake.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;

use super::{Hash, PROTOCOL, Params, RANDOM_BYTES, REQUEST_BYTES_MAX, Scheme};
use crate::{Error, Result};

/// Longest DNS name (RFC 1035 §2.3.4).
const SERVER_NAME_BYTES_MAX: usize = 253;
/// Length of ciphertexts of RSA-2048 to RSA-4096.
const ENCRYPTED_BYTES: std::ops::RangeInclusive<usize> = 256..=512;

/// Identifies a key: the SHA-256 of its SubjectPublicKeyInfo in DER, in lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 32]);

impl KeyId {
    /// Reads 64 hexadecimal digits.
    pub fn decode(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut id = [0; 32];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            for digit in pair {
                let value = char::from(*digit).to_digit(16)?;
                *byte = *byte << 4 | value as u8;
            }
        }
        Some(Self(id))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Written to the audit log for every reply, so it avoids 32 calls of the formatter.
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        let mut text = [0; 64];
        for (character, digit) in text.iter_mut().zip(digits) {
            *character = if digit < 10 { b'0' + digit } else { b'a' - 10 + digit };
        }
        formatter.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The key.
    pub key: KeyId,
    /// The name that the TLS client requested, if the edge sends it.
    pub server_name: Option<String>,
    /// The operation to perform with the key.
    pub operation: Operation,
}

/// The operation on a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// TLS 1.2, method `ECDHE`: sign a ServerKeyExchange (RFC 8422 §5.4).
    ServerKeyExchange {
        /// The client's random.
        client_random: [u8; RANDOM_BYTES],
        /// The server's random.
        server_random: [u8; RANDOM_BYTES],
        /// The server's half of the exchange.
        params: Params,
        /// The signature algorithm.
        signature: Signature,
    },
    /// TLS 1.3, method `CertificateVerify`: sign the server's CertificateVerify (RFC 8446 §4.4.3).
    CertificateVerify {
        /// Hash of the handshake so far, with the hash of the cipher suite.
        transcript_hash: TranscriptHash,
        /// The signature scheme.
        scheme: Scheme,
    },
    /// TLS 1.2, method `RSA`: decrypt a premaster secret (RFC 5246 §7.4.7.1).
    Premaster {
        /// As long as the key's modulus, 256 to 512 bytes.
        encrypted: Vec<u8>,
    },
}

/// SKI's name of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// `ECDHE`, [`Operation::ServerKeyExchange`]
    Ecdhe,
    /// `CertificateVerify`, [`Operation::CertificateVerify`]
    CertificateVerify,
    /// `RSA`, [`Operation::Premaster`]
    Rsa,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 3] = [Self::Ecdhe, Self::CertificateVerify, Self::Rsa];

    /// Its name in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ecdhe => "ECDHE",
            Self::CertificateVerify => "CertificateVerify",
            Self::Rsa => "RSA",
        }
    }

    /// The method of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

impl Operation {
    /// Returns SKI's name of the operation.
    pub fn method(&self) -> Method {
        match self {
            Self::ServerKeyExchange { .. } => Method::Ecdhe,
            Self::CertificateVerify { .. } => Method::CertificateVerify,
            Self::Premaster { .. } => Method::Rsa,
        }
    }
}

/// The signature algorithm of a ServerKeyExchange: a TLS scheme, or, as in the draft, only a hash;
/// the rest follows from the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    /// Field `scheme`.
    Scheme(Scheme),
    /// Field `hash`.
    Hash(Hash),
}

/// A transcript hash: 32 bytes with SHA-256 cipher suites, 48 with SHA-384.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptHash {
    /// By SHA-256.
    Sha256([u8; 32]),
    /// By SHA-384.
    Sha384([u8; 48]),
}

impl TranscriptHash {
    /// A hash of 32 or 48 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        match bytes.len() {
            32 => bytes.try_into().ok().map(Self::Sha256),
            48 => bytes.try_into().ok().map(Self::Sha384),
            _ => None,
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Sha256(bytes) => bytes,
            Self::Sha384(bytes) => bytes,
        }
    }
}

/// The JSON object, before its values are parsed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    protocol: &'a str,
    method: &'a str,
    spki: &'a str,
    input: &'a str,
    hash: Option<&'a str>,
    scheme: Option<&'a str>,
    server_name: Option<&'a str>,
}

/// Reads the body of a request.
pub fn decode(body: &[u8]) -> Result<Request> {
    if body.len() > REQUEST_BYTES_MAX {
        return Err(Error::TooLarge {
            protocol: PROTOCOL,
            offset: 0,
            what: "request bytes",
            limit: REQUEST_BYTES_MAX as u64,
            got: body.len() as u64,
        });
    }
    let fields: Fields<'_> = serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        wrong("the fields protocol, method, spki, input", &format!("line {line} column {column}"))
    })?;
    let key = KeyId::decode(fields.spki)
        .ok_or_else(|| wrong("spki: 64 hexadecimal digits", fields.spki))?;
    let server_name = fields.server_name.map(read_server_name).transpose()?;
    let input =
        STANDARD.decode(fields.input).map_err(|_| wrong("input in base64", "something else"))?;
    let operation = match (fields.protocol, Method::named(fields.method)) {
        ("TLS 1.2", Some(Method::Ecdhe)) => read_exchange(&fields, &input)?,
        ("TLS 1.3", Some(Method::CertificateVerify)) => read_verify(&fields, &input)?,
        ("TLS 1.2", Some(Method::Rsa)) => read_premaster(&fields, input)?,
        (protocol, _) => {
            return Err(wrong(
                "TLS 1.2 with ECDHE or RSA, or TLS 1.3 with CertificateVerify",
                &format!("{protocol} with {}", fields.method),
            ));
        }
    };
    Ok(Request { key, server_name, operation })
}

fn read_server_name(name: &str) -> Result<String> {
    let is_of_dns = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if name.is_empty() || name.len() > SERVER_NAME_BYTES_MAX || !name.bytes().all(is_of_dns) {
        return Err(wrong("server_name: a DNS name", name));
    }
    Ok(name.to_ascii_lowercase())
}

fn read_exchange(fields: &Fields<'_>, input: &[u8]) -> Result<Operation> {
    let short = || wrong("input: client random, server random, params", &count(input));
    let (client_random, rest) = input.split_first_chunk().ok_or_else(short)?;
    let (server_random, params) = rest.split_first_chunk().ok_or_else(short)?;
    let signature = match (fields.scheme, fields.hash) {
        (Some(name), None) => Signature::Scheme(read_scheme(name)?),
        (None, Some(name)) => Hash::named(name)
            .map(Signature::Hash)
            .ok_or_else(|| wrong("hash: SHA-256, SHA-384 or SHA-512", name))?,
        _ => return Err(wrong("either hash or scheme", "both or neither")),
    };
    Ok(Operation::ServerKeyExchange {
        client_random: *client_random,
        server_random: *server_random,
        params: Params::decode(params, 2 * RANDOM_BYTES)?,
        signature,
    })
}

fn read_verify(fields: &Fields<'_>, input: &[u8]) -> Result<Operation> {
    let (Some(name), None) = (fields.scheme, fields.hash) else {
        return Err(wrong("scheme, and no hash", "something else"));
    };
    let scheme = read_scheme(name)?;
    if !scheme.is_of_tls13() {
        return Err(wrong("a scheme of TLS 1.3", name));
    }
    let transcript_hash = TranscriptHash::new(input)
        .ok_or_else(|| wrong("input: a transcript hash of 32 or 48 bytes", &count(input)))?;
    Ok(Operation::CertificateVerify { transcript_hash, scheme })
}

fn read_premaster(fields: &Fields<'_>, input: Vec<u8>) -> Result<Operation> {
    if fields.scheme.is_some() || fields.hash.is_some() {
        return Err(wrong("neither hash nor scheme", "one of them"));
    }
    if !ENCRYPTED_BYTES.contains(&input.len()) {
        return Err(wrong("input: 256 to 512 bytes", &count(&input)));
    }
    Ok(Operation::Premaster { encrypted: input })
}

fn read_scheme(name: &str) -> Result<Scheme> {
    Scheme::named(name).ok_or_else(|| wrong("scheme: a name of RFC 8446 §4.2.3", name))
}

fn count(input: &[u8]) -> String {
    format!("{} bytes", input.len())
}

fn wrong(expected: &'static str, got: &str) -> Error {
    let got = got.chars().take(80).collect();
    Error::Malformed { protocol: PROTOCOL, offset: 0, expected, got }
}

/// The body of a request.
pub fn encode(request: &Request) -> Vec<u8> {
    let method = request.operation.method().name();
    let (protocol, input) = match &request.operation {
        Operation::ServerKeyExchange { client_random, server_random, params, .. } => {
            let input = [client_random, server_random, params.bytes()].concat();
            ("TLS 1.2", STANDARD.encode(input))
        }
        Operation::CertificateVerify { transcript_hash, .. } => {
            ("TLS 1.3", STANDARD.encode(transcript_hash.bytes()))
        }
        Operation::Premaster { encrypted } => ("TLS 1.2", STANDARD.encode(encrypted)),
    };
    let signature = match &request.operation {
        Operation::ServerKeyExchange { signature: Signature::Hash(hash), .. } => {
            let name = Hash::ALL.iter().find(|(known, _)| known == hash).map_or("", |row| row.1);
            format!(",\"hash\":\"{name}\"")
        }
        Operation::ServerKeyExchange { signature: Signature::Scheme(scheme), .. }
        | Operation::CertificateVerify { scheme, .. } => {
            format!(",\"scheme\":\"{}\"", scheme.name())
        }
        Operation::Premaster { .. } => String::new(),
    };
    // A name that is no DNS name could contain quotes; it is not sent.
    let server_name = match request.server_name.as_deref().map(read_server_name) {
        Some(Ok(name)) => format!(",\"server_name\":\"{name}\""),
        _ => String::new(),
    };
    format!(
        "{{\"protocol\":\"{protocol}\",\"method\":\"{method}\",\"spki\":\"{}\"{signature}\
         {server_name},\"input\":\"{input}\"}}",
        request.key
    )
    .into_bytes()
}
