//! Certificates are renewed every few weeks, sites are added and removed: on SIGHUP, edge and key
//! server read them again. New handshakes use the new ones, open connections continue, and a
//! mistake in one file changes nothing.
use std::{
    net::SocketAddr,
    process::Command,
    sync::{Condvar, Mutex},
    thread,
};

use crate::support::{
    edge::{Asked, Edge, Origin, config},
    keyserver::{EVERYTHING, Site, verify_request},
    process::{Process, until},
    workshop::{Workshop, workshop},
};

const SHOP: &str = "shop.example";
const OTHER: &str = "other.example";
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";

/// Whether `/slow` is answered.
static MAY_ANSWER: Mutex<bool> = Mutex::new(false);
static MAY_ANSWER_NOW: Condvar = Condvar::new();

fn origin() -> Origin {
    let answer = |asked: &Asked| {
        if asked.path.starts_with("/slow") {
            let may = MAY_ANSWER.lock().expect("no test panicked here");
            drop(MAY_ANSWER_NOW.wait_while(may, |may| !*may));
        }
        (200, "cache-control: no-store".into(), "content".into())
    };
    Origin::start(answer)
}

/// Sends SIGHUP; returns the log line with its result.
fn hang_up(process: &Process) -> String {
    let said = || {
        let text = process.stderr();
        text.lines().filter(|line| line.contains("SIGHUP")).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = said().len();
    process.signal("HUP");
    until("it says what SIGHUP came to", || said().len() > before);
    said().swap_remove(before)
}

fn renew(process: &Process) {
    let said = hang_up(process);
    assert!(said.contains("reloaded"), "{said}");
}

/// The serial number in `NAME.pem`.
fn on_disk(workshop: &Workshop, name: &str) -> String {
    workshop.sh(&format!("openssl x509 -in {name}.pem -noout -serial"))
}

/// The serial number that a client receives.
fn shown(workshop: &Workshop, address: SocketAddr, options: &str) -> String {
    workshop.sh(&format!(
        "openssl s_client -connect {address} {options} </dev/null >shown.pem 2>said || cat said"
    ));
    on_disk(workshop, "shown")
}

fn served(workshop: &Workshop, edge: &Edge<'_>, domain: &str) -> String {
    shown(workshop, edge.address, &format!("-servername {domain}"))
}

#[test]
fn new_handshakes_use_it_and_the_rest_goes_on() {
    let Some(workshop) = workshop() else { return };
    let origin = origin();
    let site = |name| {
        workshop.certificate(name, "ec");
        workshop.site(name, origin.address)
    };
    let edge = workshop.start("", &[SHOP, OTHER].map(site).concat());
    for version in ["tls1_2", "tls1_3"] {
        let options = format!("-{version} -ign_eof -sess_out {version}");
        let said = edge.openssl(SHOP, &options, REQUEST);
        assert!(said.contains("content"), "{said}");
    }
    let (before, other) = (served(&workshop, &edge, SHOP), served(&workshop, &edge, OTHER));
    assert_eq!(before, on_disk(&workshop, SHOP));

    thread::scope(|scope| {
        // One request before the renewal, answered after it, then another on the same connection.
        let open = |protocol: &'static str| {
            let edge = &edge;
            let port = edge.address.port();
            let slow = format!("/slow{protocol}");
            let first = format!("https://{SHOP}:{port}{slow}");
            let fetched = scope.spawn(move || {
                edge.curl(SHOP, "/then", &[protocol, "-w", "<%{num_connects}>", &first])
            });
            until("the origin is asked", || !origin.asked(&slow).is_empty());
            fetched
        };
        let open = ["--http1.1", "--http2"].map(open);
        workshop.certificate(SHOP, "ec");
        renew(edge.enroute.process());
        *MAY_ANSWER.lock().expect("no test panicked here") = true;
        MAY_ANSWER_NOW.notify_all();
        for open in open {
            let answer = open.join().expect("both are answered");
            let said = format!("{}\n{}", answer.head, answer.body);
            assert_eq!(said.matches(" 200").count(), 2, "{said}");
            assert!(said.contains("<1>") && said.contains("<0>"), "not one connection: {said}");
        }
    });

    let after = served(&workshop, &edge, SHOP);
    assert_eq!(after, on_disk(&workshop, SHOP));
    assert_ne!(after, before);
    assert_eq!(served(&workshop, &edge, OTHER), other);
    // The new certificate has another key, too; curl trusts only the certificate on disk.
    assert_eq!(edge.curl(SHOP, "/", &[]).body, "content");
    for version in ["tls1_2", "tls1_3"] {
        let said = edge.openssl(SHOP, &format!("-{version} -ign_eof -sess_in {version}"), REQUEST);
        assert!(said.contains("Reused, ") && said.contains("content"), "{version}: {said}");
    }
    assert!(edge.enroute.terminate().status.success());
}

#[test]
fn a_mistake_in_one_file_changes_nothing() {
    let Some(workshop) = workshop() else { return };
    let origin = origin();
    let site = |name| {
        workshop.certificate(name, "ec");
        workshop.site(name, origin.address)
    };
    let edge = workshop.start("", &[OTHER, SHOP].map(site).concat());
    let before = [SHOP, OTHER].map(|name| served(&workshop, &edge, name));
    let counted = || edge.metrics().lines().filter(|line| line.contains("not_after")).count();
    assert_eq!(counted(), 4);
    // The other certificate is valid, and is not loaded as long as this one is not.
    workshop.certificate(OTHER, "ec");
    for (mistake, file, why) in [
        ("rm shop.example.pem", "shop.example.pem", "cannot read"),
        ("echo x >shop.example.pem", "shop.example.pem", "expected a certificate in PEM"),
        ("cp other.example.key shop.example.key", "shop.example.key", "does not belong to"),
        ("echo x >shop.example.key", "shop.example.key", "expected a private key in PEM"),
        ("rm shop.example.key", "shop.example.key", "cannot read"),
        (
            "for of in pem key; do cp other.example.$of shop.example.$of; done",
            "shop.example.pem",
            "valid for shop.example, found: other.example",
        ),
    ] {
        workshop.certificate(SHOP, "ec");
        workshop.sh(mistake);
        let said = hang_up(edge.enroute.process());
        assert!(said.contains("ERROR") && said.contains("SIGHUP: reload failed"), "{said}");
        // The position in the configuration file that names it.
        for part in ["enroute.toml:", file, why] {
            assert!(said.contains(part), "{mistake}: no {part:?} in {said}");
        }
        assert_eq!([SHOP, OTHER].map(|name| served(&workshop, &edge, name)), before, "{mistake}");
        assert_eq!(counted(), 4);
    }
    workshop.certificate(SHOP, "ec");
    renew(edge.enroute.process());
    for name in [SHOP, OTHER] {
        assert_eq!(served(&workshop, &edge, name), on_disk(&workshop, name));
        assert_eq!(edge.curl(name, "/", &[]).body, "content");
    }
    // A reload and the startup apply the same checks.
    workshop.sh("for of in pem key; do cp other.example.$of shop.example.$of; done");
    let shop = workshop.site(SHOP, origin.address);
    workshop.write("edge.toml", &format!("[edge]\nlisten = \"127.0.0.1:0\"\n{shop}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_enroute"));
    command.arg("edge").arg("--config").arg(workshop.path("edge.toml"));
    let ended = Process::start(&mut command).wait();
    assert!(!ended.status.success() && ended.stderr.contains("found: other.example"), "{ended:?}");
}

#[test]
fn a_key_server_and_its_edge_renew_theirs() {
    let Some(site) = Site::create() else { return };
    for authority in ["edges", "next"] {
        site.certificate(authority, "ec");
    }
    site.signed("edge1.example", "edges");
    site.certificate(SHOP, "ec");
    site.import(SHOP, &[]);
    let server = site.serve(&["--edge-authorities", "edges.pem"]);
    let origin = origin();
    let key = format!("keyserver:{}", server.address);
    let options = site.identity("9s") + "connections = 1\n";
    let edge = site.start(&options, &site.site_with_key(SHOP, origin.address, &key));
    let is_served = || edge.curl(SHOP, "/", &[]).body == "content";
    let connected = || server.process().stderr().matches("connected edge=").count();
    let identity = "-cert edge1.example.pem -key edge1.example.key";
    let shown_to_edge = || shown(&site, server.address, identity);
    assert!(is_served());
    let before = shown_to_edge();
    until("edge and openssl are counted", || connected() == 2);

    // A mistake: the certificate of another key. The policy is valid, and is not loaded either.
    site.sh("cp localhost.key kept.key; cp edge1.example.key localhost.key");
    site.write("policy.toml", "edge = []\n");
    let said = hang_up(server.process());
    assert!(said.contains("nothing changed: the certificate localhost.pem and the key"), "{said}");
    assert_eq!(shown_to_edge(), before);
    assert!(is_served());

    // Renewed; the edge keeps its connection.
    site.write("policy.toml", EVERYTHING);
    site.signed("localhost", "ca");
    site.ends_in("localhost", "ca", 3 * 86_400);
    renew(server.process());
    let said = server.process().stderr();
    assert!(said.contains("the certificate of the key server ends in 2 days"), "{said}");
    assert_eq!(shown_to_edge(), on_disk(&site, "localhost"));
    assert_ne!(on_disk(&site, "localhost"), before);
    let connect = || {
        let options = format!("-tls1_2 -CAfile ca.pem {identity}");
        let command = format!("openssl s_client -connect {} {options}", server.address);
        site.sh(&format!("{command} </dev/null 2>&1 || true"))
    };
    for _ in 0..2 {
        // No session can be resumed, so each connection presents its certificate.
        let said = connect();
        assert!(said.contains("New, TLSv1.2") && said.contains("Session-ID: \n"), "{said}");
        assert!(!said.contains("session ticket:"), "{said}");
    }
    until("openssl is counted four times more", || connected() == 6);
    assert!(is_served() && is_served());
    assert_eq!(connected(), 6, "a new one of the edge");

    // Another authority signs edges from now on: open connections continue, new ones of the old
    // authority are rejected.
    site.sh("cp next.pem edges.pem");
    renew(server.process());
    assert!(is_served());
    let body = verify_request(&"0".repeat(64), "ed25519", &[1; 32]);
    let (_, status) = site.post(&server, "edge1.example", &body);
    assert_eq!(status, 0, "an edge of the authority before");
    let said = connect();
    assert!(said.contains("alert"), "an edge of the authority before was accepted: {said}");

    renew_the_edge_s_own(&site, &edge);
    assert!(is_served());
    assert_eq!(served(&site, &edge, SHOP), on_disk(&site, SHOP));
    assert_eq!(connected(), 7);
}

/// The edge's own certificate is replaced by one of the other authority, and a site's as well,
/// after a mistake.
fn renew_the_edge_s_own(site: &Site, edge: &Edge<'_>) {
    site.signed("edge1.example", "next");
    site.sh("cp edge1.example.key new.key; cp kept.key edge1.example.key");
    let said = hang_up(edge.enroute.process());
    assert!(said.contains("SIGHUP: reload failed") && said.contains("edge1.example.pem"), "{said}");
    assert_eq!(edge.curl(SHOP, "/", &[]).body, "content");
    site.sh("cp new.key edge1.example.key");
    // Together with a site's, which has another key.
    site.certificate(SHOP, "ec");
    site.import(SHOP, &[]);
    renew(edge.enroute.process());
}

/// Sites are added, removed and changed; what cannot change without a restart is named.
#[test]
fn sites_are_those_of_the_file() {
    const THIRD: &str = "third.example";
    let Some(workshop) = workshop() else { return };
    let content = |text: &'static str| {
        Origin::start(move |_| (200, "cache-control: no-store".into(), text.into()))
    };
    let (here, there) = (content("here"), content("there"));
    for name in [SHOP, OTHER, THIRD] {
        workshop.certificate(name, "ec");
    }
    let site = |name: &str, origin: &Origin| workshop.site(name, origin.address);
    let edge = workshop.start("", &(site(SHOP, &here) + &site(OTHER, &here)));
    let body = |name: &str| edge.curl(name, "/", &[]).body;
    assert_eq!([SHOP, OTHER].map(body), ["here", "here"]);
    let process = edge.enroute.process();

    // A mistake in the last site, or in the file itself, changes nothing.
    let missing = site(THIRD, &there).replace("third.example.pem", "absent.pem");
    for (mistake, said) in [(&*missing, "absent.pem"), ("[[edge.site]]\nx = 1", "enroute.toml:")] {
        edge.enroute.write_config(&config("", &(site(SHOP, &there) + mistake)));
        let told = hang_up(process);
        assert!(told.contains("SIGHUP: reload failed") && told.contains(said), "{told}");
        assert_eq!([SHOP, OTHER].map(body), ["here", "here"]);
    }

    let limits = "[edge.content]\nmemory = \"32MiB\"\n[edge.limits]\nstreams_max = 7";
    let longer = site(THIRD, &there) + "body_max = \"1GiB\"\n";
    let changed = "workers = 1\n".to_owned() + &config(limits, &(site(SHOP, &there) + &longer));
    edge.enroute.write_config(
        &changed.replace("[edge]\nlisten = \"127.0.0.1:0\"", "[edge]\nlisten = \"127.0.0.1:1\""),
    );
    renew(process);
    assert_eq!([SHOP, THIRD].map(body), ["there", "there"]);
    let said = edge.openssl(OTHER, "", "");
    assert!(said.contains("unrecognized name"), "{said}");
    for name in ["workers", "[edge] listen", "[edge.content]", "[edge.limits]", "a body_max"] {
        edge.enroute.stderr_line(&format!("SIGHUP: {name}"));
    }
    assert_eq!(process.stderr().matches("restart to apply it").count(), 5, "{}", process.stderr());
    // Unchanged.
    edge.enroute.write_config(&config("", &(site(SHOP, &here) + &site(OTHER, &here))));
    renew(process);
    assert_eq!([SHOP, OTHER].map(body), ["here", "here"]);
    assert_eq!(process.stderr().matches("restart to apply it").count(), 5);
}
