//! The edge with third-party clients: HTTP/1.1 and HTTP/2 by curl, TLS 1.2 and 1.3 by openssl,
//! several domains.
use std::{
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use crate::support::edge::{Asked, Origin, with_edge};
use crate::support::process::until;
use crate::support::workshop::{Workshop, workshop};

const REQUEST: &str = "GET /page HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";

fn origin() -> Origin {
    Origin::start(|asked| {
        let lines = "cache-control: max-age=600\netag: \"v1\"\ncontent-type: text/plain\nlink: <a>\nlink: <b>";
        (200, lines.to_owned(), format!("0123456789 of {}", asked.header("host")))
    })
}

fn certificates(workshop: &Workshop) {
    workshop.certificate("shop.example", "ec");
    workshop.certificate("old.example", "rsa:2048");
    workshop.certificate("new.example", "rsa:2048");
}

#[test]
fn http_by_curl() {
    let Some(workshop) = workshop() else { return };
    certificates(&workshop);
    let origin = origin();
    let sites = workshop.site("shop.example", origin.address)
        + &workshop.site("new.example", origin.address);
    let edge = workshop.start("", &sites);

    let first = edge.curl("shop.example", "/page", &["--http1.1"]);
    assert_eq!((first.status, first.cache()), (200, "fwd=miss; stored"), "{first:?}");
    assert!(first.head.starts_with("HTTP/1.1"), "{first:?}");
    // The port in the client's `Host` is not forwarded to the origin.
    let body = "0123456789 of shop.example".to_owned();
    assert_eq!(first.body, body);
    assert_eq!(first.head.matches("link: ").count(), 2, "both lines of a header: {first:?}");

    let second = edge.curl("shop.example", "/page", &["--http2"]);
    assert_eq!((second.status, second.cache(), &second.body), (200, "hit", &body));
    assert!(second.head.starts_with("HTTP/2"), "{}", second.head);

    for protocol in ["--http1.1", "--http2"] {
        let get =
            |options: &[&str]| edge.curl("shop.example", "/page", &[&[protocol], options].concat());
        let part = get(&["-r", "2-4"]);
        assert_eq!((part.status, &*part.body), (206, "234"), "{part:?}");
        assert_eq!(part.header("content-range"), format!("bytes 2-4/{}", body.len()));
        let none = get(&["-r", "1000-"]);
        assert_eq!((none.status, &*none.body), (416, ""), "{none:?}");
        let known = get(&["-H", "If-None-Match: \"v1\""]);
        assert_eq!((known.status, &*known.body), (304, ""), "{known:?}");
        let head = get(&["--head"]);
        assert_eq!(head.header("content-length"), body.len().to_string(), "{head:?}");
        let other = get(&["-H", "Host: new.example"]);
        assert_eq!(other.status, 421, "{other:?}");
        let posted = get(&["-d", "x=1"]);
        assert_eq!((posted.status, posted.cache()), (200, "fwd=method"), "{posted:?}");
        // The POST may have changed the resource.
        assert_eq!(get(&[]).cache(), "fwd=miss; stored");
    }
    let asked = origin.asked("/page");
    assert!(asked.iter().any(|asked| asked.method == "POST" && asked.body == "x=1"));
    let forwarded = asked.iter().all(|asked| {
        asked.header("x-forwarded-for") == "127.0.0.1"
            && asked.header("x-forwarded-proto") == "https"
            && asked.header("via") == "1.1 enroute"
    });
    assert!(forwarded, "{asked:?}");
    let claimed = ["-H", "X-Forwarded-For: 192.0.2.1", "-H", "X-Forwarded-Proto: http"];
    let cookies = ["--http2", "-H", "Cookie: a=1", "-H", "Cookie: b=2"];
    edge.curl("shop.example", "/c", &[&cookies[..], &claimed].concat());
    let asked = &origin.asked("/c")[0];
    assert_eq!(asked.header("cookie"), "a=1; b=2");
    // Headers in which a client states its own address are not trusted.
    assert_eq!(asked.header("x-forwarded-for"), "127.0.0.1");
    assert_eq!(asked.header("x-forwarded-proto"), "https");
    let long = format!("x: {}", "y".repeat(64 << 10));
    let refused = edge.try_curl("shop.example", "/long", &["--http2", "-H", &long]);
    assert!(!refused.is_ok_and(|answer| answer.status != 431) && origin.asked("/long").is_empty());
    let refused = edge.try_curl("shop.example", "/page", &["--http1.1", "-H", &long]);
    // The edge responds and closes; curl may still be sending then, and only report that it cannot
    // send or receive.
    match refused.map(|answer| answer.status) {
        Ok(status) => assert_eq!(status, 431),
        Err(said) => assert!(said.contains("(55)") || said.contains("(56)"), "{said}"),
    }
    assert!(edge.metrics().contains("\nenroute_edge_hits_total "), "{}", edge.metrics());
    assert!(edge.enroute.terminate().status.success());
}

/// hyper's own limit of 16 KiB is between these.
#[test]
fn headers_over_http2_are_as_long_as_the_limit_says() {
    let Some(workshop) = workshop() else { return };
    workshop.certificate("shop.example", "ec");
    let origin = origin();
    for (limit, length, status) in [("64KiB", 40 << 10, 200), ("4KiB", 6 << 10, 431)] {
        let limits = format!("[edge.limits]\nheader_bytes_max = \"{limit}\"\n");
        let edge = workshop.start(&limits, &workshop.site("shop.example", origin.address));
        let long = format!("x: {}", "y".repeat(length));
        let answer = edge.curl("shop.example", "/page", &["--http2", "-H", &long]);
        assert_eq!(answer.status, status, "{limit}: {answer:?}");
    }
}

#[test]
fn tls_by_openssl() {
    let Some(workshop) = workshop() else { return };
    certificates(&workshop);
    let origin = origin();
    let sites = workshop.site("shop.example", origin.address)
        + &workshop.site("new.example", origin.address)
        + &workshop.site("old.example", origin.address)
        + "rsa_key_exchange = true\n";
    let edge = workshop.start("", &sites);
    // Domain, options, expected output.
    let table = [
        ("shop.example", "-tls1_3", "New, TLSv1.3, Cipher is TLS_"),
        ("shop.example", "-tls1_2", "New, TLSv1.2, Cipher is ECDHE-ECDSA-"),
        ("new.example", "-tls1_3", "Peer signature type: RSA-PSS"),
        ("new.example", "-tls1_2", "New, TLSv1.2, Cipher is ECDHE-RSA-"),
        ("shop.example", "-tls1_3", "Verify return code: 0 (ok)"),
        ("new.example", "-tls1_2", "Verify return code: 0 (ok)"),
        ("old.example", "-tls1_2 -cipher AES128-GCM-SHA256", "New, TLSv1.2, Cipher is AES128-GCM"),
        ("new.example", "-tls1_2 -cipher AES128-GCM-SHA256", "alert handshake failure"),
        ("shop.example", "-tls1_1 -cipher ALL:@SECLEVEL=0", "alert protocol version"),
        ("shop.example", "-alpn h2", "ALPN protocol: h2"),
        ("shop.example", "-alpn http/1.1", "ALPN protocol: http/1.1"),
        ("shop.example", "-alpn ftp", "alert no application protocol"),
    ];
    for (domain, options, expected) in table {
        let said = edge.openssl(domain, options, "");
        assert!(said.contains(expected), "{domain} {options}: no {expected:?} in\n{said}");
    }
    workshop.certificate("unknown.example", "ec");
    let said = edge.openssl("unknown.example", "", "");
    assert!(said.contains("unrecognized name"), "{said}");
}

#[test]
fn a_session_goes_on_but_not_at_another_site() {
    let Some(workshop) = workshop() else { return };
    // The names differ in their first label, and are long, as two names of one owner may be.
    let names = ["shop", "new"].map(|label| format!("{label}.whoever-owns-both-names.example"));
    let origin = origin();
    let site = |name: &String| {
        workshop.certificate(name, "ec");
        workshop.site(name, origin.address)
    };
    let edge = workshop.start("", &names.iter().map(site).collect::<String>());
    let [shop, new] = &names;
    for version in ["-tls1_2", "-tls1_3"] {
        // The request gives the TLS 1.3 ticket time to arrive.
        let quiet = format!("{version} -ign_eof -sess_out session");
        let first = edge.openssl(shop, &quiet, &REQUEST.replace("shop.example", shop));
        assert!(first.contains("0123456789"), "{first}");
        let before = (edge.counted("handshakes_full"), edge.counted("handshakes_resumed"));
        let again = edge.openssl(shop, &format!("{version} -sess_in session"), "");
        assert!(again.contains("Reused, "), "{version}: {again}");
        let other = edge.openssl(new, &format!("{version} -sess_in session"), "");
        assert!(other.contains("New, "), "{version}, another site: {other}");
        // The last message of a handshake is the client's, so the client may be ahead of the edge's
        // count.
        until(version, || {
            let after = (edge.counted("handshakes_full"), edge.counted("handshakes_resumed"));
            after == (before.0 + 1, before.1 + 1)
        });
    }
}

#[test]
fn a_request_under_way_is_answered_before_the_end() {
    let go = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&go);
    let answer = move |_: &str, _: u64, _: &Asked| {
        until("the end is asked for", || gate.load(SeqCst));
        (200, "cache-control: no-store".to_owned())
    };
    with_edge("", "", answer, |edge, origin| {
        let protocols = ["--http1.1", "--http2"];
        thread::scope(|scope| {
            let clients = protocols.map(|protocol| {
                scope.spawn(move || edge.curl("shop.example", &format!("/{protocol}"), &[protocol]))
            });
            let asks = |protocol: &&str| origin.asked(&format!("/{protocol}")).len() == 1;
            until("both are asked", || protocols.iter().all(asks));
            edge.enroute.process().signal("TERM");
            until("further connections are refused", || TcpStream::connect(edge.address).is_err());
            go.store(true, SeqCst);
            for client in clients {
                let answer = client.join().expect("no panic");
                assert_eq!(answer.status, 200, "{answer:?}");
                assert!(answer.body.starts_with("answer"), "{answer:?}");
            }
        });
        until("it ends", || edge.enroute.process().has_ended());
    });
}
