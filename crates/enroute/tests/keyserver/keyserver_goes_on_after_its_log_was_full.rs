//! When the file system of the audit log is full, no request is answered, because no line can be
//! written. After the file was moved away and SIGHUP was sent, the key server continues, and the
//! two files are one unbroken chain with a line for every answer.

use std::{fs, path::PathBuf, time::Instant};

use crate::support::{
    keyserver::{EVERYTHING, Site, verify_request},
    process::PATIENCE,
};

fn may_mount() -> bool {
    let tried = std::process::Command::new("unshare").args(["--mount", "true"]).status();
    let may = tried.is_ok_and(|status| status.success());
    assert!(may || std::env::var("CI").as_deref() != Ok("true"), "this test needs root");
    may
}

#[test]
fn a_full_log_is_recovered_by_moving_it() {
    if !may_mount() {
        eprintln!("SKIPPED: only root can mount a small file system");
        return;
    }
    let Some(site) = Site::create() else { return };
    site.write("policy.toml", EVERYTHING);
    site.key("site", "-algorithm ed25519");
    let id = site.import("site", &[]);
    site.sh("mkdir small && ln -s small/audit.log audit.log");
    let server = site.serve_by(
        "exec unshare --mount sh -ec 'mount -t tmpfs -o size=16k none small; exec \"$@\"' sh",
    );
    // Returns the path of a file in its mount namespace.
    let inside = |name: &str| {
        let root = PathBuf::from(format!("/proc/{}/root", server.process().id()));
        root.join(site.path("small").strip_prefix("/").expect("an absolute path")).join(name)
    };
    let body = verify_request(&id, "ed25519", &[7; 32]);
    let ask = || {
        let (answer, status) = site.post(&server, "edge1.example", &body);
        assert_eq!(status, 200, "{answer}");
        wire::ski::response::decode(answer.as_bytes()).expect("SKI").is_ok()
    };
    let mut answered = 0;
    while ask() {
        answered += 1;
        assert!(answered < 1_000, "it is never full");
    }
    for _ in 0..20 {
        assert!(!ask(), "an answer without its line");
    }
    // One line in 10 s, not one for each request.
    assert!(server.process().stderr_line("audit.log, all requests are denied").is_some());
    let said = server.process().stderr();
    let told = said.matches("cannot write the audit log").count();
    assert!((1..20).contains(&told), "{told} lines: {said}");
    let lines = |text: &[u8]| {
        String::from_utf8_lossy(text).lines().filter(|line| line.contains("\"done\"")).count()
    };
    // Whole lines, and one for each answer.
    let full = fs::read(inside("audit.log")).expect("the log");
    assert!(full.ends_with(b"\n"), "the log ends with part of a line");
    assert_eq!(lines(&full), answered);

    // SIGHUP alone frees no space.
    server.process().signal("HUP");
    assert!(server.process().stderr_line("free some space, or move the file").is_some());
    assert!(!ask(), "an answer without its line");

    fs::write(site.path("audit.log.1"), &full).expect("room elsewhere");
    fs::remove_file(inside("audit.log")).expect("the log");
    server.reload();
    let started = Instant::now();
    while !ask() {
        assert!(started.elapsed() < PATIENCE, "no answers: {}", server.process().stderr());
    }
    let rest = fs::read(inside("audit.log")).expect("a new log");
    fs::write(site.path("audit.log.2"), &rest).expect("room elsewhere");
    let verified = site.run(&["audit", "audit.log.1", "audit.log.2"]);
    assert!(verified.status.success(), "{}", verified.stderr);
    assert!(lines(&rest) >= 1, "{}", String::from_utf8_lossy(&rest));
    server.terminate();
}
