//! Responses of an origin with unusual headers, lengths and codings: each is refused, or stored
//! without the unusual part, and none is used as the response to another request.
use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
};

use crate::support::{
    edge::{Answer, Edge},
    process::serve_each,
    tls::Tls,
    workshop::workshop,
};

const SHOP: &str = "shop.example";

/// The expected handling of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The client gets this body, and so does the next one from storage.
    Stored(&'static str),
    /// The client gets this body, and the next request goes to the origin.
    Passed(&'static str),
    /// The client gets an error.
    Refused,
}
use Fate::{Passed, Refused, Stored};

#[rustfmt::skip]
const ANSWERS: &[(&str, &[u8], Fate)] = &[
    ("nothing odd", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 4\r\n\r\npage", Stored("page")),
    ("two lengths", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 4\r\ncontent-length: 3\r\n\r\npage", Refused),
    ("a list of lengths", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 4, 3\r\n\r\npage", Refused),
    ("a length below zero", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: -4\r\n\r\npage", Refused),
    ("a length with a sign", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: +4\r\n\r\npage", Refused),
    ("a length that is too long", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 5\r\n\r\npage", Refused),
    ("more than its length", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 4\r\n\r\npageHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", Stored("page")),
    ("chunks", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n", Stored("page")),
    ("chunks with trailers", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntrailer: set-cookie\r\ntransfer-encoding: chunked\r\n\r\n4\r\npage\r\n0\r\nset-cookie: evil=1\r\ncache-control: max-age=evil\r\n\r\n", Stored("page")),
    ("chunks with extensions", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n4;evil=1\r\npage\r\n0\r\n\r\n", Stored("page")),
    ("chunks that stop", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n4\r\npage\r\n", Refused),
    ("a chunk of no number", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\nevil\r\npage\r\n0\r\n\r\n", Refused),
    ("another coding", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: gzip, chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n", Refused),
    ("an unknown coding", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: evil\r\n\r\npage", Refused),
    ("a folded line", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nx: y\r\n evil\r\ncontent-length: 4\r\n\r\npage", Refused),
    ("a carriage return", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nx: y\revil: 1\r\ncontent-length: 4\r\n\r\npage", Refused),
    ("a NUL", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nx: y\0evil\r\ncontent-length: 4\r\n\r\npage", Refused),
    ("a space before the colon", b"HTTP/1.1 200 OK\r\ncache-control : private\r\ncache-control: max-age=60\r\ncontent-length: 4\r\n\r\npage", Refused),
    ("a name with a space", b"HTTP/1.1 200 OK\r\nx evil: y\r\ncache-control: max-age=60\r\ncontent-length: 4\r\n\r\npage", Refused),
    ("no head", b"evil\r\n\r\n", Refused),
    ("nothing", b"", Refused),
    ("a status of two digits", b"HTTP/1.1 20 OK\r\ncache-control: max-age=60\r\ncontent-length: 4\r\n\r\npage", Refused),
    ("a connection that becomes another", b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: evil\r\n\r\nevil", Refused),
    ("a 304 that none asked for", b"HTTP/1.1 304 Not Modified\r\ncache-control: max-age=60\r\n\r\n", Refused),
    ("hints before", b"HTTP/1.1 103 Early Hints\r\nlink: <evil>\r\nset-cookie: evil=1\r\n\r\nHTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 4\r\n\r\npage", Stored("page")),
    ("a private that Connection names", b"HTTP/1.1 200 OK\r\ncache-control: private\r\netag: \"a\"\r\nconnection: cache-control, close\r\ncontent-length: 4\r\n\r\npage", Passed("page")),
    ("a cookie that Connection names", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nset-cookie: evil=1\r\nconnection: set-cookie\r\ncontent-length: 4\r\n\r\npage", Passed("page")),
    ("a Vary that Connection names", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nvary: *\r\nconnection: vary\r\ncontent-length: 4\r\n\r\npage", Passed("page")),
    ("a header that Connection names", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nevil: 1\r\nconnection: evil\r\ncontent-length: 4\r\n\r\npage", Stored("page")),
    ("one that it names beside bytes", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nevil: 1\r\nconnection: \xe9, evil\r\ncontent-length: 4\r\n\r\npage", Stored("page")),
    ("private, and bytes", b"HTTP/1.1 200 OK\r\ncache-control: private, \xe9\r\ncontent-length: 4\r\n\r\npage", Passed("page")),
    ("max-age, and bytes", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60, \xe9\r\ncontent-length: 4\r\n\r\npage", Passed("page")),
    ("a Vary of bytes", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nvary: \xe9\r\ncontent-length: 4\r\n\r\npage", Passed("page")),
    ("a cookie of bytes", b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nset-cookie: \xe9\r\ncontent-length: 4\r\n\r\npage", Passed("page")),
    ("a length of the whole and a part", b"HTTP/1.1 206 Partial Content\r\ncache-control: max-age=60\r\ncontent-range: bytes 0-3/9\r\ncontent-length: 4\r\n\r\npage", Passed("page")),
];

#[test]
fn each_is_refused_or_stored_without_what_is_odd() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let edge = workshop.start("", &workshop.site(SHOP, origin()));
    let mut failed = Vec::new();
    for (number, (name, _, fate)) in ANSWERS.iter().enumerate() {
        let path = format!("/{number}");
        let (first, second) = (ask(&edge, &path), ask(&edge, &path));
        let is = |answer: &Answer, body: &str| answer.status < 300 && answer.body == body;
        let as_expected = match fate {
            Stored(body) => is(&first, body) && is(&second, body) && second.cache() == "hit",
            Passed(body) => is(&first, body) && is(&second, body) && second.cache() != "hit",
            Refused => first.status == 502 && second.status == 502,
        };
        let odd = |answer: &Answer| {
            let head = answer.head.replace("set-cookie: evil=1", "");
            head.contains("evil") || answer.body.contains("evil")
        };
        if !as_expected || odd(&first) || odd(&second) {
            failed.push(format!("{name}: {first:?}, then {second:?}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

fn ask(edge: &Edge<'_>, path: &str) -> Answer {
    Tls::connect(edge.address, SHOP, "http/1.1").ask("GET", path, "Host: shop.example")
}

/// Sends the response of a path, byte for byte, and closes.
fn origin() -> SocketAddr {
    serve_each(serve)
}

fn serve(mut client: TcpStream) -> Option<()> {
    let mut lines = BufReader::new(client.try_clone().ok()?).lines();
    let request = lines.next()?.ok()?;
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let number: usize = request.split(' ').nth(1)?.trim_start_matches('/').parse().ok()?;
    client.write_all(ANSWERS.get(number)?.1).ok()
}
