//! The admin endpoint accepts requests addressed by IP address, `localhost`, the machine's host
//! name or a configured name, and refuses others: a web page whose DNS name points to it (DNS
//! rebinding) gets no answer.

use std::fs;

use crate::support::database::Database;
use crate::support::directory::TemporaryDirectory;
use crate::support::enroute::{Enroute, ask};

#[test]
fn admin_is_not_for_pages_of_other_names() {
    let toml = "[admin]\nlisten = \"127.0.0.1:0\"\nnames = [\"cache.example\"]\n\
                [[listener]]\nlisten = \"redis://127.0.0.1:0\"\norigin = \"redis://127.0.0.1:1\"\n";
    let enroute = Enroute::start_with_config(&["cache"], toml);
    let at = enroute.admin_address();
    let status = |request: &str, host: &str| {
        ask(at, &format!("{request} HTTP/1.1\r\nHost: {host}\r\n\r\n")).status
    };
    let port = at.port();
    for host in ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "cache.example"] {
        assert_eq!(status("GET /stats", &format!("{host}:{port}")), 200, "{host}");
    }
    for request in ["GET /", "GET /stats", "GET /metrics", "POST /flush"] {
        for host in ["evil.example", "127.0.0.1.evil.example"] {
            assert_eq!(status(request, &format!("{host}:{port}")), 421, "{request} {host}");
        }
    }
    let absolute = "GET http://evil.example/stats HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    assert_eq!(ask(at, absolute).status, 421);
}

#[test]
fn nor_is_that_of_the_database() {
    let database = Database::start_with(&["--admin", "127.0.0.1:0"]);
    let at = database.admin();
    let flush = "POST /storage HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(ask(at, flush).status, 421);
    assert_eq!(ask(at, "GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
}

#[test]
fn nor_is_the_receiver_that_grants_memory() {
    let cgroup = TemporaryDirectory::create();
    let limit = cgroup.path().join("memory.max");
    fs::write(&limit, "1").expect("a writable directory");
    let receiver = Enroute::start(&[
        "db",
        "orchestrator",
        "--listen",
        "127.0.0.1:0",
        "--cgroup",
        cgroup.path().to_str().expect("a plain path"),
        "--max",
        "64MiB",
        "--name",
        "memory.example",
    ]);
    let line = receiver.stderr_line("grants memory");
    let at = line.trim_start_matches("http://").split('/').next().expect("an address");
    let at = at.parse().expect("an address");
    let body = "{\"version\":1,\"process_id\":1,\"memory_bytes\":8192,\"present_bytes\":4096,\
                \"resident_bytes\":4096,\"reason\":\"a page asks\"}";
    let status = |lines: &str| {
        let head = format!("POST /rescale HTTP/1.1\r\n{lines}\r\nContent-Length: {}", body.len());
        ask(at, &format!("{head}\r\n\r\n{body}")).status
    };
    assert_eq!(status("Host: evil.example"), 421);
    // A page of another server can send a form without reading the answer.
    assert_eq!(status("Host: 127.0.0.1\r\nOrigin: https://evil.example"), 403);
    assert_eq!(fs::read_to_string(&limit).expect("it is there"), "1");
    assert_eq!(status("Host: memory.example:9130"), 200);
    assert_eq!(fs::read_to_string(&limit).expect("it is there"), "9216");
}
