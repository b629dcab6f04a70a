//! The key server stops and restarts: sessions resume without it, new handshakes fail, then
//! recover.
use crate::support::{
    edge::Origin,
    keyserver::Site,
    process::{free_address, until},
};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";

#[test]
fn sessions_go_on_new_ones_are_told_and_recover() {
    let Some(site) = Site::create() else { return };
    site.certificate("shop.example", "ec");
    site.certificate("old.example", "rsa:2048");
    for name in ["shop.example", "old.example"] {
        site.import(name, &[]);
    }
    let place = free_address().to_string();
    let key_server = || site.serve(&["--listen", &place]);
    let running = key_server();
    let origin = Origin::start(|_| (200, "cache-control: max-age=60".into(), "content".into()));
    let key = format!("keyserver:{place}");
    let sites = site.site_with_key("shop.example", origin.address, &key)
        + &site.site_with_key("old.example", origin.address, &key)
        + "rsa_key_exchange = true\n";
    let edge = site.start(&site.identity("9s"), &sites);

    // Every use of the key, and a session of each TLS version.
    for (domain, options, expected) in [
        ("shop.example", "-tls1_3", "Peer signature type: ECDSA"),
        ("shop.example", "-tls1_2", "Cipher is ECDHE-ECDSA-"),
        ("old.example", "-tls1_3", "Peer signature type: RSA-PSS"),
        ("old.example", "-tls1_2", "Cipher is ECDHE-RSA-"),
        ("old.example", "-tls1_2 -cipher AES128-GCM-SHA256", "Cipher is AES128-GCM-SHA256"),
    ] {
        let said = edge.openssl(domain, &format!("{options} -verify_return_error"), "");
        assert!(said.contains(expected), "{domain} {options}: {said}");
        assert!(!said.contains("alert"), "{domain} {options}: {said}");
    }
    for version in ["tls1_2", "tls1_3"] {
        let said = edge.openssl(
            "shop.example",
            &format!("-{version} -ign_eof -sess_out {version}"),
            REQUEST,
        );
        assert!(said.contains("content"), "{said}");
    }
    let audited = |log: &str| log.matches("\"outcome\":\"done\"").count();
    let log = || String::from_utf8(site.read("audit.log")).expect("an audit log");
    let uses = audited(&log());
    assert_eq!(uses, 7, "one use of a key for each full handshake:\n{}", log());

    drop(running);
    for version in ["tls1_2", "tls1_3"] {
        let said = edge.openssl(
            "shop.example",
            &format!("-{version} -ign_eof -sess_in {version}"),
            REQUEST,
        );
        assert!(said.contains("Reused, ") && said.contains("content"), "{version}: {said}");
    }
    for options in ["-tls1_2", "-tls1_3", "-tls1_2 -cipher AES128-GCM-SHA256"] {
        let said = edge.openssl("old.example", options, "");
        assert!(said.contains("alert internal error"), "{options}: {said}");
    }
    let refused = edge.try_curl("shop.example", "/", &[]).expect_err("a new session");
    assert!(refused.contains("alert internal error"), "{refused}");
    until("four are counted", || edge.counted("handshakes_without_key") == 4);
    edge.enroute.stderr_line("the key server at");

    let running = key_server();
    assert_eq!(edge.curl("shop.example", "/", &[]).body, "content");
    assert_eq!(audited(&log()), uses + 1, "a resumed session uses no key:\n{}", log());
    drop(running);
}
