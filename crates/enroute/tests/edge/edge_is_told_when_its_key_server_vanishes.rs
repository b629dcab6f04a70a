//! The key server's host is down, or the path to it is cut, without any packet that says so: new
//! handshakes fail within the edge's timeout, any number of sessions continue, and the edge
//! recovers without a restart.
use std::thread;

use crate::support::{
    directory::on_path,
    edge::{Edge, Origin},
    keyserver::Site,
    namespace::Namespace,
    origins::absent,
    process::until,
};

const SHOP: &str = "shop.example";
const KEY_SERVER: &str = "10.79.0.2:7443";
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";
const LIMITS: &str = "[edge.limits]\nhandshakes_max = 4\nhandshake_timeout = \"9s\"\n";
const TIMEOUT: &str = "3s";
/// Half of it is for detecting a dead connection, and half, more than enough, for making a new one.
const LONG_TIMEOUT: &str = "16s";
/// Four at a time, for three seconds each: the last would exceed the handshake timeout.
const CROWD: usize = 20;

/// Runs `test` with an edge whose key server is another host, and with that host's network.
fn with_edge(
    limits: &str,
    timeout: &str,
    test: impl FnOnce(&Edge<'_>, &Namespace, &Namespace) + Send,
) {
    for tool in ["ip", "ss", "nft"] {
        if on_path(tool).is_none() {
            let _: Option<()> = absent(&format!("{tool} is not on PATH"));
            return;
        }
    }
    let (Some(near), Some(far)) = (Namespace::make(), Namespace::make()) else { return };
    far.join(("keys", "10.79.0.2/24"), &near, ("edge", "10.79.0.1/24"));
    let Some(site) = far.run(Site::create) else { return };
    site.certificate(SHOP, "ec");
    far.run(|| site.import(SHOP, &[]));
    let _server = far.run(|| site.serve(&["--listen", KEY_SERVER]));
    near.run(|| {
        let origin = Origin::start(|_| (200, "cache-control: max-age=60".into(), "content".into()));
        let key = format!("keyserver:{KEY_SERVER}");
        // With more connections, the next request would use another one.
        let options = limits.to_owned() + &site.identity(timeout) + "connections = 1\n";
        let edge = site.start(&options, &site.site_with_key(SHOP, origin.address, &key));
        until("it is served", || edge.try_curl(SHOP, "/", &[]).is_ok());
        test(&edge, &near, &far);
    });
}

/// Number of handshakes that the log reports as failed for lack of the key.
fn logged(said: &str) -> usize {
    let lines = said.lines().filter(|line| line.contains("the private key could not be used"));
    let times = lines.filter_map(|line| line.split("times=").nth(1)?.split(' ').next());
    times.map(|times| times.parse::<usize>().expect("a number")).sum()
}

#[test]
fn new_handshakes_are_told_sessions_go_on_and_it_recovers() {
    with_edge(LIMITS, TIMEOUT, |edge, _, far| {
        until("a session", || {
            edge.openssl(SHOP, "-ign_eof -sess_out session", REQUEST).contains("content")
        });
        far.sh("ip link set keys down");
        let told = |said: &str| assert!(said.contains("alert internal error"), "{said}");
        told(&edge.openssl(SHOP, "", ""));
        edge.enroute.stderr_line("the key server did not answer within 3s");
        // From now on the edge knows that the key server is unreachable.
        let before = edge.counted("accepted");
        thread::scope(|scope| {
            let crowd: Vec<_> =
                (0..CROWD).map(|_| scope.spawn(|| edge.openssl(SHOP, "", ""))).collect();
            until("all are there", || edge.counted("accepted") >= before + CROWD as u64);
            let said = edge.openssl(SHOP, "-ign_eof -sess_in session", REQUEST);
            assert!(said.contains("Reused, ") && said.contains("content"), "{said}");
            crowd.into_iter().for_each(|one| told(&one.join().expect("no panic")));
        });
        // The log is rate-limited; its lines count the suppressed ones.
        until("all are in the log", || {
            told(&edge.openssl(SHOP, "", ""));
            logged(&edge.enroute.process().stderr()) > CROWD
        });
        far.sh("ip link set keys up");
        until("new ones are served", || edge.try_curl(SHOP, "/", &[]).is_ok());
    });
}

/// As after the restart of a firewall: existing connections are dropped, new ones pass.
#[test]
fn a_connection_that_the_path_has_forgotten_is_replaced_in_time() {
    let limits = "[edge.limits]\nhandshake_timeout = \"60s\"\n";
    with_edge(limits, LONG_TIMEOUT, |edge, near, far| {
        let ports = near.sh(
            "ss -Htn state established dport = :7443 | awk '{ sub(/.*:/, \"\", $3); print $3 }' | paste -sd,",
        );
        assert_ne!(ports.trim(), "", "no connection to the key server");
        far.sh(&format!(
            "nft 'add table inet f; add chain inet f c {{ type filter hook input priority 0; }}; \
             add rule inet f c tcp sport {{ {} }} drop'",
            ports.trim()
        ));
        // TCP itself would retry for a quarter of an hour. Even the first client after that is
        // served.
        assert_eq!(edge.curl(SHOP, "/", &[]).body, "content");
    });
}
