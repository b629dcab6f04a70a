//! Captures of real clients and servers decode to the same requests and replies here and in the
//! crate `redis-protocol`.

use std::path::Path;

use redis_protocol::resp2::decode::decode as oracle2;
use redis_protocol::resp2::types::OwnedFrame as Resp2;
use redis_protocol::resp3::decode::complete::decode as oracle3;
use redis_protocol::resp3::types::OwnedFrame as Resp3;
use wire::resp::{Frame, Kind, Limits, command, frame, request};

fn capture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/redis").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The arguments of all requests, compared with those that the oracle decodes.
fn requests(name: &str) -> Vec<Vec<Vec<u8>>> {
    let bytes = capture(&format!("{name}.requests"));
    let mut rest = &bytes[..];
    let mut requests = Vec::new();
    while let Some((request, taken)) = request::decode(rest, &Limits::default()).unwrap() {
        let invented = matches!(request.name(), b"NOSUCH" | b"BOGUS");
        let known = command::find(&request).is_some();
        assert_eq!(known, !invented, "{}", request.bytes().escape_ascii());
        let arguments: Vec<Vec<u8>> = request.arguments().map(<[u8]>::to_vec).collect();
        let (expected, expected_taken) = oracle2(rest).unwrap().unwrap();
        let bulks = arguments.iter().cloned().map(Resp2::BulkString).collect();
        assert_eq!((Resp2::Array(bulks), taken), (expected, expected_taken));
        requests.push(arguments);
        rest = &rest[taken..];
    }
    assert!(rest.is_empty());
    requests
}

/// The kinds of all replies; `same` compares each with the oracle's.
fn replies(name: &str, same: impl Fn(&Frame<'_>, &[u8])) -> Vec<Kind> {
    let bytes = capture(&format!("{name}.replies"));
    let mut rest = &bytes[..];
    let mut kinds = Vec::new();
    while let Some((frame, taken)) = frame::decode(rest, &Limits::default()).unwrap() {
        same(&frame, rest);
        kinds.push(frame.kind());
        rest = &rest[taken..];
    }
    assert!(rest.is_empty());
    kinds
}

fn same_as_resp2(frame: &Frame<'_>, bytes: &[u8]) {
    let (expected, taken) = oracle2(bytes).unwrap().unwrap();
    assert_eq!(taken, frame.bytes().len());
    assert!(is_resp2(frame, &expected), "{frame:?} is not {expected:?}");
}

fn is_resp2(frame: &Frame<'_>, expected: &Resp2) -> bool {
    match expected {
        Resp2::SimpleString(text) => frame.kind() == Kind::Simple && frame.line() == Some(text),
        Resp2::Error(text) => frame.error() == Some(text.as_bytes()),
        Resp2::Integer(value) => frame.integer() == Some(*value),
        Resp2::BulkString(payload) => frame.payload() == Some(payload),
        Resp2::Null => frame.is_null(),
        Resp2::Array(elements) => {
            let ours: Vec<_> = frame.elements().collect();
            ours.len() == elements.len() && ours.iter().zip(elements).all(|(a, b)| is_resp2(a, b))
        }
    }
}

fn same_as_resp3(frame: &Frame<'_>, bytes: &[u8]) {
    let (expected, taken) = match oracle3(bytes) {
        Ok(found) => found.unwrap(),
        // The oracle hashes the elements of a set and cannot hash a map (COMMAND INFO).
        Err(error) if error.details().contains("Invalid hash key") => return,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(taken, frame.bytes().len());
    assert!(is_resp3(frame, &expected), "{frame:?} is not {expected:?}");
}

fn is_resp3(frame: &Frame<'_>, expected: &Resp3) -> bool {
    let ours: Vec<_> = frame.elements().collect();
    match expected {
        Resp3::BlobString { data, .. } => frame.payload() == Some(data),
        Resp3::BlobError { data, .. } => frame.error() == Some(data),
        Resp3::SimpleString { data, .. } => frame.line() == Some(data),
        Resp3::SimpleError { data, .. } => frame.error() == Some(data.as_bytes()),
        Resp3::Boolean { data, .. } => frame.boolean() == Some(*data),
        Resp3::Null => frame.is_null(),
        Resp3::Number { data, .. } => frame.integer() == Some(*data),
        Resp3::Double { data, .. } => frame.double() == Some(*data),
        Resp3::BigNumber { data, .. } => frame.line() == Some(data),
        // The oracle separates the format from the text.
        Resp3::VerbatimString { data, .. } => frame.payload().is_some_and(|p| p.ends_with(data)),
        Resp3::Array { data, .. } | Resp3::Push { data, .. } => {
            ours.len() == data.len() && ours.iter().zip(data).all(|(a, b)| is_resp3(a, b))
        }
        Resp3::Set { data, .. } => {
            let known = |frame| data.iter().any(|expected| is_resp3(frame, expected));
            ours.len() == data.len() && ours.iter().all(known)
        }
        Resp3::Map { data, .. } => {
            let (pairs, alone) = ours.as_chunks::<2>();
            let known = |[key, value]: &[Frame<'_>; 2]| {
                data.iter().any(|(k, v)| is_resp3(key, k) && is_resp3(value, v))
            };
            alone.is_empty() && pairs.len() == data.len() && pairs.iter().all(known)
        }
        Resp3::Hello { .. } | Resp3::ChunkedString(_) => false,
    }
}

fn pushes(kinds: &[Kind]) -> usize {
    kinds.iter().filter(|kind| **kind == Kind::Push).count()
}

#[test]
fn resp2_conversations() {
    for name in ["redis-py-resp2", "redis-cli-resp2"] {
        assert_eq!(requests(name).len(), replies(name, same_as_resp2).len(), "{name}");
    }
    requests("redis-py-resp2-pubsub");
    replies("redis-py-resp2-pubsub", same_as_resp2);
}

#[test]
fn resp3_conversations() {
    for (name, invalidations) in
        [("redis-py-resp3", 1), ("redis-py-resp3-valkey", 1), ("redis-cli-resp3", 0)]
    {
        let kinds = replies(name, same_as_resp3);
        assert_eq!(pushes(&kinds), invalidations, "{name}");
        assert_eq!(requests(name).len(), kinds.len() - invalidations, "{name}");
    }
    for name in ["redis-py-resp3-pubsub", "redis-py-resp3-valkey-pubsub"] {
        requests(name);
        assert_eq!(pushes(&replies(name, same_as_resp3)), 6, "{name}");
    }
}

#[test]
fn an_attribute_belongs_to_the_reply_behind_it() {
    let kinds = replies("attribute", same_as_resp3);
    assert_eq!(kinds, [Kind::Map, Kind::Bulk, Kind::Simple, Kind::Simple]);
}

#[test]
fn typed_by_hand() {
    let bytes = capture("inline.requests");
    let mut rest = &bytes[..];
    let mut lines = Vec::new();
    let error = loop {
        match request::decode(rest, &Limits::default()) {
            Ok(found) => {
                let (request, taken) = found.expect("the last line is refused");
                let words = request.arguments().map(|word| word.escape_ascii().to_string());
                lines.push(words.collect::<Vec<_>>().join("|"));
                rest = &rest[taken..];
            }
            Err(error) => break error,
        }
    };
    let expected = [
        "PING",
        r#"SET|typed|a \"b\" A\n|EX|100"#,
        "get|typed",
        "MGET|typed|none",
        r"SET|q|it\'s",
        "GET|q",
    ];
    assert_eq!(lines, expected);
    // The server closed the connection with the same error.
    let replies = capture("inline.replies");
    assert!(replies.ends_with(&request::error_line(&error)));
}
