mod batch;
mod bodies;
mod keys;
mod query;
mod streams;

use proptest::prelude::*;

use super::{
    reply::{Failure, Reply, RequestId, Scanner, checksum, write_error},
    request,
};
use crate::{
    Error,
    detect::{self, Protocol},
    http1::Limits,
};

const GET: &str = "POST / HTTP/1.1\r\nHost: a\r\nX-Amz-Target: DynamoDB_20120810.GetItem\r\n\
                   Content-Length: 2\r\n\r\n{}";

#[test]
fn a_request_names_its_operation() {
    let (message, length) =
        request::decode(GET.as_bytes(), &Limits::default()).expect("valid").expect("whole");
    assert_eq!((message.operation(), &*message.body, length), ("GetItem", &b"{}"[..], GET.len()));
    let other = GET.replace("DynamoDB_20120810", "DynamoDBStreams_20120810");
    let (message, _) =
        request::decode(other.as_bytes(), &Limits::default()).expect("valid").expect("whole");
    assert_eq!(message.operation(), "");
}

#[test]
fn what_leaves_http_1_is_refused() {
    let decode = |text: &str| request::decode(text.as_bytes(), &Limits::default()).map(|_| ());
    for head in ["CONNECT a:1 HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n"] {
        assert!(matches!(decode(head), Err(Error::Malformed { .. })), "{head}");
    }
    assert_eq!(decode("PRI * HTTP/2.0\r\n\r\nSM"), Ok(()));
    let error = decode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect_err("HTTP/2");
    let Error::Foreign { found, first, .. } = &error else { panic!("{error}") };
    let mut told = Vec::new();
    detect::refuse(*found, first, &error.to_string(), &mut told);
    // SETTINGS, then GOAWAY with HTTP_1_1_REQUIRED and the reason.
    assert_eq!(told[..9], [0, 0, 0, 4, 0, 0, 0, 0, 0]);
    assert_eq!(told[9..13], [0, 0, (told.len() - 18) as u8, 7]);
    assert_eq!(told[18..26], [0, 0, 0, 0, 0, 0, 0, 13]);
    assert_eq!(*found, Protocol::Http2);
    assert!(String::from_utf8_lossy(&told[26..]).contains("HTTP/1.1"), "{error}");
}

#[test]
fn a_reply_to_head_has_no_body_and_interim_replies_end_nothing() {
    let limits = Limits::default();
    let reply = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
    let advance = |to_head| {
        let progress = Scanner::default().advance(reply, to_head, &limits).expect("valid");
        (progress.consumed, progress.complete)
    };
    assert_eq!(advance(false), (reply.len(), true));
    assert_eq!(advance(true), (reply.len() - 4, true));
    assert!(Reply::parse(reply, &limits).is_none());
    let switching = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n";
    assert!(Scanner::default().advance(switching, false, &limits).is_err());
}

#[test]
fn an_error_is_one_of_dynamodb() {
    let mut out = Vec::new();
    write_error(Failure::Unavailable, "a \"quoted\" why", RequestId(7), &mut out);
    let reply = Reply::parse(&out, &Limits::default()).expect("a whole reply");
    assert_eq!(reply.head.status, 503);
    let body: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
    assert_eq!(body["__type"], "com.amazonaws.dynamodb.v20120810#ServiceUnavailable");
    assert_eq!(body["message"], "enroute: a \"quoted\" why");
    let told = reply.head.head.one("x-amz-crc32").expect("a checksum");
    assert_eq!(told, checksum(&reply.body).to_string().as_bytes());
    // The check value of CRC-32.
    assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
}

proptest! {
    /// Requests in a row, and replies in a row, are cut at the same places however they arrive.
    #[test]
    fn any_chunking_gives_the_same_messages(cuts in prop::collection::vec(1usize..60, 1..40)) {
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        let requests = [GET, chunked, GET, "GET / HTTP/1.1\r\n\r\n"];
        let replies = [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\n{}\r\n0\r\n\r\n",
            "HTTP/1.1 204 None\r\n\r\n",
        ];
        let limits = Limits::default();
        let (mut ends, mut scanner) = (Vec::new(), Scanner::default());
        pieces(&requests.concat(), &cuts, |bytes| {
            let found = request::decode(bytes, &limits).expect("valid");
            let taken = found.map_or(0, |(_, length)| length);
            ends.extend((taken > 0).then_some(taken));
            taken
        });
        prop_assert_eq!(&ends, &requests.map(str::len).to_vec());
        let (mut lengths, mut so_far) = (Vec::new(), 0);
        pieces(&replies.concat(), &cuts, |bytes| {
            let progress = scanner.advance(bytes, false, &limits).expect("valid");
            so_far += progress.consumed;
            if progress.complete {
                lengths.push(std::mem::take(&mut so_far));
            }
            progress.consumed
        });
        prop_assert_eq!(&lengths, &replies.map(str::len).to_vec());
    }

    #[test]
    fn no_request_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = request::decode(&bytes, &Limits::default());
        let _ = Scanner::default().advance(&bytes, false, &Limits::default());
    }
}

/// Feeds `text` in pieces of the lengths `cuts`; `take` is given what waits, and takes some of it.
fn pieces(text: &str, cuts: &[usize], mut take: impl FnMut(&[u8]) -> usize) {
    let bytes = text.as_bytes();
    let (mut taken, mut seen) = (0, 0);
    for cut in cuts.iter().cycle() {
        if seen == bytes.len() {
            return;
        }
        seen = (seen + cut).min(bytes.len());
        loop {
            let count = take(&bytes[taken..seen]);
            taken += count;
            if count == 0 || taken == seen {
                break;
            }
        }
    }
}
