//! Users, passwords and encryption of `enroute db`, with redis-cli as the client.

use std::{fs::Permissions, os::unix::fs::PermissionsExt, process::Command};

use crate::support::{
    database::{Certificates, Database},
    directory::on_path,
    frames::Side,
    origins,
    process::Process,
};

/// Returns the output of redis-cli.
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
    let file = crate::support::directory::TemporaryDirectory::create();
    let path = file.path().join("users.acl");
    std::fs::write(&path, "").expect("a file");
    let mut database = Database::start_with(&["--users", path.to_str().expect("a plain path")]);
    assert_eq!(
        cli(&database, &[], &["acl", "setuser", "kept", "on", ">secret", "~*", "+@all"]),
        "OK"
    );
    assert_eq!(cli(&database, &[], &["acl", "save"]), "OK");
    assert!(!std::fs::read_to_string(&path).expect("it was saved").contains("secret"));
    let mode = std::fs::metadata(&path).expect("it was saved").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others can read the hashes of passwords");
    database.bring_down();
    database.bring_up();
    let kept = ["--user", "kept", "--pass", "secret", "--no-auth-warning"];
    assert_eq!(cli(&database, &kept, &["ping"]), "PONG");
}

fn refused(directory: &std::path::Path, options: &[&str]) -> String {
    let mut command = Command::new(crate::support::enroute::program());
    command.args(["db", "--listen", "127.0.0.1:0", "--dir"]).arg(directory.join("data"));
    let ended = Process::start(command.args(options)).wait();
    assert!(!ended.status.success(), "{options:?} are taken");
    ended.stderr
}

#[test]
fn files_that_cannot_keep_strangers_out_are_refused() {
    let directory = crate::support::directory::TemporaryDirectory::create();
    let path = directory.path().join("file");
    let file = path.to_str().expect("a plain path");
    let write = |text: &str, mode: u32| {
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its own file");
    };
    // A missing ACL file would admit every client.
    let told = refused(directory.path(), &["--users", file]);
    assert!(told.contains("cannot read the users file") && told.contains(file), "{told}");
    for mode in [0o666, 0o620, 0o602] {
        write("user app on >pw ~* +@all\n", mode);
        let told = refused(directory.path(), &["--users", file]);
        assert!(told.contains("can write it") && told.contains("chmod 600"), "{told}");
    }
    write("user app on >pw ~* +@all\nuser default off\n", 0o644);
    let database = Database::start_with(&["--users", file]);
    assert!(
        database
            .process()
            .stderr_line("can read the password")
            .is_some_and(|line| line.contains("chmod 600"))
    );
    drop(database);

    write("secret\nmore\n", 0o644);
    let told = refused(directory.path(), &["--password-file", file]);
    assert!(told.contains("can read it") && told.contains("chmod 600"), "{told}");
    write("\nsecret\n", 0o600);
    assert!(refused(directory.path(), &["--password-file", file]).contains("first line is empty"));
    let absent = directory.path().join("absent");
    let absent = absent.to_str().expect("a plain path");
    assert!(refused(directory.path(), &["--password-file", absent]).contains("cannot read"));
    write("secret\nmore\n", 0o600);
    let database = Database::start_with(&["--password-file", file]);
    let mut side = Side::connect(database.address());
    assert!(side.words("GET k").starts_with(b"-NOAUTH"));
    assert_eq!(side.words("AUTH secret"), b"+OK\r\n");
    // `ps` shows arguments, so they must not contain the password.
    let arguments = std::fs::read(format!("/proc/{}/cmdline", database.process().id()));
    assert!(!String::from_utf8_lossy(&arguments.expect("it runs")).contains("secret"));
}

#[test]
fn a_database_without_a_password_logs_a_warning() {
    let directory = crate::support::directory::TemporaryDirectory::create();
    let path = directory.path().join("users");
    std::fs::write(&path, "user app on >pw ~* +@all\n").expect("a file");
    let users = path.to_str().expect("a plain path");
    // An ACL file without the default user leaves that user enabled without a password.
    for options in [&[][..], &["--users", users]] {
        let mut command = Command::new(crate::support::enroute::program());
        command.args(["db", "--listen", "0.0.0.0:0", "--dir"]).arg(directory.path().join("data"));
        let process = Process::start(command.args(options));
        assert!(process.stderr_line(" stores its data in ").is_some(), "{}", process.stderr());
        assert!(
            process.stderr().contains("every client that can connect"),
            "{options:?}: {}",
            process.stderr()
        );
        process.terminate();
    }
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
    // Longer than a TLS record and than the socket buffer.
    assert_eq!(cli(&database, &tls, &["setrange", "long", "3000000", "x"]), "3000001");
    assert_eq!(cli(&database, &tls, &["get", "long"]).trim_start_matches('\0').len(), 1);
    assert_ne!(cli(&database, &["-h", "localhost"], &["ping"]), "PONG");
    let strict =
        Database::start_with(&["--tls-cert", &cert, "--tls-key", &key, "--tls-ca", &authority]);
    assert_ne!(cli(&strict, &tls, &["ping"]), "PONG");
    let known = [&tls[..], &["--cert", &cert, "--key", &key]].concat();
    assert_eq!(cli(&strict, &known, &["ping"]), "PONG");
}
