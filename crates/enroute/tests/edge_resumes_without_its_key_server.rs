//! The key server goes and returns: sessions go on without it, new ones are told, then they recover.
#![cfg(feature = "edge")]

mod support;

use std::{fs, process::Command};

use support::{
    database::Database,
    edge::{Origin, until, workshop},
    process::{Process, free_address},
};

const POLICY: &str = "\
premaster_decryption = true
[[edge]]
name = \"edge1.example\"
[[edge.allow]]
keys = [\"*\"]
methods = [\"CertificateVerify\", \"ECDHE\", \"RSA\"]
";
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";

#[test]
fn sessions_go_on_new_ones_are_told_and_recover() {
    let Some(workshop) = workshop() else { return };
    let kept_in = Database::start();
    workshop.certificate("ca", "ec");
    for name in ["localhost", "edge1.example"] {
        workshop.signed(name);
    }
    workshop.certificate("shop.example", "ec");
    workshop.certificate("old.example", "rsa:2048");
    fs::write(workshop.path("policy.toml"), POLICY).expect("writable");
    workshop.sh("openssl rand -hex 32 > kek");
    let program = env!("CARGO_BIN_EXE_enroute");
    let database = format!("redis://{}", kept_in.address());
    workshop.sh(&format!(
        "{program} keyserver import --database {database} --kek-file kek shop.example.key \
         old.example.key"
    ));
    let place = free_address();
    let key_server = || {
        let mut command = Command::new(program);
        command.args(["keyserver", "serve", "--listen", &place.to_string()]);
        command.args(["--database", &database, "--kek-file", "kek", "--policy", "policy.toml"]);
        command.args(["--certificate", "localhost.pem", "--key", "localhost.key"]);
        command.args(["--edge-authorities", "ca.pem", "--audit", "audit.log"]);
        let mut process = Process::start(command.current_dir(workshop.path("")));
        process.accepting(place);
        process
    };

    let running = key_server();
    let origin = Origin::start(|_| (200, "cache-control: max-age=60".into(), "content".into()));
    let file = |name: &str| workshop.path(name).display().to_string();
    let options = format!(
        "[edge.identity]\ncertificate = \"{}\"\nkey = \"{}\"\nauthorities = \"{}\"\n\
         key_server_name = \"localhost\"\ntimeout = \"9s\"\n",
        file("edge1.example.pem"),
        file("edge1.example.key"),
        file("ca.pem")
    );
    let key = format!("keyserver:{place}");
    let sites = workshop.site_with_key("shop.example", origin.address, &key)
        + &workshop.site_with_key("old.example", origin.address, &key)
        + "rsa_key_exchange = true\n";
    let edge = workshop.start(&options, &sites);

    // Every way of using the key, and a session of each version.
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
    let log = || fs::read_to_string(workshop.path("audit.log")).expect("an audit log");
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
