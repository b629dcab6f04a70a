//! Request smuggling: requests whose end two servers may see differently (RFC 9112 §6 and §7, RFC
//! 9113 §8.1.1). Each is refused, or its origin sees the same end as the edge, and never the hidden
//! request.
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
};

use crate::support::{
    attacks::{Http2, field},
    edge::Edge,
    process::{serve_each, until},
    tls::Tls,
    workshop::workshop,
};

const SHOP: &str = "shop.example";
/// Replaces `!` in the table.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: shop.example\r\n\r\n";

/// The expected handling of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The origin gets this body, and the connection stays open.
    Whole(&'static str),
    /// The origin gets this body, and the connection is closed (RFC 9112 §6.1).
    Last(&'static str),
    /// It gets an error, or its connection is closed.
    Refused,
}
use Fate::{Last, Refused, Whole};

/// Name, header lines, data after the header, expected handling.
type Case = (&'static str, &'static str, &'static str, Fate);

#[rustfmt::skip]
const LENGTHS: &[Case] = &[
    ("a length", "Content-Length: 4", "page", Whole("page")),
    ("a request in the body", "Content-Length: 44", "!", Whole("!")),
    ("no length", "X: y", "", Whole("")),
    ("the length twice", "Content-Length: 4\r\nContent-Length: 4", "page", Whole("page")),
    ("two lengths, the short one first", "Content-Length: 0\r\nContent-Length: 44", "!", Refused),
    ("two lengths, the long one first", "Content-Length: 44\r\nContent-Length: 0", "!", Refused),
    ("a list of lengths", "Content-Length: 44, 0", "!", Refused),
    ("two numbers", "Content-Length: 4 4", "page!", Refused),
    ("a length on a folded line", "Content-Length:\r\n 44", "!", Refused),
    ("a length after a folded line", "X: y\r\n Content-Length: 44", "!", Refused),
    ("a space before the colon", "Content-Length : 44", "!", Refused),
    ("a space before the name", " Content-Length: 44", "!", Refused),
    ("a fraction", "Content-Length: 4.0", "page!", Refused),
    ("a length with letters", "Content-Length: 4a", "page!", Refused),
    ("both, the length first", "Content-Length: 49\r\nTransfer-Encoding: chunked", "0\r\n\r\n!", Last("")),
    ("both, the coding first", "Transfer-Encoding: chunked\r\nContent-Length: 49", "0\r\n\r\n!", Last("")),
    ("both, and the length is none", "Transfer-Encoding: chunked\r\nContent-Length: x", "0\r\n\r\n!", Last("")),
    ("both, and the coding is unknown", "Content-Length: 4\r\nTransfer-Encoding: xchunked", "page!", Refused),
    ("a space before the colon of the coding", "Content-Length: 4\r\nTransfer-Encoding : chunked", "page!", Refused),
    ("a folded coding", "Content-Length: 4\r\nTransfer-Encoding:\r\n chunked", "page!", Refused),
    ("chunked is not the last coding", "Transfer-Encoding: chunked, identity", "0\r\n\r\n!", Refused),
    ("another coding before", "Transfer-Encoding: identity, chunked", "0\r\n\r\n!", Refused),
    ("a coding in quotes", "Transfer-Encoding: \"chunked\"", "0\r\n\r\n!", Refused),
];

#[rustfmt::skip]
const CHUNKS: &[Case] = &[
    ("a chunk", "", "4\r\npage\r\n0\r\n\r\n", Whole("page")),
    ("a request in a chunk", "", "2C\r\n!\r\n0\r\n\r\n", Whole("!")),
    ("zeros before", "", "0004\r\npage\r\n000\r\n\r\n", Whole("page")),
    ("an extension", "", "4;a=b;c=\"d\"\r\npage\r\n0;e\r\n\r\n", Whole("page")),
    ("an extension with an open quote", "", "4;a=\"\r\npage\r\n0\r\n\r\n", Whole("page")),
    ("trailers", "", "4\r\npage\r\n0\r\nX: y\r\n\r\n", Whole("page")),
    ("trailers that state a length", "", "4\r\npage\r\n0\r\nContent-Length: 44\r\nTransfer-Encoding: x\r\n\r\n", Whole("page")),
    ("a line feed ends an extension", "", "4;a\npage\r\n0\r\n\r\n!", Refused),
    ("a carriage return in an extension", "", "4;a\rb\r\npage\r\n0\r\n\r\n!", Refused),
    ("line feeds alone", "", "4\npage\n0\n\n!", Refused),
    ("0x", "", "0x4\r\npage\r\n0\r\n\r\n!", Refused),
    ("a plus sign", "", "+4\r\npage\r\n0\r\n\r\n!", Refused),
    ("a minus sign", "", "-4\r\npage\r\n0\r\n\r\n!", Refused),
    ("a space before", "", " 4\r\npage\r\n0\r\n\r\n!", Refused),
    ("an underscore", "", "0_4\r\npage\r\n0\r\n\r\n!", Refused),
    ("a letter", "", "4g\r\npage\r\n0\r\n\r\n!", Refused),
    ("no number", "", "\r\n4\r\npage\r\n0\r\n\r\n!", Refused),
    ("2^64 and four", "", "10000000000000004\r\npage\r\n0\r\n\r\n!", Refused),
    ("less than it has", "", "3\r\npage\r\n0\r\n\r\n!", Refused),
    ("more than it has", "", "6\r\npage\r\n0\r\n\r\n!", Refused),
    ("no line end after it", "", "4\r\npage0\r\n\r\n!", Refused),
    ("a line feed after it", "", "4\r\npage\n0\r\n\r\n!", Refused),
    ("a trailer that is none", "", "0\r\nX y\r\n\r\n!", Refused),
];

#[test]
fn by_its_length() {
    run(LENGTHS);
}

#[test]
fn by_its_chunks() {
    let coded = |&(name, _, body, fate): &Case| (name, "Transfer-Encoding: chunked", body, fate);
    run(&CHUNKS.iter().map(coded).collect::<Vec<_>>());
}

fn run(cases: &[Case]) {
    with_edge(|edge, origin| {
        let mut failed = Vec::new();
        for (number, (name, lines, body, fate)) in cases.iter().enumerate() {
            let (path, body) = (format!("/{number}"), body.replace('!', HIDDEN));
            let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
            let head = format!("POST {path} HTTP/1.1\r\nHost: {SHOP}\r\n{lines}\r\n\r\n");
            client.send((head + &body).as_bytes());
            let status = client.answer(false).map(|answer| answer.status);
            let ask_more = |mut client: Tls| {
                client.send(format!("GET /more HTTP/1.1\r\nHost: {SHOP}\r\n\r\n").as_bytes());
                client.answer(false).map(|answer| answer.body)
            };
            let seen = |body: &str| origin.bodies(&path) == [body.replace('!', HIDDEN)];
            let as_expected = match fate {
                Whole(body) => {
                    status == Some(200) && seen(body) && ask_more(client) == Some("/more".into())
                }
                Last(body) => status == Some(200) && seen(body) && ask_more(client).is_none(),
                // A 502 would blame the origin.
                Refused => status.is_none_or(|status| (400..=501).contains(&status)),
            };
            if !as_expected {
                failed.push(format!("{name}: {status:?}, not {fate:?}; {:?}", origin.seen()));
            }
            origin.check(edge, name);
        }
        assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), cases.len());
    });
}

/// A connection to the origin is not reused after an incomplete upload.
#[test]
fn by_ending_early() {
    with_edge(|edge, origin| {
        let head = format!("POST /stops HTTP/1.1\r\nHost: {SHOP}\r\n");
        for (number, lines) in
            ["Content-Length: 400", "Transfer-Encoding: chunked"].iter().enumerate()
        {
            let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
            client.send(format!("{head}{lines}\r\n\r\n40\r\npa").as_bytes());
            until("it is under way", || origin.begun("/stops") == number + 1);
            drop(client);
            origin.check(edge, lines);
        }
        assert_eq!(origin.bodies("/stops"), [""; 0], "none is whole");
    });
}

#[test]
fn by_http2() {
    with_edge(|edge, origin| {
        let request = |path: &str, length: &str| {
            let target = [field(":path", path), field(":authority", SHOP)].concat();
            let mut block = [field(":method", "POST"), field(":scheme", "https"), target].concat();
            if !length.is_empty() {
                block.extend(field("content-length", length));
            }
            Http2::begun(1, &block, false)
        };
        // The end of the body.
        let trailers = Http2::begun(1, &field("x", "y"), true);
        for (number, length) in ["0", "4", "400", "x", "44, 4"].iter().enumerate() {
            let path = format!("/{number}");
            let mut client = Http2::connect(edge.address, SHOP, &[]);
            let body = Http2::data(1, HIDDEN.as_bytes());
            client.0.send(&[request(&path, length), body, trailers.clone()].concat());
            // The connection may be closed instead.
            while client.0.frame().is_some_and(|(_, _, stream, _)| stream != 1) {}
            origin.check(edge, &format!("a length of {length}"));
            let bodies = origin.bodies(&path);
            assert!(bodies.iter().all(String::is_empty), "a length of {length}: {bodies:?}");
        }
        for length in ["44", ""] {
            let path = format!("/whole{length}");
            let mut client = Http2::connect(edge.address, SHOP, &[]);
            let body = Http2::data(1, HIDDEN.as_bytes());
            client.0.send(&[request(&path, length), body, trailers.clone()].concat());
            until("it is whole", || origin.bodies(&path) == [HIDDEN]);
            origin.check(edge, "a whole one");
        }
    });
}

/// Trailers of HTTP/2 that would have another meaning in HTTP/1.1: the origin gets the body without
/// them, or no complete request.
#[test]
fn by_trailers_of_http2() {
    let trailers: &[&[(&str, &str)]] = &[
        &[("content-length", "44")],
        &[("transfer-encoding", "chunked")],
        &[("connection", "close")],
        &[("host", "evil.example")],
        &[("forwarded", "host=evil.example")],
        &[("trailer", "content-length")],
        &[(":path", "/hidden")],
        &[(":method", "GET"), (":path", "/hidden")],
        &[("x", "y\r\n\r\nGET /hidden HTTP/1.1\r\nHost: shop.example\r\n\r\n")],
        &[("x: y\r\n\r\nGET /hidden HTTP/1.1\r\nhost", "shop.example")],
    ];
    with_edge(|edge, origin| {
        for (number, fields) in trailers.iter().enumerate() {
            let path = format!("/{number}");
            let target = [field(":path", &path), field(":authority", SHOP)].concat();
            let block = [field(":method", "POST"), field(":scheme", "https"), target].concat();
            let trailers: Vec<u8> =
                fields.iter().flat_map(|(name, value)| field(name, value)).collect();
            let mut client = Http2::connect(edge.address, SHOP, &[]);
            let parts = [Http2::begun(1, &block, false), Http2::data(1, b"page")];
            client.0.send(&[parts.concat(), Http2::begun(1, &trailers, true)].concat());
            while client.0.frame().is_some_and(|(_, _, stream, _)| stream != 1) {}
            origin.check(edge, &format!("{fields:?}"));
            let bodies = origin.bodies(&path);
            assert!(bodies.iter().all(|body| body == "page"), "{fields:?}: {bodies:?}");
        }
        let plain = ["content-length", "host", "forwarded", "trailer"];
        let harmless =
            trailers.iter().enumerate().filter(|(_, fields)| plain.contains(&fields[0].0));
        for (number, fields) in harmless {
            let whole = || origin.bodies(&format!("/{number}")) == ["page"];
            until(&format!("{fields:?} leaves it whole"), whole);
        }
    });
}

fn with_edge(test: impl FnOnce(&Edge<'_>, &Strict)) {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let origin = Strict::start();
    let edge = workshop.start("", &workshop.site(SHOP, origin.address));
    test(&edge, &origin);
}

/// An origin that accepts only the strict grammar, and answers with the path.
struct Strict {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

/// Requests by path: those that have begun, and the bodies of those that are complete.
#[derive(Debug, Default)]
struct Seen {
    begun: Vec<String>,
    whole: Vec<(String, String)>,
}

impl Strict {
    fn start() -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let theirs = Arc::clone(&seen);
        let address = serve_each(move |client| while serve(&client, &theirs).is_some() {});
        Self { address, seen }
    }

    fn begun(&self, path: &str) -> usize {
        let seen = self.seen.lock().expect("no panic");
        seen.begun.iter().filter(|begun| *begun == path).count()
    }

    fn bodies(&self, path: &str) -> Vec<String> {
        let seen = self.seen.lock().expect("no panic");
        let of_path = seen.whole.iter().filter(|(of, _)| of == path);
        of_path.map(|(_, body)| body.clone()).collect()
    }

    fn seen(&self) -> String {
        let seen = self.seen.lock().expect("no panic");
        format!("the last {:?}", seen.whole.last_chunk::<3>())
    }

    /// Another client's request is answered, and the hidden request did not arrive.
    fn check(&self, edge: &Edge<'_>, name: &str) {
        for method in ["GET", "POST"] {
            let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
            let answer = client.ask(method, "/next", "Host: shop.example");
            assert_eq!((answer.status, &*answer.body), (200, "/next"), "after {name}");
        }
        assert_eq!(self.begun("/hidden"), 0, "{name}: {}", self.seen());
    }
}

/// Serves one request; `None` if there is no further one.
fn serve(mut client: &TcpStream, seen: &Mutex<Seen>) -> Option<()> {
    // One byte at a time, so that nothing of the next request is lost.
    let mut reader = BufReader::with_capacity(1, client);
    let path = line(&mut reader)?.split(' ').nth(1)?.to_owned();
    seen.lock().ok()?.begun.push(path.clone());
    let (mut length, mut is_chunked) = (None, false);
    while let Some((name, value)) = line(&mut reader)?.to_ascii_lowercase().split_once(": ") {
        match name {
            "content-length" if length.is_none() => length = Some(value.parse().ok()?),
            "content-length" => return None,
            "transfer-encoding" => is_chunked = value == "chunked",
            _ => {}
        }
    }
    if is_chunked && length.is_some() {
        return None;
    }
    let mut body = take(&mut reader, length.unwrap_or(0))?;
    while is_chunked {
        let length = usize::from_str_radix(&line(&mut reader)?, 16).ok()?;
        body += &take(&mut reader, length)?;
        line(&mut reader).filter(String::is_empty)?;
        is_chunked = length > 0;
    }
    seen.lock().ok()?.whole.push((path.clone(), body));
    let head =
        format!("HTTP/1.1 200 x\r\ncache-control: no-store\r\ncontent-length: {}", path.len());
    write!(client, "{head}\r\n\r\n{path}").ok()
}

fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.strip_suffix("\r\n").map(str::to_owned)
}

fn take(reader: &mut impl Read, length: usize) -> Option<String> {
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}
