//! For each listener, the bound on how long a write that bypasses the cache can stay unseen is
//! reported: at startup, as a metric and in the statistics.

use crate::support::{
    enroute::{Enroute, admin},
    process::free_address,
};

const LISTENERS: [(&str, &str, &str, &str); 4] = [
    ("mongodb", "", "40s (no feed", "40"),
    ("mongodb", "feed = {}", "5s (feed; while it is down, nothing is cached)", "5"),
    ("redis", "", "40s (no feed", "40"),
    ("redis", "feed = {}", "5s (feed; while it is down, nothing is cached)", "5"),
];

#[test]
fn each_listener_states_its_staleness_bound() {
    let mut config = "[admin]\nlisten = \"127.0.0.1:0\"\n[storage]\nttl = \"40s\"\n".to_owned();
    // No origin is running: the bound is known without it.
    let origins = LISTENERS.map(|_| free_address());
    for ((scheme, options, ..), origin) in LISTENERS.iter().zip(origins) {
        config.push_str(&format!(
            "[[listener]]\nlisten = \"{scheme}://127.0.0.1:0\"\norigin = \"{scheme}://{origin}\"\n{options}\n"
        ));
    }
    let enroute = Enroute::start_with_config(&["cache"], &config);
    let metrics = admin(enroute.admin_address(), "/metrics").body;
    let statistics = admin(enroute.admin_address(), "/stats").body;
    for ((scheme, _, stated, seconds), origin) in LISTENERS.iter().zip(origins) {
        let line = enroute.stderr_line(&format!(" -> {origin}"));
        let (url, _) = line.split_once(" -> ").expect("two parts");
        let line = enroute.stderr_line(&format!("{url}: "));
        let expected = "a write that bypasses the cache is visible after at most ";
        assert!(line.contains(&[expected, stated].concat()), "{line}");
        let sample = format!("protocol=\"{scheme}\",origin=\"{origin}\"}} {seconds}.0");
        let sampled = metrics.lines().any(|line| {
            line.starts_with("enroute_staleness_bound_seconds{") && line.ends_with(&sample)
        });
        assert!(sampled, "{sample}: {metrics}");
    }
    for seconds in ["40.0", "5.0"] {
        let field = format!("\"staleness_bound_seconds\": {seconds}");
        assert_eq!(statistics.matches(&field).count(), 2, "{field}: {statistics}");
    }
}
