//! Longer paths to the rack's clients and servers: emulated paths that lose, duplicate and reorder
//! packets.

use testbed::link::{LinkHandle, PathConfig, Tunnel, TunnelConfig, TunnelEnd};

use super::{Rack, run};

/// Addresses of the servers once the paths exist.
pub(crate) const FAR_SERVER: &str = "10.4.0.2";

impl Rack {
    /// Adds namespaces `x` behind the clients' end, which becomes a router, and `y` behind the
    /// servers'; the paths to them, in this order, are [`Rack::path`].
    pub(crate) fn lengthen(&mut self, clients: PathConfig, servers: PathConfig, seed: u64) {
        let ways = [("c", "x", 3, clients), ("d", "y", 4, servers)];
        for (near, far, net, path) in ways {
            assert!(run(&["netns", "add", &self.namespace(far)]));
            let end = |end: &str, address: String| TunnelEnd {
                namespace: Some(self.file(end)),
                device: "path0".into(),
                address: address.parse().expect("an address"),
            };
            let (a, b) = (format!("10.{net}.0.1/24"), format!("10.{net}.0.2/24"));
            let mut config = TunnelConfig::new(end(near, a), end(far, b));
            (config.up, config.down) = (path.clone(), path);
            config.seed = seed + net;
            // Two processors also have to run everything else.
            config.spin = std::time::Duration::ZERO;
            self.paths.push(Tunnel::start(config).expect("a path"));
            let router = format!("10.{net}.0.1");
            assert!(run(&["-n", &self.namespace(far), "route", "add", "default", "via", &router]));
            let (net, via) = (format!("10.{net}.0.0/24"), format!("10.{}.0.2", net - 2));
            assert!(run(&["-n", &self.namespace("s"), "route", "add", &net, "via", &via]));
            let mut forward = self.command(near, "sysctl", &["-qw", "net.ipv4.ip_forward=1"]);
            assert!(forward.status().is_ok_and(|status| status.success()));
        }
    }

    /// The path to the clients (0) or to the servers (1).
    pub(crate) fn path(&self, number: usize) -> &LinkHandle {
        &self.paths[number]
    }
}
