//! `enroute switch attach` fails: a controller is already running, its UDP port is in use, an
//! interface does not exist, or another program is attached there. The previous state remains;
//! there is never a program without a controller.

use std::process::Command;

use crate::rack::{Rack, SERVER};

/// The XDP program at an interface of the switch, as the kernel names it.
fn program_at(rack: &Rack, interface: &str) -> Option<String> {
    rack.within("s", || {
        let shown = Command::new("ip").args(["-d", "link", "show", interface]).output();
        let shown = String::from_utf8(shown.expect("ip runs").stdout).expect("text");
        let id = shown.split("prog/xdp id ").nth(1)?;
        id.split_whitespace().next().map(ToOwned::to_owned)
    })
}

#[test]
fn a_second_controller_does_not_replace_the_first() {
    let Some(mut rack) = Rack::build() else { return };
    rack.attach(&[]);
    let first = program_at(&rack, "client0").expect("a program is attached");
    let same = ["attach", "--interface", "client0", "--server-interface", "server0"];
    let refused = rack.refusal(&same);
    assert!(refused.contains("is controlled by process "), "{refused}");
    assert!(refused.contains("stop that process, or use another --pins"), "{refused}");
    assert_eq!(program_at(&rack, "client0"), Some(first.clone()));

    // With its own pins, it finds the port in use.
    let other = rack.said_by("s", &same);
    assert!(other.contains("cannot listen for agents on UDP port 50001"), "{other}");
    assert_eq!(program_at(&rack, "client0"), Some(first));
}

#[test]
fn an_interface_that_is_absent_or_taken_leaves_no_program_without_a_controller() {
    let Some(mut rack) = Rack::build() else { return };
    let controller = rack.attach(&[]);
    rack.kill(controller);
    let first = program_at(&rack, "client0").expect("the program stays");
    let refused = rack.refusal(&["attach", "--interface", "client0", "--interface", "absent0"]);
    assert!(refused.contains("absent0 does not exist"), "{refused}");
    let port = ["--server-interface", "server0", "--netcache-port", "65535"];
    let refused = rack.refusal(&[&["attach"][..], &port].concat());
    assert!(refused.contains("expected 0 to 65534, got 65535"), "{refused}");
    assert_eq!(program_at(&rack, "client0"), Some(first));

    rack.enroute("s", &["detach"]);
    let v2p = ["v2p", "attach", "--role", "core", "--id", "0", "--gateway", SERVER];
    rack.enroute("s", &[&v2p[..], &["--interface", "server0"]].concat());
    let resolver = program_at(&rack, "server0");
    let refused = rack.refusal(&["attach", "--interface", "client0", "--interface", "server0"]);
    assert!(refused.contains("another XDP program is attached there"), "{refused}");
    assert!(refused.contains("enroute switch v2p detach"), "{refused}");
    assert_eq!(program_at(&rack, "client0"), None, "it has no controller");
    assert!(!rack.pins.exists(), "its maps are left behind");
    assert!(rack.refusal(&["status"]).contains("run `enroute switch attach`"));
    assert_eq!(program_at(&rack, "server0"), resolver);
}
