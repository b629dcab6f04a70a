//! Keys are sealed in the database under key-encryption keys that rotate; a bounded number is
//! parsed in memory and wiped on eviction.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

use crate::support::{
    database::Database,
    keyserver::{KeyServer, Site, verify_request},
    process::PATIENCE,
};

const P256: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";
const SCHEME: &str = "ecdsa_secp256r1_sha256";
/// Number of attempts of an import, because on a busy machine the database may reply late.
const TRIES: usize = 10;

/// A new key of this name is imported; its id.
fn imported(site: &Site, name: &str) -> String {
    site.key(name, P256);
    site.import(name, &[])
}

#[test]
fn the_key_encryption_key_rotates_while_serving() {
    let Some(site) = Site::create() else { return };
    let ids: Vec<String> = (0..5).map(|number| imported(&site, &format!("key{number}"))).collect();
    let server = site.serve(&[]);
    let all_sign = || {
        for id in &ids {
            site.output(&server, &verify_request(id, SCHEME, &[1; 32]));
        }
    };
    all_sign();
    let (old, new) = ("11".repeat(32), "22".repeat(32));
    site.write("kek", &format!("{new}\n{old}\n"));
    server.reload();
    all_sign();
    let rotate = || site.run(&[&["rotate"], &site.vault()[..]].concat());
    let ended = rotate();
    assert!(
        ended.stderr.contains("5 records sealed under the first key; 0 were"),
        "{}",
        ended.stderr
    );
    assert!(rotate().stderr.contains("0 records sealed under the first key; 5 were"));
    // The old key-encryption key is no longer needed, and opens nothing.
    site.write("kek", &format!("{new}\n"));
    server.reload();
    all_sign();
    site.write("kek", &format!("{old}\n"));
    server.reload();
    let body = verify_request(&ids[0], SCHEME, &[1; 32]);
    assert_eq!(site.refusal(&server, "edge1.example", &body), "unspecified error");
    let logged = server.process().stderr_line("not in the keyring").expect("the reason is logged");
    assert!(!logged.contains(&old) && !logged.contains(&new), "{logged}");
    // A modified record is never used.
    site.write("kek", &format!("{new}\n"));
    server.reload();
    let mut changed = site.record(&ids[1]);
    changed[150] ^= 1;
    site.set_record(&ids[1], &changed);
    let body = verify_request(&ids[1], SCHEME, &[1; 32]);
    assert_eq!(site.refusal(&server, "edge1.example", &body), "unspecified error");
    assert!(server.process().stderr_line("was changed since it was sealed").is_some());
    // Nor is a record that was stored under another key's name.
    site.set_record(&ids[1], &site.record(&ids[2]));
    server.reload();
    assert_eq!(site.refusal(&server, "edge1.example", &body), "unspecified error");
}

#[test]
fn damaged_records_keep_no_others_from_being_rotated() {
    let Some(mut site) = Site::create() else { return };
    let ids: Vec<String> = (0..6).map(|number| imported(&site, &format!("key{number}"))).collect();
    // One record was modified after it was sealed, one is damaged on disk, one so that its name is
    // lost.
    let mut changed = site.record(&ids[0]);
    changed[40] ^= 1;
    site.set_record(&ids[0], &changed);
    site.database.terminate();
    site.database.bring_up();
    let name = |id: &String| format!("enroute:key:{id}");
    let damaged = site.database.flip(&name(&ids[1]), 150);
    let nameless = site.database.flip(&name(&ids[2]), 20);
    let (old, new) = ("11".repeat(32), "22".repeat(32));
    site.write("kek", &format!("{new}\n{old}\n"));
    let ended = site.run(&[&["rotate"], &site.vault()[..]].concat());
    assert!(!ended.status.success(), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("3 records sealed under the first key; 0 were"),
        "{}",
        ended.stderr
    );
    let of = |id: &String| {
        let line = ended.stderr.lines().find(|line| line.contains(&format!("{id}: ")));
        line.unwrap_or_else(|| panic!("{id} is not named: {}", ended.stderr)).to_owned()
    };
    assert!(of(&ids[0]).contains("was changed since it was sealed"), "{}", of(&ids[0]));
    assert!(of(&ids[1]).contains(&damaged), "{}", of(&ids[1]));
    assert!(ended.stderr.contains("cannot read: 1;"), "{}", ended.stderr);
    assert!(site.database.process().stderr_line(&nameless).is_some(), "the log does not say where");
    // The other records no longer need the old key-encryption key.
    site.write("kek", &format!("{new}\n"));
    let server = site.serve(&[]);
    for id in &ids[3..] {
        site.output(&server, &verify_request(id, SCHEME, &[1; 32]));
    }
}

#[test]
fn a_fetch_is_one_miss() {
    let Some(site) = Site::create() else { return };
    site.key("site", P256);
    let id = site.import("site", &[]);
    let server = site.serve(&["--workers", "1"]);
    for _ in 0..3 {
        site.output(&server, &verify_request(&id, SCHEME, &[1; 32]));
    }
    let ended = server.terminate();
    assert!(ended.stderr.contains("1 keys parsed, 2 hits, 1 misses"), "{}", ended.stderr);
}

#[test]
fn the_database_is_reached_by_tls_or_not_at_all() {
    let Some(mut site) = Site::create() else { return };
    site.certificate("other", "ec");
    let path = |name: &str| site.path(name).to_str().expect("a plain path").to_owned();
    let (certificate, key) = (path("localhost.pem"), path("localhost.key"));
    let options = ["--password", "secret", "--tls-cert", &certificate, "--tls-key", &key];
    site.database = Database::start_with(&[&["--sync", "always"], &options[..]].concat());
    site.key("site", P256);
    let port = site.database.address().port();
    let at = |scheme: &str, login: &str| format!("{scheme}://{login}localhost:{port}");
    let tls = at("rediss", "default:secret@");
    let import = |address: &str, authorities: &[&str]| {
        let options = [&["import", "--kek-file", "kek", "--database", address], authorities];
        site.run(&[&options.concat()[..], &["site.key"]].concat())
    };
    let ca = ["--database-authorities", "ca.pem"];
    let ended = import(&tls, &ca);
    assert!(ended.status.success(), "{}", ended.stderr);
    let id = &ended.stdout[..64];
    // Databases with another authority, another name, without a login or without TLS are refused.
    for (address, authorities, why) in [
        (tls.as_str(), &["--database-authorities", "other.pem"][..], "certificate"),
        (&tls.replace("localhost", "127.0.0.1"), &ca, "certificate"),
        (&tls, &[], "expected --database-authorities"),
        (&at("redis", "default:secret@"), &ca, "expected rediss://"),
        (&at("redis", "default:secret@"), &[], "expected TLS"),
        (&at("rediss", "default:wrong@"), &ca, "login refused"),
        (&at("rediss", ""), &ca, "NOAUTH"),
    ] {
        let ended = import(address, authorities);
        assert!(!ended.status.success(), "{address} {authorities:?}");
        assert!(ended.stderr.contains(why), "{address} {authorities:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    }
    let body = verify_request(id, SCHEME, &[1; 32]);
    let server = site.serve(&[&["--database", &tls], &ca[..]].concat());
    site.output(&server, &body);
    // Only one process may write an audit log.
    drop(server);
    let other = ["--database", &tls, "--database-authorities", "other.pem"];
    let server = site.serve(&other);
    assert_eq!(site.refusal(&server, "edge1.example", &body), "unspecified error");
    assert!(server.process().stderr_line("certificate").is_some(), "the reason is logged");
}

#[test]
fn a_database_that_asks_for_a_certificate_is_shown_one() {
    let Some(mut site) = Site::create() else { return };
    let path = |name: &str| site.path(name).to_str().expect("a plain path").to_owned();
    let (certificate, key, ca) = (path("localhost.pem"), path("localhost.key"), path("ca.pem"));
    let options = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-ca", &ca];
    site.database = Database::start_with(&[&["--sync", "always"], &options[..]].concat());
    site.key("site", P256);
    let tls = format!("rediss://localhost:{}", site.database.address().port());
    let place = ["--database", &tls, "--database-authorities", "ca.pem"];
    let shown = ["--database-certificate", "edge1.example.pem"];
    let its_key = ["--database-key", "edge1.example.key"];
    let import = |options: &[&str]| {
        let all = [&["import", "--kek-file", "kek"], &place[..], options, &["site.key"]].concat();
        // On a busy machine a database may reply too late.
        let mut tries = (0..TRIES).map(|_| site.run(&all));
        tries.find(|ended| !ended.stderr.contains("no reply within")).expect("a reply in time")
    };
    // Without a certificate the handshake fails; an incomplete pair is refused before the
    // connection.
    for (options, why) in [
        (&[][..], "CertificateRequired"),
        (&shown, "--database-key"),
        (&its_key, "--database-certificate"),
        (&[&shown[..], &["--database-key", "localhost.key"]].concat(), "do not match"),
    ] {
        let ended = import(options);
        assert!(!ended.status.success(), "{options:?}");
        assert!(ended.stderr.contains(why), "{options:?}: {}", ended.stderr);
    }
    let both = [shown, its_key].concat();
    let ended = import(&both);
    assert!(ended.status.success(), "{}", ended.stderr);
    let server = site.serve(&[&place[..], &both].concat());
    site.output(&server, &verify_request(&ended.stdout[..64], SCHEME, &[1; 32]));
}

/// The private number in a key file, which must not remain in memory.
fn secret(site: &Site, name: &str) -> Vec<u8> {
    let der = site.bytes(&format!("openssl ec -in {name}.key -outform DER"));
    // ECPrivateKey: SEQUENCE, INTEGER 1, OCTET STRING of 32 bytes.
    assert_eq!(der[5..7], [4, 32]);
    der[7..39].to_vec()
}

/// Number of copies of the secret in the memory of the process, in the byte order of a file or of a
/// C library.
fn copies(server: &KeyServer, secret: &[u8]) -> usize {
    let reversed: Vec<u8> = secret.iter().rev().copied().collect();
    let id = server.process().id();
    let maps = fs::read_to_string(format!("/proc/{id}/maps")).expect("its mappings");
    let memory = File::open(format!("/proc/{id}/mem")).expect("its memory");
    let mut found = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (begin, rest) = line.split_once('-').expect("a range");
        let number = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        let (begin, end) = (number(begin), number(rest.split(' ').next().expect("an end")));
        let mut bytes = vec![0; (end - begin) as usize];
        if memory.read_exact_at(&mut bytes, begin).is_err() {
            continue;
        }
        found +=
            bytes.windows(32).filter(|window| *window == secret || *window == reversed).count();
    }
    found
}

#[test]
fn an_evicted_key_is_wiped() {
    let Some(site) = Site::create() else { return };
    let ids = ["one", "two", "three"].map(|name| imported(&site, name));
    let server = site.serve(&["--keys-max", "2", "--workers", "1"]);
    let one = secret(&site, "one");
    let sign = |id: &str| site.output(&server, &verify_request(id, SCHEME, &[1; 32]));
    sign(&ids[0]);
    if File::open(format!("/proc/{}/mem", server.process().id())).is_err() {
        // As intended: the process is not dumpable.
        eprintln!("SKIPPED: reading the key server's memory needs root");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI should be root");
    } else {
        assert!(copies(&server, &one) > 0, "a key in use is in memory, or this test sees nothing");
        sign(&ids[1]);
        assert!(copies(&server, &one) > 0, "two keys have room");
        sign(&ids[2]);
        // Requests that are ending may hold it a moment longer.
        let started = std::time::Instant::now();
        while copies(&server, &one) > 0 {
            assert!(started.elapsed() < PATIENCE, "the evicted key is still in memory");
        }
    }
    sign(&ids[0]);
    let ended = server.terminate();
    assert!(ended.stderr.contains("2 keys parsed"), "{}", ended.stderr);
}
