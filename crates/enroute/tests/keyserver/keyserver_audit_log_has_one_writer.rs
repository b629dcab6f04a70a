//! One key server at a time writes an audit log: a second one fails with an error that names the
//! holder and the remedy. After SIGHUP it continues with the same file or with a new one, and the
//! chain is unbroken.

use std::fs;

use crate::support::keyserver::{Site, verify_request};

#[test]
fn a_second_server_is_refused_and_the_chain_is_unbroken() {
    let Some(site) = Site::create() else { return };
    site.key("one", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
    let one = site.import("one", &[]);
    let body = verify_request(&one, "ecdsa_secp256r1_sha256", &[1; 32]);
    let server = site.serve(&[]);
    site.output(&server, &body);
    let is_refused = |by: u32| {
        // Also by another name.
        site.sh("ln -sf audit.log link.log");
        for options in [&[][..], &["--audit", "link.log"]] {
            let ended = site.serve_in_vain(options);
            let process = format!("is in use by process {by} (");
            assert!(!ended.status.success() && ended.stderr.contains(&process), "{}", ended.stderr);
            assert!(ended.stderr.contains("use another --audit"), "{}", ended.stderr);
        }
    };
    is_refused(server.process().id());
    // The same file, repeatedly.
    for _ in 0..3 {
        server.reload();
        site.output(&server, &body);
    }
    is_refused(server.process().id());
    // A new file.
    fs::rename(site.path("audit.log"), site.path("audit.1")).unwrap();
    server.reload();
    site.output(&server, &body);
    is_refused(server.process().id());
    // It is held until the process ends, in whatever way.
    server.process().signal("KILL");
    server.process().stderr_line("never said");
    let server = site.serve(&[]);
    site.output(&server, &body);
    is_refused(server.process().id());
    // At SIGHUP, a file that another server holds is not used.
    let other = site.serve(&["--audit", "other.log"]);
    site.sh("mv audit.log audit.2; ln -s other.log audit.log");
    server.process().signal("HUP");
    let said = server.process().stderr_line("SIGHUP: reload failed").expect("it says so");
    assert!(said.contains(&format!("is in use by process {}", other.process().id())), "{said}");
    site.sh("rm audit.log");
    server.reload();
    site.output(&server, &body);
    server.terminate();
    other.terminate();
    let files = ["audit", "audit.1", "audit.2", "audit.log"];
    let verified = site.run(&files);
    assert!(verified.status.success(), "{}", verified.stderr);
    assert!(verified.stdout.starts_with("10 lines, head "), "{}", verified.stdout);
}
