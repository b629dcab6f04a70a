//! HTTP/2 uploads are accounted for while their frames are buffered: from the first frame on, and
//! not after they were refused, whatever else the connection sends.
use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::SocketAddr,
};

use crate::support::{
    attacks::{Http2, field},
    edge::Edge,
    process::{at_once, serve_each, until},
    tls::Tls,
    workshop::workshop,
};

const SHOP: &str = "shop.example";
const KIB: u64 = 1 << 10;
const RST_STREAM: u8 = 3;

fn with_edge(limits: &str, test: impl FnOnce(&Edge<'_>)) {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let site = workshop.site(SHOP, origin());
    test(&workshop.start(&format!("[edge.limits]\n{limits}"), &site));
}

/// An origin that reads everything and never responds.
fn origin() -> SocketAddr {
    serve_each(|mut client| {
        let mut bytes = [0; 4096];
        while client.read(&mut bytes).is_ok_and(|read| read > 0) {}
        let _ = client.flush();
    })
}

fn post(stream: u32, length: u64) -> Vec<u8> {
    let target = [field(":path", "/"), field(":authority", SHOP)].concat();
    let said = field("content-length", &length.to_string());
    let block = [field(":method", "POST"), field(":scheme", "https"), target, said].concat();
    Http2::begun(stream, &block, false)
}

#[test]
fn refused_uploads_next_to_a_long_one_are_not_counted() {
    with_edge("request_bytes_max = \"1MiB\"\norigin_timeout = \"10min\"\n", |edge| {
        let mut client = Http2::connect(edge.address, SHOP, &[]);
        client.0.send(&post(1, KIB * KIB));
        let refused: BTreeSet<u32> = (1..=20).map(|number| 2 * number + 1).collect();
        for &stream in &refused {
            client.0.send(&[post(stream, 9_000_000), Http2::data(1, b"x")].concat());
        }
        let mut still = refused.clone();
        while !still.is_empty() {
            let (kind, _, stream, _) = client.0.frame().expect("the connection stays open");
            if kind == RST_STREAM {
                still.remove(&stream);
            }
        }
        // In flight before the client knew.
        for &stream in &refused {
            for _ in 0..4 {
                let late = Http2::data(stream, &[b'x'; 2_000]);
                client.0.send(&[late, Http2::data(1, b"x")].concat());
            }
        }
        client.is_heard();
        assert!(edge.counted("on_its_way_bytes") > 0, "the long upload is under way");
        until("the others are not counted", || edge.counted("on_its_way_bytes") < 160 * KIB);
    });
}

#[test]
fn uploads_that_come_with_their_requests_are_counted_while_they_wait() {
    let limits = "origin_connections_max = 1\norigin_timeout = \"10min\"\n";
    with_edge(limits, |edge| {
        let mut first = Tls::connect(edge.address, SHOP, "http/1.1");
        first.send(format!("GET / HTTP/1.1\r\nHost: {SHOP}\r\n\r\n").as_bytes());
        until("the origin is asked", || edge.counted("requests") == 1);
        let before = edge.counted("on_its_way_bytes");
        const CLIENTS: u64 = 10;
        // Within the initial window of a connection.
        const BYTES: u64 = 48_000;
        let _open = at_once(CLIENTS as usize, |_| {
            let mut client = Http2::connect(edge.address, SHOP, &[]);
            let data = vec![Http2::data(1, &[b'x'; 16_000]); BYTES as usize / 16_000].concat();
            client.0.send(&[post(1, BYTES), data].concat());
            client
        });
        // The room for forwarded parts of a body is separate from that for buffered parts.
        until("all are counted", || {
            edge.counted("on_its_way_bytes") - before >= CLIENTS * 2 * BYTES
        });
    });
}
