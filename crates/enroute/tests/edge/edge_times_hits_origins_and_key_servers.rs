//! The latency of every hit, of every request to an origin and of every use of a key at a key
//! server is counted once.

use crate::support::{
    edge::{Edge, Origin, with_edge},
    keyserver::Site,
    metrics::{Metrics, admin_of},
};

/// Hits, requests to origins, requests to key servers.
fn counts(metrics: &Metrics) -> [u64; 3] {
    ["hit", "origin", "key_server"]
        .map(|name| metrics.count(&format!("enroute_edge_{name}_latency_seconds"), ""))
}

fn scrape(edge: &Edge<'_>) -> Metrics {
    Metrics::once(edge.enroute.admin_address(), |_| true)
}

#[test]
fn hits_and_requests_to_the_origin_are_counted_once() {
    let answer = |path: &str, _, _: &_| match path {
        "/kept" => (200, "cache-control: max-age=600".to_owned()),
        _ => (200, "cache-control: no-store".to_owned()),
    };
    with_edge("", "", answer, |edge, origin| {
        assert_eq!(counts(&scrape(edge)), [0; 3]);
        for _ in 0..5 {
            edge.curl("shop.example", "/kept", &[]);
        }
        for _ in 0..3 {
            edge.curl("shop.example", "/other", &[]);
        }
        edge.curl("shop.example", "/written", &["--data", "x"]);
        assert_eq!(edge.counted("hits"), 4);
        let asked = ["/kept", "/other", "/written"].map(|path| origin.asked(path).len());
        assert_eq!(asked, [1, 3, 1]);
        // The key is in a file.
        assert_eq!(counts(&scrape(edge)), [4, 5, 0]);
        let stats = edge.statistics();
        assert_eq!(stats["edge"]["origin_latency"]["count"], 5, "{stats:#}");
    });
}

#[test]
fn each_full_handshake_asks_the_key_server_once() {
    let Some(site) = Site::create() else { return };
    site.certificate("shop.example", "ec");
    site.import("shop.example", &[]);
    let key_server = site.serve(&["--admin", "127.0.0.1:0"]);
    let origin = Origin::start(|_| (200, "cache-control: max-age=600".into(), "content".into()));
    let key = format!("keyserver:{}", key_server.address);
    let served = site.site_with_key("shop.example", origin.address, &key);
    let edge = site.start(&site.identity("9s"), &served);
    for _ in 0..6 {
        assert_eq!(edge.curl("shop.example", "/", &["--tlsv1.3"]).body, "content");
    }
    assert_eq!(counts(&scrape(&edge)), [5, 1, 6]);
    let signed = Metrics::once(admin_of(key_server.process()), |_| true);
    let method = "method=\"CertificateVerify\"";
    assert_eq!(signed.count("enroute_keyserver_operation_latency_seconds", method), 6);
}
