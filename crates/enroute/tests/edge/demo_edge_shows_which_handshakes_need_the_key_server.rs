//! `enroute demo edge`: returning visitors are served without the key server, new ones are not.
use crate::support::{directory::on_path, enroute::Enroute, origins::absent};

#[test]
#[ignore = "twenty seconds: make soak"]
fn the_table_tells() {
    if on_path("curl").is_none() {
        return absent("curl is not on PATH").unwrap_or(());
    }
    let ended = Enroute::start(&["demo", "edge", "--keys", "2000", "--json"]).wait();
    assert!(ended.status.success(), "{}", ended.stderr);
    let table: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let rows: Vec<&str> = vec!["up", "killed", "back"];
    for (row, phase) in table.as_array().expect("rows").iter().zip(rows) {
        let count = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("no {name}: {row}"));
        assert_eq!(row["key_server"], phase);
        assert!(count("returning_ok") > 0 && count("returning_failed") == 0, "{table:#}");
        let (good, bad) = (count("new_ok"), count("new_failed"));
        assert!(
            if phase == "killed" { good == 0 && bad > 0 } else { good > 0 && bad == 0 },
            "{table:#}"
        );
    }
    assert!(ended.stderr.contains("in the database, sealed: 2000,"), "{}", ended.stderr);
    assert!(ended.stderr.contains("alert internal error"), "{}", ended.stderr);
}

#[test]
fn without_curl_it_says_so_before_anything_else() {
    let mut command = std::process::Command::new(crate::support::enroute::program());
    command.args(["demo", "edge"]).env("PATH", "/nowhere");
    let ended = crate::support::process::Process::start(&mut command).wait();
    assert!(!ended.status.success());
    assert!(
        ended.stderr.contains("curl") && ended.stderr.contains("install it"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("database"), "{}", ended.stderr);
}
