//! A response without a body states the length of the body of a `GET`, or none (RFC 9110 §8.6):
//! `HEAD`, 304 and 412, from storage and from an origin that states no length.
use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
};

use crate::support::{process::serve_each, workshop::workshop};

const SHOP: &str = "shop.example";

#[test]
fn its_length_is_that_of_the_page_or_is_not_stated() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let edge = workshop.start("", &workshop.site(SHOP, origin()));
    for protocol in ["--http1.1", "--http2"] {
        let ask = |path: &str, options: &[&str]| {
            let answer = edge.curl(SHOP, path, &[&[protocol], options].concat());
            (answer.status, answer.header("content-length").to_owned())
        };
        let told = |status: u16, length: &str| (status, length.to_owned());
        assert_eq!(
            ask("/not-stored", &["-I"]),
            told(200, ""),
            "{protocol}: its origin states none"
        );
        assert_eq!(ask("/page", &[]), told(200, "4"));
        assert_eq!(ask("/page", &["-I"]), told(200, "4"));
        assert_eq!(ask("/page", &["-I", "-H", "Range: bytes=0-1"]), told(200, "4"), "{protocol}");
        let seen = ["-I", "-H", "If-None-Match: \"a\""];
        assert_eq!(ask("/page", &seen), told(304, ""), "{protocol}");
        assert_eq!(ask("/page", &seen[1..]), told(304, ""), "{protocol}");
        // An HTTP/2 client refuses a body of another length.
        let (status, length) = ask("/page", &["-H", "If-Match: \"b\""]);
        assert!(status == 412 && ["", "0"].contains(&&*length), "{protocol}: {length}");
        let (status, length) = ask("/page", &["-I", "-H", "Host: evil.example"]);
        assert!(status == 421 && length.parse().is_ok_and(|length: u64| length > 0), "{length:?}");
    }
}

/// An origin whose page may be stored and has no stated length.
fn origin() -> SocketAddr {
    serve_each(serve)
}

fn serve(mut client: TcpStream) -> Option<()> {
    let mut lines = BufReader::new(client.try_clone().ok()?).lines();
    let request = lines.next()?.ok()?;
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let body = if request.starts_with("HEAD") { "" } else { "4\r\npage\r\n0\r\n\r\n" };
    let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\netag: \"a\"\r\nconnection: close";
    write!(client, "{head}\r\ntransfer-encoding: chunked\r\n\r\n{body}").ok()
}
