//! Replies: cut from the stream of the origin, read, and written.

use std::borrow::Cow;

use serde_json::Value;

use super::{request::JSON, value::Text};
use crate::{
    Error, Result,
    http1::{self, Limits, Progress, ReplyHead, body, content, head},
};

/// The prefix of the errors of the operations.
const ERRORS: &str = "com.amazonaws.dynamodb.v20120810#";

/// Finds the end of each reply in the stream of an origin.
#[derive(Debug, Default)]
pub struct Scanner(Option<http1::Scanner>);

impl Scanner {
    /// Passes over the next `bytes`, which answer a `HEAD` request or any other.
    ///
    /// # Errors
    /// They are no HTTP/1.1, or longer than a limit.
    pub fn advance(&mut self, bytes: &[u8], to_head: bool, limits: &Limits) -> Result<Progress> {
        let mut consumed = 0;
        loop {
            let rest = bytes.get(consumed..).unwrap_or_default();
            if let Some(body) = &mut self.0 {
                let progress = body.advance(rest)?;
                if progress.complete {
                    self.0 = None;
                }
                return Ok(Progress { consumed: consumed + progress.consumed, ..progress });
            }
            let Some(reply) = head::reply(rest, limits)? else {
                return Ok(Progress { consumed, complete: false });
            };
            if reply.status == 101 {
                return Err(Error::Malformed {
                    protocol: "dynamodb",
                    offset: 0,
                    expected: "a reply in HTTP/1.1",
                    got: "101 Switching Protocols".to_owned(),
                });
            }
            consumed += reply.head.bytes;
            // An interim reply precedes the reply.
            if reply.status >= 200 {
                if to_head {
                    return Ok(Progress { consumed, complete: true });
                }
                self.0 = Some(http1::Scanner::new(reply.framing, limits)?);
            }
        }
    }
}

/// A whole reply.
#[derive(Debug)]
pub struct Reply<'a> {
    /// Status and headers.
    pub head: ReplyHead<'a>,
    /// The body without its framing.
    pub body: Cow<'a, [u8]>,
}

impl<'a> Reply<'a> {
    /// Reads a reply that is complete in `bytes`; `None` if it is not, or if an interim reply
    /// precedes it.
    pub fn parse(bytes: &'a [u8], limits: &Limits) -> Option<Self> {
        let head = head::reply(bytes, limits).ok()??;
        let rest = bytes.get(head.head.bytes..)?;
        let (body, length) = body::whole(head.framing, rest, limits).ok()??;
        (length == rest.len() && head.status >= 200).then_some(Self { head, body })
    }
}

/// Errors by which the origin states that it has done nothing.
const REFUSALS: &[&str] = &[
    "AccessDeniedException",
    "ConditionalCheckFailedException",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "InvalidSignatureException",
    "ItemCollectionSizeLimitExceededException",
    "LimitExceededException",
    "MissingAuthenticationTokenException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ResourceInUseException",
    "ResourceNotFoundException",
    "SerializationException",
    "ThrottlingException",
    "TransactionCanceledException",
    "TransactionConflictException",
    "UnknownOperationException",
    "UnrecognizedClientException",
    "ValidationException",
];

impl Reply<'_> {
    /// Whether it states that the origin has done nothing.
    #[must_use]
    pub fn is_refusal(&self, limits: &Limits) -> bool {
        let states =
            |content: &[u8]| error(content).is_some_and(|Text(of)| REFUSALS.contains(&&*of));
        (400..500).contains(&self.head.status)
            && content(&self.head.head, &self.body, limits).is_some_and(|content| states(&content))
    }

    /// The content of its body, without a coding, and the checksum of that, if it is an answer in
    /// JSON that arrived undamaged and is no error. What it states as its checksum is that of the
    /// body with its coding.
    #[must_use]
    pub fn answer(&self, limits: &Limits) -> Option<(Cow<'_, [u8]>, u32)> {
        let head = &self.head.head;
        if self.head.status != 200 || head.one("content-type") != Some(JSON.as_bytes()) {
            return None;
        }
        let found = checksum(&self.body);
        let stated = head.one("x-amz-crc32");
        if stated.is_some_and(|stated| stated != found.to_string().as_bytes()) {
            return None;
        }
        let content =
            content(head, &self.body, limits).filter(|content| content.starts_with(b"{"))?;
        let checksum = match &content {
            Cow::Borrowed(_) => found,
            Cow::Owned(content) => checksum(content),
        };
        Some((content, checksum))
    }
}

/// The name of the error that the content of a reply states.
#[must_use]
pub fn error(content: &[u8]) -> Option<Text<'_>> {
    #[derive(serde::Deserialize)]
    struct Stated<'a> {
        #[serde(borrow, rename = "__type")]
        kind: Text<'a>,
    }
    let Stated { kind } = serde_json::from_slice(content).ok()?;
    Some(match kind.0 {
        Cow::Borrowed(kind) => Text(Cow::Borrowed(last_part(kind))),
        Cow::Owned(kind) => Text(Cow::Owned(last_part(&kind).to_owned())),
    })
}

/// The name of an error without the prefix of its service.
fn last_part(kind: &str) -> &str {
    kind.rsplit_once('#').map_or(kind, |(_, name)| name)
}

/// An answer whose maps and sets are in one order: the origin returns them in any.
#[must_use]
pub fn comparable(body: &[u8]) -> Cow<'_, [u8]> {
    fn sort(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.sort_keys();
                for (name, member) in members {
                    sort(member);
                    if let (true, Value::Array(set)) = (SETS.contains(&&**name), member) {
                        set.sort_by_cached_key(Value::to_string);
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(sort),
            _ => {}
        }
    }
    const SETS: [&str; 3] = ["SS", "NS", "BS"];
    let Ok(mut value) = serde_json::from_slice(body) else { return Cow::Borrowed(body) };
    sort(&mut value);
    Cow::Owned(value.to_string().into_bytes())
}

/// Errors that the cache writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The origin cannot be reached; SDKs retry.
    Unavailable,
    /// The request is malformed, or too long.
    Malformed,
    /// The client is closed to free memory; SDKs retry.
    Overloaded,
}

/// Writes an error in DynamoDB's form. The connection closes after it unless the origin is
/// unavailable.
pub fn write_error(failure: Failure, why: &str, id: RequestId, out: &mut Vec<u8>) {
    let (status, kind) = match failure {
        Failure::Unavailable => ("503 Service Unavailable", "ServiceUnavailable"),
        Failure::Malformed => ("400 Bad Request", "SerializationException"),
        Failure::Overloaded => ("503 Service Unavailable", "ServiceUnavailable"),
    };
    let message = Value::from(format!("enroute: {why}"));
    let body = format!("{{\"__type\":\"{ERRORS}{kind}\",\"message\":{message}}}");
    let closes = failure != Failure::Unavailable;
    write(status, checksum(body.as_bytes()), body.as_bytes(), id, closes, out);
}

/// CRC-32 of a body, as in `x-amz-crc32`.
pub fn checksum(body: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(body);
    crc.sum()
}

/// Identifies a reply, as `x-amzn-RequestId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestId(pub u128);

impl RequestId {
    fn hexadecimal(self) -> [u8; 32] {
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0.to_be_bytes()) {
            for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
                *digit = nibble + if nibble < 10 { b'0' } else { b'A' - 10 };
            }
        }
        digits
    }
}

/// Writes a reply whose body has this `checksum`.
pub fn write(
    status: &str,
    checksum: u32,
    body: &[u8],
    id: RequestId,
    closes: bool,
    out: &mut Vec<u8>,
) {
    const HEAD_BYTES: usize = 256;
    let connection: &[u8] = if closes { b"close" } else { b"keep-alive" };
    let (mut length, mut sum) = (itoa::Buffer::new(), itoa::Buffer::new());
    out.reserve(HEAD_BYTES + body.len());
    for part in [
        b"HTTP/1.1 ",
        status.as_bytes(),
        b"\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: ",
        length.format(body.len()).as_bytes(),
        b"\r\nx-amzn-RequestId: ",
        &id.hexadecimal(),
        b"\r\nx-amz-crc32: ",
        sum.format(checksum).as_bytes(),
        b"\r\nConnection: ",
        connection,
        b"\r\n\r\n",
        body,
    ] {
        out.extend_from_slice(part);
    }
}
