use super::*;
use crate::mongo::frame::Header;

fn op_msg() -> Vec<u8> {
    let header = Header { length: 60, request_id: 7, response_to: 0, opcode: opcode::MSG };
    [header.encode().as_slice(), &[0; 44]].concat()
}

fn client_hello() -> Vec<u8> {
    [&[0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[0x5a; 64]].concat()
}

#[test]
fn each_protocol_is_found_where_another_is_expected_and_only_there() {
    let speakers: Vec<(Protocol, Vec<u8>)> = vec![
        (Protocol::Resp, b"*1\r\n$4\r\nPING\r\n".to_vec()),
        (Protocol::Resp, b"PING\r\n".to_vec()),
        (Protocol::Mongo, op_msg()),
        (Protocol::Http, b"POST / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec()),
        (Protocol::Http, b"GET /stats HTTP/1.1\r\nHost: h\r\n\r\n".to_vec()),
        (Protocol::Tls, client_hello()),
    ];
    let expected = [Protocol::Resp, Protocol::Mongo, Protocol::Http, Protocol::Tls];
    for (speaks, bytes) in &speakers {
        for expected in expected {
            let look = client(expected, bytes);
            let right = if *speaks == expected { Look::Expected } else { Look::Found(*speaks) };
            assert_eq!(look, right, "{speaks:?} at {expected:?}");
        }
    }
}

#[test]
fn commands_that_look_like_http_are_commands() {
    for command in ["GET /key\r\n", "GET /a/very/long/key/of/somebody\r\n", "get k\r\n", "\r\n"] {
        assert_eq!(client(Protocol::Resp, command.as_bytes()), Look::Expected, "{command}");
        assert_eq!(client(Protocol::Memcache, command.as_bytes()), Look::Expected, "{command}");
    }
}

#[test]
fn cut_anywhere_the_look_is_the_same_or_asks_for_more() {
    for (expected, bytes) in [
        (Protocol::Resp, op_msg()),
        (Protocol::Resp, client_hello()),
        (Protocol::Mongo, client_hello()),
        (Protocol::Mongo, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".to_vec()),
        (Protocol::Resp, b"PING\r\n".to_vec()),
    ] {
        let whole = client(expected, &bytes);
        for cut in 1..bytes.len() {
            let look = client(expected, &bytes[..cut]);
            assert!(look == whole || look == Look::More, "{expected:?}, {cut} bytes: {look:?}");
        }
    }
}

#[test]
fn what_a_wrong_server_says_is_named() {
    let mongo = [Header { length: 60, request_id: 7, response_to: 7, opcode: opcode::REPLY }]
        .map(|header| header.encode().to_vec())
        .concat();
    let said: [(&[u8], Protocol); 5] = [
        (b"-ERR unknown command\r\n", Protocol::Resp),
        (&mongo, Protocol::Mongo),
        (b"HTTP/1.1 400 Bad Request\r\n", Protocol::Http),
        (&[0x15, 3, 1, 0, 2, 2, 70], Protocol::Tls),
        (b"ERROR\r\n", Protocol::Memcache),
    ];
    for (bytes, speaks) in said {
        assert_eq!(server(speaks, bytes), None);
        let other = if speaks == Protocol::Resp { Protocol::Mongo } else { Protocol::Resp };
        assert_eq!(server(other, bytes), Some(speaks));
    }
    assert_eq!(server(Protocol::Resp, &[0; 40]), None);
}

#[test]
fn a_mongodb_client_is_refused_in_a_reply_to_its_request() {
    let mut out = Vec::new();
    refuse(Protocol::Mongo, &op_msg(), "this is Redis", &mut out);
    let limits = crate::mongo::frame::Limits::default();
    let (frame, length) = crate::mongo::frame::decode(&out, &limits).unwrap().unwrap();
    assert_eq!((length, frame.header().response_to), (out.len(), 7));
    let reply = response::Response::parse(&frame).unwrap().unwrap();
    assert!(!reply.ok && reply.failure.message == "this is Redis");
}

#[test]
fn lines_of_http_are_told_from_commands() {
    let is = |line: &str| client(Protocol::Resp, line.as_bytes()) == Look::Found(Protocol::Http);
    for line in [
        "POST / HTTP/1.1\r\n",
        "Host: evil.example\r\n",
        "  hOST: a\r\n",
        "GET /x HTTP/1.1\r\n",
        "post\r\n",
        "BREW /pot HTTP/1.0\n",
    ] {
        assert!(is(line), "{line}");
    }
    for line in ["GET /x\r\n", "SET host: x\r\n", "PING\r\n", "GET HTTP/1.1\r\n", "\r\n"] {
        assert!(!is(line), "{line}");
    }
}

#[test]
fn what_begins_as_tls_needs_no_further_look() {
    assert_eq!(client(Protocol::Tls, &client_hello()[..1]), Look::Expected);
    assert_eq!(client(Protocol::Tls, b"GET"), Look::More);
}

#[test]
fn a_client_of_memcacheds_binary_protocol_is_answered_in_it() {
    let get = [&[0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4][..], &[0; 8], b"k"].concat();
    let found = Protocol::MemcacheBinary;
    assert_eq!(client(Protocol::Memcache, &get), Look::Found(found));
    assert_eq!(client(Protocol::Memcache, &get[..9]), Look::More);
    let mut out = Vec::new();
    refuse(found, &get[..LOOK_BYTES], "no", &mut out);
    let head = [0x81, 0, 0, 0, 0, 0, 0, 0x83, 0, 0, 0, 2, 1, 2, 3, 4];
    assert_eq!(out, [&head[..], &[0; 8], b"no"].concat());
}
