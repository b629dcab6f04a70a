//! Clients that send requests and do not read the responses, or that keep a connection open without
//! a request, are disconnected, whatever else they send.
use crate::support::{
    attacks::{Http2, field},
    edge::{Edge, Origin},
    process::until,
    tls::Tls,
    workshop::workshop,
};

const SHOP: &str = "shop.example";
const LIMITS: &str = "[edge.limits]\nidle_timeout = \"1s\"\n";
/// More than the socket buffers hold.
const BYTES: usize = 48 << 20;

fn with_long_page(test: impl FnOnce(&Edge<'_>)) {
    let Some(workshop) = workshop() else { return };
    workshop.certificate(SHOP, "ec");
    let origin =
        Origin::start(|_| (200, "cache-control: max-age=600".to_owned(), "x".repeat(BYTES)));
    let content = "[edge.content]\nmemory = \"256MiB\"\n";
    let site = workshop.site(SHOP, origin.address) + "body_max = \"64MiB\"\n";
    test(&workshop.start(&(content.to_owned() + LIMITS), &site));
}

fn connections(edge: &Edge<'_>) -> u64 {
    edge.statistics()["edge"]["connections"].as_u64().expect("a number")
}

#[test]
fn a_client_that_reads_nothing() {
    with_long_page(|edge| {
        let mut client = Tls::connect(edge.address, SHOP, "http/1.1");
        client.send(b"GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n");
        until("it is answered", || edge.counted("fills") == 1);
        until("it is ended", || connections(edge) == 0);
    });
}

#[test]
fn a_stream_whose_window_stays_closed() {
    with_long_page(|edge| {
        // `SETTINGS_INITIAL_WINDOW_SIZE` of 0: the client accepts no byte of any body.
        let mut client = Http2::connect(edge.address, SHOP, &[0, 4, 0, 0, 0, 0]);
        client.ask(1, &request());
        // The client still reads, and answers every `PING`.
        until("it is ended", || !client.answers_a_frame() || connections(edge) == 0);
    });
}

#[test]
fn a_connection_that_asks_nothing() {
    with_long_page(|edge| {
        let mut client = Http2::connect(edge.address, SHOP, &[]);
        until("it is ended", || !client.answers_a_frame() || connections(edge) == 0);
    });
}

fn request() -> Vec<u8> {
    let target = [field(":path", "/"), field(":authority", SHOP)].concat();
    [field(":method", "GET"), field(":scheme", "https"), target].concat()
}
