//! Replies of the key server: an output or one of SKI's four errors.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;

use super::{PROTOCOL, RESPONSE_BYTES_MAX};
use crate::{Error, Result};

/// Why there is no output. SKI has only these four errors; the reason is in the log and audit log
/// of the key server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The request violates the protocol, or the key does not support the operation.
    #[error("malformed request")]
    Malformed,
    /// Denied by the policy or a rate limit, or the audit log could not be written.
    #[error("request denied")]
    Denied,
    /// The policy allows it, but the key does not exist.
    #[error("spki not found")]
    NotFound,
    /// The key server failed; a retry may succeed.
    #[error("unspecified error")]
    Unspecified,
}

impl Refusal {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Malformed, "malformed request"),
        (Self::Denied, "request denied"),
        (Self::NotFound, "spki not found"),
        (Self::Unspecified, "unspecified error"),
    ];

    /// Its name in an answer.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(refusal, _)| *refusal == self).map_or("", |(_, word)| word)
    }

    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(refusal, _)| *refusal)
    }
}

/// A reply: a signature, a premaster secret, or a refusal.
pub type Response = std::result::Result<Vec<u8>, Refusal>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(borrow)]
    output: Option<&'a str>,
    #[serde(borrow)]
    error: Option<&'a str>,
}

/// The body of an answer.
pub fn encode(response: std::result::Result<&[u8], Refusal>) -> Vec<u8> {
    let (name, value) = match response {
        Ok(output) => ("output", STANDARD.encode(output)),
        Err(refusal) => ("error", refusal.word().to_owned()),
    };
    format!("{{\"{name}\":\"{value}\"}}").into_bytes()
}

/// Reads the body of an answer.
pub fn decode(body: &[u8]) -> Result<Response> {
    let wrong = |expected, got| Error::Malformed { protocol: PROTOCOL, offset: 0, expected, got };
    if body.len() > RESPONSE_BYTES_MAX {
        return Err(Error::TooLarge {
            protocol: PROTOCOL,
            offset: 0,
            what: "reply bytes",
            limit: RESPONSE_BYTES_MAX as u64,
            got: body.len() as u64,
        });
    }
    let fields: Fields<'_> = serde_json::from_slice(body)
        .map_err(|error| wrong("a JSON object with output or error", error.to_string()))?;
    match fields {
        Fields { output: Some(output), error: None } => STANDARD
            .decode(output)
            .map(Ok)
            .map_err(|error| wrong("output in base64", error.to_string())),
        Fields { output: None, error: Some(word) } => Refusal::of_word(word)
            .map(Err)
            .ok_or_else(|| wrong("one of SKI's four errors", word.chars().take(40).collect())),
        _ => Err(wrong("either output or error", "both or neither".to_owned())),
    }
}
