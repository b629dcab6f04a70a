//! Requests with unusual hosts, targets, headers, lengths and codings, over HTTP/1.1 and HTTP/2:
//! each is refused, or the unusual part does not reach the origin; and the next client gets the
//! usual response.
use crate::support::{
    attacks::{self, field},
    edge::{Asked, Edge, Origin, with_edge},
    tls::Tls,
};

const SHOP: &str = "shop.example";

/// The expected handling of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is answered as without the unusual part.
    Served,
    /// It gets this status.
    Status(u16),
    /// It gets an error, or its connection is closed.
    Refused,
    /// Any of these, depending on the parser.
    Harmless,
}
use Fate::{Harmless, Refused, Served, Status};

/// Purpose, target of the request line, header lines (`Host: shop.example` is not added), expected
/// handling.
type Attack = (&'static str, &'static str, &'static str, Fate);

const PLAIN: &str = "Host: shop.example\r\n";

#[rustfmt::skip]
const HOSTS: &[Attack] = &[
    ("nothing", "/", PLAIN, Served),
    ("no host", "/", "", Status(400)),
    ("an empty host", "/", "Host:\r\n", Status(400)),
    ("two hosts", "/", "Host: shop.example\r\nHost: evil.example\r\n", Status(400)),
    ("two hosts, the other first", "/", "Host: evil.example\r\nHost: shop.example\r\n", Status(400)),
    ("the host twice", "/", "Host: shop.example\r\nHost: shop.example\r\n", Status(400)),
    ("user information", "/", "Host: shop.example:@evil.example\r\n", Status(400)),
    ("a port and user information", "/", "Host: shop.example:443@evil.example\r\n", Status(400)),
    ("user information first", "/", "Host: evil.example@shop.example\r\n", Status(400)),
    ("another port", "/", "Host: shop.example:1\r\n", Status(421)),
    ("the default port", "/", "Host: shop.example:443\r\n", Served),
    ("an empty port", "/", "Host: shop.example:\r\n", Served),
    ("a port that is none", "/", "Host: shop.example:evil\r\n", Status(400)),
    ("two ports", "/", "Host: shop.example:443:evil\r\n", Status(400)),
    ("a full stop at the end", "/", "Host: shop.example.\r\n", Served),
    ("two full stops at the end", "/", "Host: shop.example..\r\n", Status(400)),
    ("another case", "/", "Host: SHOP.example\r\n", Served),
    ("another host", "/", "Host: evil.example\r\n", Status(421)),
    ("a host below", "/", "Host: evil.shop.example\r\n", Status(421)),
    ("a host above", "/", "Host: example\r\n", Status(421)),
    ("a path in the host", "/", "Host: shop.example/evil\r\n", Status(400)),
    ("a space in the host", "/", "Host: shop.example evil.example\r\n", Status(400)),
    ("a list of hosts", "/", "Host: shop.example, evil.example\r\n", Status(400)),
    ("a percent in the host", "/", "Host: shop%2eexample\r\n", Status(400)),
    ("bytes in the host", "/", "Host: shop.example\u{e9}\r\n", Status(400)),
    ("an address", "/", "Host: 127.0.0.1\r\n", Status(421)),
    ("an address of version 6", "/", "Host: [::1]\r\n", Status(421)),
    ("a space before the colon", "/", "Host : evil.example\r\nHost: shop.example\r\n", Refused),
    ("a host on a folded line", "/", "X: y\r\n Host: evil.example\r\nHost: shop.example\r\n", Refused),
    ("a host named by Connection", "/", "Host: shop.example\r\nConnection: host\r\n", Served),
];

#[rustfmt::skip]
const TARGETS: &[Attack] = &[
    ("an absolute target", "https://shop.example/", PLAIN, Served),
    ("an absolute target, port", "https://shop.example:443/", PLAIN, Served),
    ("an absolute target, no host line", "https://shop.example/", "", Served),
    ("an absolute target of another host", "https://evil.example/", PLAIN, Status(400)),
    ("another host line", "https://shop.example/", "Host: evil.example\r\n", Status(400)),
    ("both another host", "https://evil.example/", "Host: evil.example\r\n", Status(421)),
    ("user information", "https://evil@shop.example/", PLAIN, Status(400)),
    ("another scheme", "http://shop.example/", PLAIN, Status(421)),
    ("no scheme of HTTP", "ftp://shop.example/", PLAIN, Status(421)),
    ("two slashes", "//evil.example/", PLAIN, Served),
    ("a backslash", "/\\evil.example", PLAIN, Harmless),
    ("a fragment", "/#evil", PLAIN, Harmless),
    ("line ends, encoded", "/%0d%0aX-Evil:%20evil", PLAIN, Served),
    ("slashes, encoded", "/..%2f..%2fevil", PLAIN, Served),
    ("dots", "/../evil", PLAIN, Served),
    ("a semicolon", "/;evil", PLAIN, Served),
    ("bytes", "/\u{e9}evil", PLAIN, Harmless),
    ("an asterisk", "*", PLAIN, Status(400)),
    ("an authority", "shop.example:443", PLAIN, Status(400)),
    ("a name without a slash", "evil", PLAIN, Refused),
    ("a query without a path", "https://shop.example?evil", PLAIN, Harmless),
    ("two spaces", " /", PLAIN, Refused),
    ("a space in it", "/ evil", PLAIN, Refused),
];

#[rustfmt::skip]
const HEADERS: &[Attack] = &[
    ("a folded line", "/", "Host: shop.example\r\nX: y\r\n evil\r\n", Refused),
    ("a carriage return", "/", "Host: shop.example\r\nX: y\revil\r\n", Refused),
    ("a NUL", "/", "Host: shop.example\r\nX: y\0evil\r\n", Refused),
    ("a name with a space", "/", "Host: shop.example\r\nX evil: y\r\n", Refused),
    ("no name", "/", "Host: shop.example\r\n: evil\r\n", Refused),
    ("no colon", "/", "Host: shop.example\r\nevil\r\n", Refused),
    ("a bare line feed", "/", "Host: shop.example\r\nX: y\nForwarded: host=evil\r\n", Harmless),
    ("two lengths", "/", "Host: shop.example\r\nContent-Length: 0\r\nContent-Length: 4\r\n", Refused),
    ("a list of lengths", "/", "Host: shop.example\r\nContent-Length: 0, 4\r\n", Refused),
    ("a length with a sign", "/", "Host: shop.example\r\nContent-Length: +0\r\n", Refused),
    ("a length below zero", "/", "Host: shop.example\r\nContent-Length: -1\r\n", Refused),
    ("a length in hexadecimal", "/", "Host: shop.example\r\nContent-Length: 0x0\r\n", Refused),
    ("no length", "/", "Host: shop.example\r\nContent-Length:\r\n", Refused),
    ("a length beyond 2^64", "/", "Host: shop.example\r\nContent-Length: 18446744073709551616\r\n", Refused),
    ("a coding", "/", "Host: shop.example\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n", Refused),
    ("an unknown coding", "/", "Host: shop.example\r\nTransfer-Encoding: evil\r\n", Refused),
    ("identity", "/", "Host: shop.example\r\nTransfer-Encoding: identity\r\n", Refused),
    ("chunked twice", "/", "Host: shop.example\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n", Refused),
    ("chunked in two lines", "/", "Host: shop.example\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", Refused),
    ("chunked with a parameter", "/", "Host: shop.example\r\nTransfer-Encoding: chunked;evil\r\n\r\n0\r\n", Refused),
    ("chunked after a tab", "/", "Host: shop.example\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n", Refused),
    ("a circle", "/", "Host: shop.example\r\nVia: 1.1 enroute, 1.1 enroute, 1.1 enroute, 1.1 enroute\r\nVia: 1.1 enroute, 1.1 enroute, 1.1 enroute, 1.1 enroute\r\n", Status(508)),
    ("another's Via", "/", "Host: shop.example\r\nVia: 1.1 evil\r\n", Harmless),
    ("a range", "/", "Host: shop.example\r\nRange: bytes=0-0\r\n", Harmless),
    ("a condition", "/", "Host: shop.example\r\nIf-None-Match: *\r\n", Harmless),
    ("another condition", "/", "Host: shop.example\r\nIf-Match: \"evil\"\r\n", Harmless),
    ("an expectation", "/", "Host: shop.example\r\nExpect: evil\r\n", Served),
];

/// Headers that origins trust, none of which a client may set.
const CLAIMS: &[&str] = &[
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-Proto",
    "X-Forwarded-For",
    "X-Forwarded-Scheme",
    "X-Forwarded-Server",
    "X-Forwarded-Ssl",
    "X-Forwarded-By",
    "Forwarded",
    "X-Original-URL",
    "X-Original-Host",
    "X-Rewrite-URL",
    "X-Host",
    "X-HTTP-Host-Override",
    "X-Real-IP",
    "X-Client-IP",
    "True-Client-IP",
    "X-HTTP-Method-Override",
    "X-HTTP-Method",
    "X-Method-Override",
    "X_Forwarded_Host",
    "X-Forwarded_Host",
    "X.Forwarded.Host",
    "Proxy",
    "HTTP2-Settings",
    "X-Remote-User",
    "SSL-Client-Verify",
];

/// Returns the request as it was received, as a publicly cacheable response.
fn echo(_: &str, _: u64, asked: &Asked) -> (u16, String) {
    let saw = if asked.says("evil") { "evil" } else { "nothing" };
    (200, format!("cache-control: max-age=600\nx-saw: {saw}\nx-host: {}", asked.header("host")))
}

/// Sends a request on a new connection; `None` if that is closed without a response.
fn send(edge: &Edge<'_>, request: &str) -> Option<u16> {
    let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
    client.send(request.as_bytes());
    client.answer(false).map(|answer| answer.status)
}

/// Checks that the next client gets the usual response for the same target.
fn check_next(edge: &Edge<'_>, origin: &Origin, name: &str, path: &str) {
    let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
    let next = client.ask("GET", path, "Host: shop.example");
    assert_eq!((next.status, next.header("x-saw")), (200, "nothing"), "after {name}: {next:?}");
    assert_eq!(next.header("x-host"), SHOP, "after {name}: {next:?}");
    assert!(next.body.starts_with("answer"), "after {name}: {next:?}");
    for asked in origin.asked(path) {
        assert_eq!(asked.header("host"), SHOP, "{name}: {asked:?}");
    }
}

fn run(attacks: &[Attack]) {
    with_edge("", "", echo, |edge, origin| {
        let mut failed = Vec::new();
        for (name, target, lines, fate) in attacks {
            let told = send(edge, &format!("GET {target} HTTP/1.1\r\n{lines}\r\n"));
            let as_expected = match fate {
                Served => told == Some(200),
                Status(status) => told == Some(*status),
                Refused => told.is_none_or(|status| status >= 400),
                Harmless => true,
            };
            if !as_expected {
                failed.push(format!("{name}: {told:?}, not {fate:?}"));
            }
            check_next(edge, origin, name, "/");
        }
        assert!(failed.is_empty(), "{failed:#?}");
        let asked = origin.asked("/");
        assert!(asked.iter().all(|asked| asked.header("host") == SHOP), "{asked:?}");
    });
}

#[test]
fn by_the_host() {
    run(HOSTS);
}

#[test]
fn by_the_target() {
    run(TARGETS);
}

#[test]
fn by_headers_and_lengths() {
    run(HEADERS);
}

#[test]
fn by_what_proxies_say_of_clients() {
    with_edge("", "", echo, |edge, origin| {
        for (number, name) in CLAIMS.iter().enumerate() {
            let path = format!("/{number}");
            let told = send(
                edge,
                &format!(
                    "GET {path} HTTP/1.1\r\n{PLAIN}{name}: evil.example\r\nConnection: x\r\n\r\n"
                ),
            );
            assert_eq!(told, Some(200), "{name}");
            check_next(edge, origin, name, &path);
        }
    });
}

#[test]
fn by_the_method() {
    with_edge("", "", echo, |edge, origin| {
        for (method, fate) in [("CONNECT", 405), ("TRACE", 405)] {
            let target = if method == "CONNECT" { "shop.example:443" } else { "/" };
            let told = send(edge, &format!("{method} {target} HTTP/1.1\r\n{PLAIN}\r\n"));
            assert_eq!(told, Some(fate), "{method}");
            check_next(edge, origin, method, "/");
        }
        for version in ["HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "HTTQ/1.1"] {
            let told =
                send(edge, &format!("GET / {version}\r\nTransfer-Encoding: chunked\r\n\r\n"));
            assert!(told.is_none_or(|status| status >= 400), "{version}: {told:?}");
            check_next(edge, origin, version, "/");
        }
        // A body, which is not part of the cache key: the response must not be shared.
        let fat = "Content-Length: 4\r\n\r\nevil";
        assert_eq!(send(edge, &format!("GET /fat HTTP/1.1\r\n{PLAIN}{fat}")), Some(200));
        check_next(edge, origin, "a body of a GET", "/fat");
        let long = "a".repeat(100_000);
        assert!(
            send(edge, &format!("GET /{long} HTTP/1.1\r\n{PLAIN}\r\n")).is_none_or(|s| s >= 400)
        );
        let trailers = "Transfer-Encoding: chunked\r\nTrailer: Forwarded\r\n\r\n0\r\nForwarded: host=evil\r\n\r\n";
        assert_eq!(send(edge, &format!("POST /trailer HTTP/1.1\r\n{PLAIN}{trailers}")), Some(200));
        assert!(!origin.asked("/trailer")[0].says("evil"));
    });
}

/// Name, fields, expected handling. `:method: GET`, `:scheme: https`, `:path: /N` and `:authority:
/// shop.example` are added unless the fields contain them; an empty value omits one.
type Fields = (&'static str, &'static [(&'static str, &'static str)], Fate);

#[rustfmt::skip]
const HTTP2: &[Fields] = &[
    ("nothing", &[], Served),
    ("another authority", &[(":authority", "evil.example")], Refused),
    ("another host beside the authority", &[("host", "evil.example")], Refused),
    ("the same host beside it", &[("host", "shop.example")], Served),
    ("a host for the authority", &[(":authority", ""), ("host", "shop.example")], Served),
    ("two hosts for it", &[(":authority", ""), ("host", "shop.example"), ("host", "evil.example")], Refused),
    ("neither", &[(":authority", "")], Refused),
    ("user information", &[(":authority", "shop.example:@evil.example")], Refused),
    ("another port", &[(":authority", "shop.example:1")], Refused),
    ("two authorities", &[(":authority", "shop.example"), (":authority", "evil.example")], Refused),
    ("another scheme", &[(":scheme", "http")], Refused),
    ("no scheme", &[(":scheme", "")], Refused),
    ("no path", &[(":path", "")], Refused),
    ("an absolute path", &[(":path", "https://evil.example/")], Refused),
    ("a path without a slash", &[(":path", "evil")], Refused),
    ("a space in the path", &[(":path", "/ HTTP/1.1")], Refused),
    ("a line end in the path", &[(":path", "/\r\nForwarded: host=evil")], Refused),
    ("an asterisk", &[(":path", "*")], Refused),
    ("a space in the method", &[(":method", "GET /evil")], Refused),
    ("a line end in the method", &[(":method", "GET\r\n")], Refused),
    ("no method", &[(":method", "")], Refused),
    ("CONNECT", &[(":method", "CONNECT")], Refused),
    ("an unknown pseudo-header", &[(":evil", "evil")], Refused),
    ("a line end in a value", &[("x", "y\r\nForwarded: host=evil")], Refused),
    ("a line feed in a value", &[("x", "y\nForwarded: host=evil")], Refused),
    ("a carriage return in a value", &[("x", "y\revil")], Refused),
    ("a NUL in a value", &[("x", "y\0evil")], Refused),
    ("a line end in a name", &[("x: y\r\nforwarded", "host=evil")], Refused),
    ("a colon in a name", &[("x:forwarded", "evil")], Refused),
    ("a space in a name", &[("x evil", "y")], Refused),
    ("upper case in a name", &[("X-Evil", "y")], Refused),
    ("connection", &[("connection", "close")], Refused),
    ("keep-alive", &[("keep-alive", "timeout=9")], Refused),
    ("proxy-connection", &[("proxy-connection", "close")], Refused),
    ("upgrade", &[("upgrade", "h2c")], Refused),
    ("transfer-encoding", &[("transfer-encoding", "chunked")], Refused),
    ("te: trailers", &[("te", "trailers")], Served),
    ("te: gzip", &[("te", "gzip")], Refused),
    ("a length without a body", &[("content-length", "5")], Refused),
    ("a length that is none", &[("content-length", "evil")], Refused),
    ("forwarded", &[("forwarded", "host=evil")], Served),
    ("x-forwarded-host", &[("x-forwarded-host", "evil.example")], Served),
    ("an underscore", &[("x_forwarded_host", "evil.example")], Served),
    ("another method by a header", &[("x-http-method-override", "evil")], Served),
];

#[test]
fn by_http2() {
    with_edge("", "", echo, |edge, origin| {
        let mut failed = Vec::new();
        for (number, (name, fields, fate)) in HTTP2.iter().enumerate() {
            let path = format!("/{number}");
            let standard =
                [(":method", "GET"), (":scheme", "https"), (":path", &*path), (":authority", SHOP)];
            let said = |name: &str| fields.iter().any(|(known, _)| *known == name);
            let mut block: Vec<u8> = Vec::new();
            for (name, value) in standard.iter().filter(|(name, _)| !said(name)) {
                block.extend(field(name, value));
            }
            for (name, value) in *fields {
                if !(name.starts_with(':') && value.is_empty()) {
                    block.extend(field(name, value));
                }
            }
            let told = attacks::ask_http2(edge.address, SHOP, &block);
            let as_expected = match fate {
                Served => told == Some(200),
                _ => told != Some(200),
            };
            if !as_expected {
                failed.push(format!("{name}: {told:?}, not {fate:?}"));
            }
            if matches!(fate, Refused) {
                assert!(origin.asked(&path).is_empty(), "{name}: it reached the origin");
            }
            check_next(edge, origin, name, &path);
        }
        assert!(failed.is_empty(), "{failed:#?}");
    });
}

#[test]
fn many_cookies_of_http2_are_one_line() {
    with_edge("", "", echo, |edge, origin| {
        let mut block = [field(":method", "GET"), field(":scheme", "https")].concat();
        block.extend([field(":path", "/"), field(":authority", SHOP)].concat());
        let cookies: Vec<String> = (0..200).map(|number| format!("c{number}=1")).collect();
        for cookie in &cookies {
            block.extend(field("cookie", cookie));
        }
        assert_eq!(attacks::ask_http2(edge.address, SHOP, &block), Some(200));
        assert_eq!(origin.asked("/")[0].header("cookie"), cookies.join("; "));
    });
}
