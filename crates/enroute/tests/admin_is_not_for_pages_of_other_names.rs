//! The admin endpoint answers those that ask for it by address, as localhost, by the machine's name or one
//! that was configured: not a web page whose author points a name of his own at it (DNS rebinding).

mod support;

use support::database::Database;
use support::enroute::{Enroute, ask};

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
    let line = database.process().stderr_line("admin: http://").expect("it says so");
    let at = line
        .trim_start_matches("admin: http://")
        .trim_end_matches('/')
        .parse()
        .expect("an address");
    let flush = "POST /storage HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(ask(at, flush).status, 421);
    assert_eq!(ask(at, "GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
}
