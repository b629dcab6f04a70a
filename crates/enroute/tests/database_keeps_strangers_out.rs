//! Users, passwords and encryption of `enroute db`, with redis-cli as the client.

mod support;

use std::process::Command;

use support::{
    database::{Certificates, Database},
    directory::on_path,
    origins,
};

/// What redis-cli prints.
fn cli(database: &Database, options: &[&str], words: &[&str]) -> String {
    let port = database.address().port().to_string();
    let output = Command::new("redis-cli").args(["-p", &port]).args(options).args(words).output();
    let output = output.expect("redis-cli runs");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

fn installed() -> bool {
    on_path("redis-cli").is_some() || origins::absent::<()>("redis-cli is not on PATH").is_some()
}

#[test]
fn a_password_is_asked_for_and_users_are_kept_apart() {
    if !installed() {
        return;
    }
    let mut database = Database::start_with(&["--password", "open"]);
    assert_eq!(cli(&database, &[], &["get", "a"]), "NOAUTH Authentication required.");
    assert!(
        cli(&database, &["-a", "wrong", "--no-auth-warning"], &["get", "a"]).contains("WRONGPASS")
    );
    let admin = ["-a", "open", "--no-auth-warning"];
    assert_eq!(cli(&database, &admin, &["set", "app:1", "x"]), "OK");
    let rules = ["acl", "setuser", "app", "on", ">pw", "~app:*", "+get", "+set", "+acl|whoami"];
    assert_eq!(cli(&database, &admin, &rules), "OK");
    let app = ["--user", "app", "--pass", "pw", "--no-auth-warning"];
    assert_eq!(cli(&database, &app, &["acl", "whoami"]), "app");
    assert_eq!(cli(&database, &app, &["get", "app:1"]), "x");
    assert!(cli(&database, &app, &["get", "other"]).starts_with("NOPERM"));
    assert!(cli(&database, &app, &["del", "app:1"]).starts_with("NOPERM"));
    let listed = cli(&database, &admin, &["acl", "list"]);
    assert!(
        listed.contains("#30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4"),
        "{listed}"
    );
    assert!(!listed.contains("pw "), "a password is shown: {listed}");
    assert_eq!(cli(&database, &admin, &["acl", "deluser", "app"]), "1");
    assert!(cli(&database, &app, &["get", "app:1"]).contains("WRONGPASS"));
    database.terminate();
}

#[test]
fn users_outlive_a_restart_in_their_file() {
    if !installed() {
        return;
    }
    let file = support::directory::TemporaryDirectory::create();
    let path = file.path().join("users.acl");
    let mut database = Database::start_with(&["--users", path.to_str().expect("a plain path")]);
    assert_eq!(
        cli(&database, &[], &["acl", "setuser", "kept", "on", ">secret", "~*", "+@all"]),
        "OK"
    );
    assert_eq!(cli(&database, &[], &["acl", "save"]), "OK");
    assert!(!std::fs::read_to_string(&path).expect("it was saved").contains("secret"));
    database.bring_down();
    database.bring_up();
    let kept = ["--user", "kept", "--pass", "secret", "--no-auth-warning"];
    assert_eq!(cli(&database, &kept, &["ping"]), "PONG");
}

#[test]
fn connections_are_encrypted() {
    if !installed() {
        return;
    }
    let Some(files) = Certificates::create() else { return };
    let [authority, cert, key] = files.paths();
    let database = Database::start_with(&["--tls-cert", &cert, "--tls-key", &key]);
    let tls = ["-h", "localhost", "--tls", "--cacert", &authority];
    assert_eq!(cli(&database, &tls, &["set", "a", "encrypted"]), "OK");
    assert_eq!(cli(&database, &tls, &["get", "a"]), "encrypted");
    // Longer than a record and than what the socket takes at once.
    assert_eq!(cli(&database, &tls, &["setrange", "long", "3000000", "x"]), "3000001");
    assert_eq!(cli(&database, &tls, &["get", "long"]).trim_start_matches('\0').len(), 1);
    assert_ne!(cli(&database, &["-h", "localhost"], &["ping"]), "PONG");
    let strict =
        Database::start_with(&["--tls-cert", &cert, "--tls-key", &key, "--tls-ca", &authority]);
    assert_ne!(cli(&strict, &tls, &["ping"]), "PONG");
    let known = [&tls[..], &["--cert", &cert, "--key", &key]].concat();
    assert_eq!(cli(&strict, &known, &["ping"]), "PONG");
}
