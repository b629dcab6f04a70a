//! The latency of every request to the key server is counted once, by the method of its operation.

use wire::ski::Scheme;

use crate::support::{
    keyserver::{Site, exchange_request, premaster_request, request, runtime},
    metrics::{Metrics, admin_of},
};

#[test]
fn every_request_is_counted_once_by_its_method() {
    let Some(site) = Site::create() else { return };
    site.key("p256", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
    site.key("rsa2048", "-algorithm RSA -pkeyopt rsa_keygen_bits:2048");
    let (p256, rsa) = (site.import("p256", &[]), site.import("rsa2048", &[]));
    let server = site.serve(&["--admin", "127.0.0.1:0"]);
    let at = admin_of(server.process());
    let counts = |metrics: &Metrics| {
        ["CertificateVerify", "ECDHE", "RSA", "refused"].map(|method| {
            let label = format!("method=\"{method}\"");
            metrics.count("enroute_keyserver_operation_latency_seconds", &label)
        })
    };
    assert_eq!(counts(&Metrics::once(at, |_| true)), [0; 4]);

    let client = site.client(&server, 2);
    runtime().block_on(async {
        for _ in 0..12 {
            let signed = client.ask(&request(&p256, Scheme::EcdsaP256Sha256)).await;
            signed.expect("a signature");
        }
        for _ in 0..4 {
            let absent = request(&"ab".repeat(32), Scheme::EcdsaP256Sha256);
            client.ask(&absent).await.expect_err("no such key");
        }
    });
    let exchange = [&[1; 32][..], &[2; 32], &site.params()].concat();
    for _ in 0..3 {
        site.output(&server, &exchange_request(&p256, "SHA-256", &exchange));
    }
    for _ in 0..2 {
        assert_eq!(site.output(&server, &premaster_request(&rsa, &[1; 256])).len(), 48);
    }
    site.refusal(&server, "edge1.example", "no request");
    let metrics = Metrics::once(at, |_| true);
    assert_eq!(counts(&metrics), [12, 3, 2, 5]);
    // One line for each request, after the first.
    assert_eq!(metrics.value("enroute_keyserver_audit_lines"), 23.0);
    assert_eq!(metrics.value("enroute_keyserver_keys"), 2.0);
    assert_eq!(metrics.value("enroute_keyserver_key_misses_total"), 6.0);
}
