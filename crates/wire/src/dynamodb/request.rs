//! Requests, cut from the stream of a client.

use std::borrow::Cow;

use crate::{
    Error, Result,
    detect::{Protocol, foreign},
    http1::{Limits, RequestHead, Scanner, body, head},
    resp::request::Passed,
};

/// The first bytes of a client of HTTP/2.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What the name of an operation begins with.
const TARGET: &[u8] = b"DynamoDB_20120810.";
/// The type of bodies.
pub const JSON: &str = "application/x-amz-json-1.0";

/// A request.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    /// Method, path and headers.
    pub request: RequestHead<'a>,
    /// The body without its framing; empty for [`begin`].
    pub body: Cow<'a, [u8]>,
}

impl<'a> Message<'a> {
    /// Whether it has the form in which SDKs send requests: `POST /` with a body in JSON that is
    /// not compressed.
    pub fn is_usual(&self) -> bool {
        let RequestHead { method, target, head, .. } = &self.request;
        (*method, *target) == ("POST", "/")
            && head.one("content-type") == Some(JSON.as_bytes())
            && head.all("content-encoding").next().is_none()
    }

    /// The operation that its header names, `GetItem` for example; "" if it names none of DynamoDB.
    pub fn operation(&self) -> &'a str {
        let target = self.request.head.one("x-amz-target");
        let name = target.and_then(|target| target.strip_prefix(TARGET));
        name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

/// The rest of a request that is too long to be held.
#[derive(Debug)]
pub struct Passing(Scanner);

impl Passing {
    /// Returns how many of the next `bytes` belong to the request.
    ///
    /// # Errors
    /// As [`decode`].
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Passed> {
        let progress = self.0.advance(bytes)?;
        Ok(Passed { bytes: progress.consumed, ends: progress.complete })
    }
}

/// Cuts the next request and returns its length; `None` if more bytes are needed.
///
/// # Errors
/// The bytes are no HTTP/1.1, or longer than a limit.
pub fn decode<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<(Message<'a>, usize)>> {
    let Some(request) = begin_head(bytes, limits)? else { return Ok(None) };
    let rest = bytes.get(request.head.bytes..).unwrap_or_default();
    let Some((body, length)) = body::whole(request.framing, rest, limits)? else { return Ok(None) };
    let length = request.head.bytes + length;
    Ok(Some((Message { request, body }, length)))
}

/// Reads the head of a request whose body passes as it arrives: the length of the head, and what
/// finds the end of the body. `None` if more bytes are needed.
///
/// # Errors
/// As [`decode`].
pub fn begin<'a>(
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Option<(Message<'a>, usize, Passing)>> {
    let Some(request) = begin_head(bytes, limits)? else { return Ok(None) };
    let (length, scanner) = (request.head.bytes, Scanner::new(request.framing, limits)?);
    let message = Message { request, body: Cow::Borrowed(&[]) };
    Ok(Some((message, length, Passing(scanner))))
}

fn begin_head<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Option<RequestHead<'a>>> {
    let beginning = bytes.get(..PREFACE.len()).unwrap_or(bytes);
    if PREFACE.starts_with(beginning) {
        return match beginning.len() == PREFACE.len() {
            true => Err(foreign(Protocol::Http, Protocol::Http2, bytes)),
            false => Ok(None),
        };
    }
    let Some(request) = head::request(bytes, limits)? else { return Ok(None) };
    if request.method == "CONNECT" || !request.head.all("upgrade").all(<[u8]>::is_empty) {
        return Err(Error::Malformed {
            protocol: "dynamodb",
            offset: 0,
            expected: "HTTP/1.1 without CONNECT and Upgrade",
            got: request.method.to_owned(),
        });
    }
    Ok(Some(request))
}
