//! The audit log verifies only as it was written, over restarts and rotated files.

use crate::support::keyserver::{Site, verify_request};

#[test]
fn every_use_is_logged_and_every_change_found() {
    let Some(site) = Site::create() else { return };
    site.key("one", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
    let one = site.import("one", &[]);
    let body = verify_request(&one, "ecdsa_secp256r1_sha256", &[1; 32]);
    let server = site.serve(&[]);
    for _ in 0..3 {
        site.output(&server, &body);
    }
    // Renamed, and a new file begun, as logrotate does.
    std::fs::rename(site.path("audit.log"), site.path("audit.1")).unwrap();
    server.reload();
    site.output(&server, &body);
    assert_eq!(site.refusal(&server, "edge1.example", "{}"), "malformed request");
    // An older copy in its place is not continued; the key server that wrote the log continues its
    // open file.
    site.sh("mv audit.log kept.log; head -n 3 audit.1 >audit.log");
    server.process().signal("HUP");
    let said = server.process().stderr_line("SIGHUP: reload failed").expect("it says so");
    assert!(said.contains("expected the open audit log or an empty file"), "{said}");
    site.sh("mv kept.log audit.log");
    server.terminate();
    // Continued by another process.
    let server = site.serve(&[]);
    site.output(&server, &body);
    let ended = server.terminate();

    let verify = |arguments: &[&str]| site.run(&[&["audit"], arguments].concat());
    let whole = verify(&["audit.1", "audit.log"]);
    assert!(whole.stdout.starts_with("8 lines, head "), "{}{}", whole.stdout, whole.stderr);
    let (lines, head) = whole.stdout.trim().split_once(" lines, head ").unwrap();
    assert!(ended.stderr.contains(head), "the server says where the chain ends: {}", ended.stderr);
    let noted = ["--count", lines, "--head", head, "audit.1", "audit.log"];
    assert!(verify(&noted).status.success());
    assert!(verify(&["audit.log"]).status.success(), "a later file alone");
    assert!(!verify(&["audit.log", "audit.1"]).status.success(), "files in the wrong order");

    let log = String::from_utf8(site.read("audit.log")).unwrap();
    let rewritten = log.replacen("edge1.example", "edge2.example", 1);
    let without: String = log
        .lines()
        .enumerate()
        .filter(|(at, _)| *at != 1)
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    for (what, changed) in [("rewritten", &rewritten), ("removed", &without)] {
        site.write("changed.log", changed);
        let ended = verify(&["audit.1", "changed.log"]);
        assert!(!ended.status.success(), "{what}");
        assert!(ended.stderr.contains("line 2"), "{what}: {}", ended.stderr);
    }
    // A log that is truncated at a line end: only an externally recorded count and head detect it.
    let cut = &log[..log.trim_end().rfind('\n').unwrap() + 1];
    site.write("audit.log", cut);
    assert!(verify(&["audit.1", "audit.log"]).status.success());
    let ended = verify(&noted);
    assert!(ended.stderr.contains("lines are missing"), "{}", ended.stderr);
    // The server refuses to continue a log that is truncated in the middle of a line.
    site.write("audit.log", &cut[..cut.len() - 9]);
    assert!(site.serve_in_vain(&[]).stderr.contains("cannot continue the audit log"));
}
