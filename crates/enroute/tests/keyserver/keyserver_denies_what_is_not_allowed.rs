//! Policy, rates, names, switches: anything that is not allowed is denied.

use crate::support::keyserver::{EVERYTHING, KeyServer, Site, premaster_request, verify_request};

const P256: &str = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";
const SCHEME: &str = "ecdsa_secp256r1_sha256";

const DENIED: &str = "request denied";
const NOT_FOUND: &str = "spki not found";

/// The ID of a key that does not exist.
fn unknown() -> String {
    "0".repeat(64)
}

/// Returns the refusal that `edge` gets when it asks for a signature by the key `id`.
fn refusal(site: &Site, server: &KeyServer, edge: &str, id: &str) -> String {
    site.refusal(server, edge, &verify_request(id, SCHEME, &[1; 32]))
}

#[test]
fn what_no_rule_allows_is_denied() {
    let Some(site) = Site::create() else { return };
    for name in ["one", "two"] {
        site.key(name, P256);
    }
    site.key("rsa", "-algorithm RSA -pkeyopt rsa_keygen_bits:2048");
    let one =
        site.import("one", &["--server-name", "one.example", "--server-name", "*.one.example"]);
    let (two, rsa) = (site.import("two", &[]), site.import("rsa", &[]));
    for edge in ["edge2.example", "edge3.example"] {
        site.signed(edge, "ca");
    }
    site.write(
        "policy.toml",
        &format!(
            "[[edge]]\nname = \"edge1.example\"\n\
             [[edge.allow]]\nkeys = [\"{one}\", \"{}\", \"{rsa}\"]\nmethods = [\"CertificateVerify\", \"RSA\"]\n\
             {}",
            unknown(),
            limited("edge2.example")
        ),
    );
    let server = site.serve(&[]);
    let ask = |edge: &str, id: &str| refusal(&site, &server, edge, id);

    site.output(&server, &verify_request(&one, SCHEME, &[1; 32]));
    assert_eq!(ask("edge1.example", &two), DENIED);
    // Only an edge that may use a key can learn whether it exists.
    assert_eq!(ask("edge1.example", &unknown()), NOT_FOUND);
    assert_eq!(ask("edge1.example", &"1".repeat(64)), DENIED);
    assert_eq!(ask("edge3.example", &one), DENIED);
    // A rule alone does not enable decryption.
    let decrypt = premaster_request(&rsa, &[1; 256]);
    assert_eq!(site.refusal(&server, "edge1.example", &decrypt), DENIED);
    // A key is restricted to its names.
    let named = |name: &str| {
        verify_request(&one, SCHEME, &[1; 32])
            .replace("{", &format!("{{\"server_name\":\"{name}\","))
    };
    site.output(&server, &named("one.example"));
    site.output(&server, &named("www.one.example"));
    assert_eq!(site.refusal(&server, "edge1.example", &named("other.example")), DENIED);
    // One request per thousand seconds.
    assert_eq!(ask("edge2.example", &unknown()), NOT_FOUND);
    assert_eq!(ask("edge2.example", &unknown()), DENIED);

    // Each denial is in the log with the reason, which the edge does not get.
    let log = String::from_utf8(site.read("audit.log")).unwrap();
    for reason in [
        "no rule of the edge allows it",
        "the policy has no such edge",
        "premaster_decryption is off",
        "the key is not for this server name",
        "the edge exceeds its requests_per_second",
        "no such key",
        "done",
    ] {
        assert!(log.contains(&format!("\"outcome\":\"{reason}\"")), "{reason}:\n{log}");
    }
}

/// The policy of an edge that may request a signature by any key once every thousand seconds.
fn limited(edge: &str) -> String {
    format!(
        "[[edge]]\nname = \"{edge}\"\nrequests_per_second = 0.001\n\
         [[edge.allow]]\nkeys = [\"*\"]\nmethods = [\"CertificateVerify\"]\n"
    )
}

#[test]
fn a_policy_with_a_mistake_changes_nothing_and_a_good_one_does() {
    const EDGES: [&str; 3] = ["edge1.example", "edge2.example", "edge3.example"];
    let Some(site) = Site::create() else { return };
    site.key("one", P256);
    let one = site.import("one", &[]);
    EDGES[1..].iter().for_each(|edge| site.signed(edge, "ca"));
    site.write("policy.toml", &(EVERYTHING.to_owned() + &limited(EDGES[1])));
    let server = site.serve(&[]);
    let ask = |edge: &str, id: &str| refusal(&site, &server, edge, id);
    assert_eq!(ask(EDGES[1], &unknown()), NOT_FOUND);
    assert_eq!(ask(EDGES[1], &unknown()), DENIED);
    site.write("policy.toml", "[[edge]]\nname = 1\n");
    server.process().signal("HUP");
    assert!(server.process().stderr_line("SIGHUP: reload failed").is_some());
    site.output(&server, &verify_request(&one, SCHEME, &[1; 32]));
    // Requests count towards the rate of the policy under which they were made, and new edges have
    // rates of their own.
    site.write("policy.toml", &EDGES.map(limited).concat());
    server.reload();
    for edge in EDGES {
        assert_eq!(ask(edge, &unknown()), NOT_FOUND, "{edge}");
        assert_eq!(ask(edge, &unknown()), DENIED, "{edge}");
    }
    site.write("policy.toml", "edge = []\n");
    server.reload();
    assert_eq!(ask(EDGES[0], &one), DENIED);
}

#[test]
fn without_policy_key_or_log_nothing_is_served() {
    let Some(site) = Site::create() else { return };
    site.write("wrong-kek", "12\n");
    for (options, said) in [
        (["--policy", "absent.toml"], "absent.toml"),
        (["--kek-file", "wrong-kek"], "64 hexadecimal digits"),
        (["--audit", "/dev/full"], "No space left"),
        (["--edge-authorities", "policy.toml"], "found no certificate"),
    ] {
        let ended = site.serve_in_vain(&options);
        assert!(!ended.status.success(), "{options:?}");
        assert!(ended.stderr.contains(said), "{options:?}: {}", ended.stderr);
    }
}

#[test]
fn a_log_that_cannot_be_written_denies_everything() {
    let Some(site) = Site::create() else { return };
    site.key("one", P256);
    let one = site.import("one", &[]);
    // Files of 2 KiB at most, without a signal: as a full disk.
    let server = site.serve_after("trap '' XFSZ; ulimit -S -f 4");
    let body = verify_request(&one, SCHEME, &[1; 32]);
    let mut answered = 0;
    while site.post(&server, "edge1.example", &body).0.contains("output") {
        answered += 1;
        assert!(answered < 100, "the limit has no effect");
    }
    assert!(answered > 2, "{}", server.process().stderr());
    assert_eq!(site.refusal(&server, "edge1.example", &body), "request denied");
    assert!(server.process().stderr_line("cannot write the audit log").is_some());
    let log = String::from_utf8(site.read("audit.log")).unwrap();
    assert!(log.len() <= 4 << 10);
    // Every answered request has a complete line.
    let whole = log.split_inclusive('\n').filter(|line| line.ends_with("\"}\n"));
    assert_eq!(whole.filter(|line| line.contains("\"done\"")).count(), answered, "{log}");

    // Once there is space again, the incomplete line is completed first; requests denied until then
    // have no line.
    site.sh(&format!("prlimit --pid {} --fsize=unlimited:", server.process().id()));
    site.output(&server, &body);
    server.terminate();
    let ended = site.run(&["audit", "audit.log"]);
    let lines = format!("{} lines, head ", 1 + answered + 1 + 1);
    assert!(ended.stdout.starts_with(&lines), "{lines}: {}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_database_that_is_down_is_an_error_and_then_none() {
    let Some(mut site) = Site::create() else { return };
    site.key("one", P256);
    let one = site.import("one", &[]);
    assert!(site.record(&one).len() > 100, "the record is in the database");
    let server = site.serve(&[]);
    let body = verify_request(&one, SCHEME, &[1; 32]);
    site.database.bring_down();
    assert_eq!(site.refusal(&server, "edge1.example", &body), "unspecified error");
    site.database.bring_up();
    site.output(&server, &body);
    site.database.bring_down();
    // Parsed keys need no database.
    site.output(&server, &body);
    // A key dropped from memory is read again; a key removed from the database is unknown.
    server.reload();
    assert_eq!(site.refusal(&server, "edge1.example", &body), "unspecified error");
    site.database.bring_up();
    let name = format!("enroute:key:{one}");
    redis::cmd("DEL").arg(name).exec(&mut site.database.connection()).expect("it is deleted");
    assert_eq!(site.refusal(&server, "edge1.example", &body), "spki not found");
}
