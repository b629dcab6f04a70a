//! Detects the protocol of the first bytes of a connection that is not the expected one.
//!
//! A client or origin of another protocol is a configuration mistake, or an attack through a web
//! browser. If it is recognized by its first bytes, the log can name it and the reply can use its
//! protocol; otherwise it would wait for a reply until its timeout.

use crate::{
    Error, Result,
    mongo::{frame::opcode, response},
    resp::{self, Limits, command, request},
};

/// A protocol that can be recognized by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Redis and Valkey.
    Resp,
    /// MongoDB.
    Mongo,
    /// memcached's text protocol. Its requests have no recognizable beginning: only servers are
    /// reported as found.
    Memcache,
    /// memcached's binary protocol.
    MemcacheBinary,
    /// HTTP/1 and HTTP/2.
    Http,
    /// HTTP/2 without negotiation, where only HTTP/1.1 is served: [`crate::dynamodb`] reports it.
    Http2,
    /// TLS: a ClientHello, or the alert of a server that expects one.
    Tls,
}

impl Protocol {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resp => "Redis (RESP)",
            Self::Mongo => "MongoDB",
            Self::Memcache => "memcached",
            Self::MemcacheBinary => "memcached's binary protocol",
            Self::Http => "HTTP",
            Self::Http2 => "HTTP/2 with prior knowledge",
            Self::Tls => "TLS",
        }
    }

    fn is_text(self) -> bool {
        !matches!(self, Self::Mongo | Self::Tls | Self::MemcacheBinary | Self::Http2)
    }

    /// Advice for the operator if this is found where `expected` was configured.
    pub fn advice(self, expected: Self) -> &'static str {
        match (self, expected) {
            (_, Self::Tls) => {
                "this port speaks TLS only: connect with TLS (https://, rediss://), or correct the port"
            }
            (Self::Tls, _) => {
                "this port does not support TLS as configured: disable TLS at the other end, or \
                 enable it here (`tls` of a listener, rediss://, mongodb://HOST/?tls=true)"
            }
            (Self::MemcacheBinary, Self::Memcache) => {
                "set the client to the text protocol or the meta commands: memcached has deprecated the binary protocol"
            }
            (Self::Http2, _) => "set the client to HTTP/1.1, the default of the AWS SDKs",
            (Self::Http, _) => {
                "Possible SECURITY ATTACK detected: a web page or scanner sends HTTP requests; restrict access to \
                 this port, and require a password so that such requests have no effect"
            }
            _ => {
                "connect to a port of the right protocol, or correct the scheme in the configuration"
            }
        }
    }
}

/// Result of inspecting the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The bytes are consistent with the expected protocol.
    Expected,
    /// Too few bytes to tell.
    More,
    /// Another protocol.
    Found(Protocol),
}

/// Number of bytes after which the result is never [`Look::More`].
pub const LOOK_BYTES: usize = 16;

/// Like [`client`], for a listener: true if the bytes are consistent with `expected`, false if more
/// bytes are needed. Redis listeners call it in their [`Decoder`](request::Decoder), for each line.
///
/// # Errors
/// [`Error::Foreign`]; [`refuse`] writes the reply to the client.
pub fn expect(expected: Protocol, bytes: &[u8]) -> Result<bool> {
    match client(expected, bytes) {
        Look::Expected => Ok(true),
        Look::More => Ok(false),
        Look::Found(found) => Err(foreign(expected, found, bytes)),
    }
}

/// The corresponding error.
#[cold]
pub fn foreign(expected: Protocol, found: Protocol, bytes: &[u8]) -> Error {
    let mut first = [0; LOOK_BYTES];
    first.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    Error::Foreign { expected, found, first }
}

/// Checks the first bytes of a client against the protocol `expected`. After [`Look::More`], call
/// again with more bytes.
#[cold]
pub fn client(expected: Protocol, bytes: &[u8]) -> Look {
    // No other protocol has a request that begins with the type of a handshake record.
    if expected == Protocol::Tls && bytes.first() == Some(&HANDSHAKE) {
        return Look::Expected;
    }
    const KNOWN: [Protocol; 5] =
        [Protocol::Tls, Protocol::Mongo, Protocol::MemcacheBinary, Protocol::Http, Protocol::Resp];
    let found = KNOWN
        .into_iter()
        .find(|&protocol| protocol != expected && begins(protocol, expected, bytes));
    match found {
        Some(found) => Look::Found(found),
        None if bytes.len() >= LOOK_BYTES => Look::Expected,
        // A complete line, for line-based protocols.
        None if expected.is_text() && bytes.contains(&b'\n') && !may_be_binary(bytes) => {
            Look::Expected
        }
        None => Look::More,
    }
}

/// Returns whether `bytes` begin with a request of `protocol` that is no request of `expected`.
fn begins(protocol: Protocol, expected: Protocol, bytes: &[u8]) -> bool {
    match protocol {
        Protocol::Tls => is_client_hello(bytes),
        Protocol::Mongo => is_mongo_header(bytes),
        // Commands of text protocols may look like a request line: `GET /key`.
        Protocol::Http => is_http_line(bytes, matches!(expected, Protocol::Mongo | Protocol::Tls)),
        Protocol::Resp if expected == Protocol::Memcache => is_array(bytes),
        Protocol::Resp => is_array(bytes) || (is_typed(bytes) && !is_http_line(bytes, true)),
        // Without the text protocol it would be that of none of the others.
        Protocol::MemcacheBinary => {
            expected == Protocol::Memcache
                && bytes.len() >= LOOK_BYTES
                && bytes.first() == Some(&BINARY_REQUEST)
        }
        Protocol::Memcache | Protocol::Http2 => false,
    }
}

/// Protocol of the first bytes of a server where `expected` was configured; `None` if it may be
/// `expected` or is unknown.
pub fn server(expected: Protocol, bytes: &[u8]) -> Option<Protocol> {
    let found = match bytes {
        // An alert (21) or a handshake record (22), version 3.x.
        [0x15 | 0x16, 3, 0..=4, ..] => Protocol::Tls,
        [b'H', b'T', b'T', b'P', b'/', ..] => Protocol::Http,
        [b'E', b'R', b'R', b'O', b'R', b'\r', ..] => Protocol::Memcache,
        [b'V', b'E', b'R', b'S', b'I', b'O', b'N', b' ', ..] => Protocol::Memcache,
        [b'+' | b'-' | b':' | b'$' | b'*' | b'%' | b'_', ..] if is_text(bytes) => Protocol::Resp,
        _ if is_mongo_reply(bytes) => Protocol::Mongo,
        _ => return None,
    };
    (found != expected).then_some(found)
}

/// A ClientHello that any server of TLS answers with a handshake record or an alert.
#[must_use]
pub fn client_hello() -> Vec<u8> {
    // TLS 1.2, no session, two cipher suites, no compression, no extensions. The random bytes are
    // zeros: no key comes of it.
    const SUITES: [u8; 8] = [0, 4, 0xc0, 0x2f, 0xc0, 0x2b, 1, 0];
    let body = [&[3, 3][..], &[0; 32], &[0], &SUITES].concat();
    let length = body.len() as u8;
    let message = [&[1, 0, 0, length][..], &body].concat();
    [&[HANDSHAKE, 3, 1, 0, length + 4][..], &message].concat()
}

/// Writes an error that a client of `found` understands, with `reason` if the protocol has a field
/// for text. `first` holds its first bytes: a MongoDB reply contains the id of its request.
pub fn refuse(found: Protocol, first: &[u8], reason: &str, out: &mut Vec<u8>) {
    match found {
        Protocol::Resp => resp::response::write_error(out, format!("ERR {reason}").as_bytes()),
        Protocol::Mongo => {
            const PROTOCOL_ERROR: i32 = 17;
            let request_id = field(first, 4);
            let mut body = Vec::new();
            response::error_body(&mut body, PROTOCOL_ERROR, "ProtocolError", reason);
            if field(first, 12) == opcode::QUERY {
                response::legacy_reply(out, 0, request_id, &body);
            } else {
                response::reply(out, 0, request_id, &body);
            }
        }
        Protocol::Memcache => {
            out.extend_from_slice(format!("SERVER_ERROR {reason}\r\n").as_bytes());
        }
        Protocol::MemcacheBinary => {
            const NOT_SUPPORTED: u8 = 0x83;
            let operation = first.get(1).copied().unwrap_or_default();
            out.extend_from_slice(&[0x81, operation, 0, 0, 0, 0, 0, NOT_SUPPORTED]);
            out.extend_from_slice(&(reason.len() as u32).to_be_bytes());
            // The client's own number; the item's is 0.
            out.extend_from_slice(first.get(12..16).unwrap_or(&[0; 4]));
            out.extend_from_slice(&[0; 8]);
            out.extend_from_slice(reason.as_bytes());
        }
        Protocol::Http => {
            let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n";
            let length = reason.len() + 1;
            let rest = format!("Content-Length: {length}\r\nConnection: close\r\n\r\n{reason}\n");
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(rest.as_bytes());
        }
        // SETTINGS (4) without any, then GOAWAY (7): no stream, HTTP_1_1_REQUIRED (13), the reason.
        Protocol::Http2 => {
            let length = (8 + reason.len() as u32).to_be_bytes();
            out.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
            out.extend_from_slice(length.get(1..).unwrap_or_default());
            out.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13]);
            out.extend_from_slice(reason.as_bytes());
        }
        // A record (21) of two bytes: fatal (2), unexpected_message (10).
        Protocol::Tls => out.extend_from_slice(&[21, 3, 1, 0, 2, 2, 10]),
    }
}

/// The first byte of a request of memcached's binary protocol; no text begins with it.
const BINARY_REQUEST: u8 = 0x80;

/// A record of TLS that is part of a handshake.
const HANDSHAKE: u8 = 0x16;

/// Whether a binary header may begin like this: a byte that no text has is among the first four,
/// before any end of a line, or fewer than four are known. Then the whole header is needed, because
/// a byte of it may look like the end of a line.
pub fn may_be_binary(bytes: &[u8]) -> bool {
    let start = bytes.get(..4).unwrap_or(bytes);
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    start.first() == Some(&BINARY_REQUEST)
        || line.iter().any(|byte| *byte < b' ' && !matches!(byte, b'\t' | b'\r'))
        || (start.len() < 4 && line.len() == start.len())
}

/// A handshake record whose first message is a ClientHello; no MongoDB header looks like it.
fn is_client_hello(bytes: &[u8]) -> bool {
    bytes.len() >= LOOK_BYTES
        && matches!(bytes, [HANDSHAKE, 3, 0..=4, _, _, 1, 0, ..])
        && !is_opcode(field(bytes, 12))
}

/// A request header: a length that servers accept, `responseTo` 0, a known opcode.
fn is_mongo_header(bytes: &[u8]) -> bool {
    const LENGTH_MAX: i32 = 48_000_000;
    bytes.len() >= LOOK_BYTES
        && may_be_binary(bytes)
        && (LOOK_BYTES as i32..=LENGTH_MAX).contains(&field(bytes, 0))
        && field(bytes, 8) == 0
        && is_opcode(field(bytes, 12))
}

fn is_mongo_reply(bytes: &[u8]) -> bool {
    bytes.len() >= LOOK_BYTES
        && field(bytes, 0) >= LOOK_BYTES as i32
        && matches!(field(bytes, 12), opcode::REPLY | opcode::MSG | opcode::COMPRESSED)
}

/// An opcode of the current protocol, or of the one before it.
fn is_opcode(number: i32) -> bool {
    matches!(number, opcode::MSG | opcode::COMPRESSED | 2001..=2007)
}

fn is_http_line(bytes: &[u8], get_is_enough: bool) -> bool {
    const STARTS: [&[u8]; 9] = [
        b"POST /",
        b"PUT /",
        b"HEAD /",
        b"DELETE /",
        b"PATCH /",
        b"OPTIONS ",
        b"CONNECT ",
        b"TRACE /",
        b"PRI * HTTP/2",
    ];
    if STARTS.into_iter().any(|start| bytes.starts_with(start)) {
        return true;
    }
    if get_is_enough && bytes.starts_with(b"GET /") {
        return true;
    }
    let Some(end) = memchr::memchr(b'\n', bytes) else { return false };
    is_http_words(bytes.get(..end).unwrap_or_default())
}

/// Returns whether a line belongs to HTTP: a request line, or the first header that browsers send.
/// Redis closes connections at the same lines.
fn is_http_words(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return false };
    // No method of a browser begins otherwise, and `*` begins an array of Redis.
    if !first.first().is_some_and(u8::is_ascii_alphabetic) {
        return false;
    }
    let is = |word: &[u8]| first.eq_ignore_ascii_case(word);
    let (target, version, more) = (words.next(), words.next(), words.next());
    let is_target = |target: &[u8]| target.starts_with(b"/") || target.starts_with(b"http");
    is(b"post")
        || is(b"host:")
        || (target.is_some_and(is_target)
            && version.is_some_and(|version| version.starts_with(b"HTTP/1."))
            && more.is_none())
}

/// `*1\r\n$`, with which every Redis client library begins.
fn is_array(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"*") else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && rest.get(digits..).is_some_and(|rest| rest.starts_with(b"\r\n$"))
}

/// A Redis command typed by hand.
fn is_typed(bytes: &[u8]) -> bool {
    const LINE_BYTES_MAX: usize = 1_024;
    let limits = Limits { inline_bytes_max: LINE_BYTES_MAX, ..Limits::default() };
    let typed = request::decode(bytes, &limits);
    matches!(typed, Ok(Some((typed, _))) if command::find(&typed).is_some())
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().take(LOOK_BYTES).all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
}

fn field(bytes: &[u8], at: usize) -> i32 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
    i32::from_le_bytes(bytes.unwrap_or_default())
}

#[cfg(test)]
mod tests;
