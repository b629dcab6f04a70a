//! An agent with users serves only clients that log in, each with the rights of its user; with a
//! certificate, it encrypts their connections. SIGHUP reads both again.

use std::{fs, path::Path, process::Command};

use crate::support::{
    cluster::cluster,
    database::Certificates,
    directory::{TemporaryDirectory, on_path},
    origins::{Redis, absent},
    raw::Raw,
    state::Agent,
};

const USERS: &str = "user default off\n\
    user admin on >pw ~* &* +@all\n\
    user app on >secret ~app:* %R~config:* +@all -@dangerous\n";

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
}

/// Has the agent read its files again; returns the line that it logs.
fn reload(agent: &Agent) -> String {
    agent.process().signal("HUP");
    let line = agent.process().stderr_line("SIGHUP: ");
    line.unwrap_or_else(|| panic!("{}", agent.process().stderr()))
}

#[test]
fn an_agent_with_users_serves_each_by_its_rights() {
    let Some(nodes) = cluster(&[]) else { return };
    let addresses: Vec<_> = nodes.iter().map(Redis::address).collect();
    let directory = TemporaryDirectory::create();
    let path = directory.path().join("users");
    write(&path, USERS);
    let file = path.to_str().expect("a plain path");
    let agent = Agent::start_with(&addresses, &["--users", file, "--log", "info"]);

    let mut client = Raw::connect(agent.address());
    client.ask("GET app:1", "-NOAUTH Authentication required.\r\n");
    client.ask("NOSUCH", "-NOAUTH Authentication required.\r\n");
    for password in ["wrong", "pw"] {
        client.command(&format!("AUTH app {password}"));
        let told = client.hear_line();
        assert!(told.starts_with("-WRONGPASS "), "{told}");
    }
    client.ask("AUTH app secret", "+OK\r\n");
    client.ask("ACL WHOAMI", "$3\r\napp\r\n");
    client.ask("SET app:1 x", "+OK\r\n");
    client.ask("GET config:1", "$-1\r\n");
    for refused in [
        "GET other",
        "SET config:1 x",
        "MGET app:1 other",
        "DEL app:1 config:1",
        "EVAL return 1 app:1",
        "FLUSHALL",
        "KEYS *",
    ] {
        client.command(refused);
        let told = client.hear_line();
        assert!(told.starts_with("-NOPERM "), "{refused}: {told}");
    }
    client.ask("MULTI", "+OK\r\n");
    client.command("SET other 1");
    assert!(client.hear_line().starts_with("-NOPERM "));
    client.command("EXEC");
    assert!(client.hear_line().starts_with("-EXECABORT "));

    // Ten arguments of 16 KiB at most before the login.
    let mut stranger = Raw::connect(agent.address());
    stranger.say("*11\r\n");
    stranger.hear("-ERR Protocol error: unauthenticated multibulk length\r\n");
    let url = format!("redis://admin:pw@{}", agent.address());
    let admin = redis::Client::open(url).and_then(|client| client.get_connection());
    let value: String =
        redis::cmd("GET").arg("app:1").query(&mut admin.expect("a login")).expect("a value");
    assert_eq!(value, "x");

    // A mistake changes nothing; a removed user is logged out, and a transaction is not executed
    // with other rights than it was queued with.
    write(&path, "user app on nonsense\n");
    assert!(reload(&agent).contains("nothing changed"), "{}", agent.process().stderr());
    client.ask("GET app:1", "$1\r\nx\r\n");
    let mut other = Raw::connect(agent.address());
    other.ask("AUTH admin pw", "+OK\r\n");
    other.ask("MULTI", "+OK\r\n");
    other.ask("SET app:1 y", "+QUEUED\r\n");
    write(&path, "user default off\nuser admin on >pw ~* &* +@all\n");
    agent.process().signal("HUP");
    assert!(agent.process().stderr_line("users and TLS files read again").is_some());
    client.ask("GET app:1", "-NOAUTH Authentication required.\r\n");
    client.hear_end();
    other.command("EXEC");
    assert!(other.hear_line().starts_with("-EXECABORT "));
    other.ask("GET app:1", "$1\r\nx\r\n");
}

#[test]
fn an_agent_encrypts_connections_of_clients() {
    if on_path("redis-cli").is_none() {
        absent::<()>("redis-cli is not on PATH");
        return;
    }
    let (Some(nodes), Some(files)) = (cluster(&[]), Certificates::create()) else { return };
    let addresses: Vec<_> = nodes.iter().map(Redis::address).collect();
    let [authority, cert, key] = files.paths();
    let options = ["--tls-cert", &cert, "--tls-key", &key, "--log", "info"];
    let agent = Agent::start_with(&addresses, &options);
    let cli = |tls: &[&str], words: &[&str]| {
        let port = agent.address().port().to_string();
        let mut command = Command::new("redis-cli");
        command.args(["-h", "localhost", "-p", &port]).args(tls).args(words);
        let output = command.output().expect("redis-cli runs");
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).trim().to_owned()
    };
    let tls = ["--tls", "--cacert", &authority];
    assert_eq!(cli(&tls, &["set", "a", "encrypted"]), "OK");
    assert_eq!(cli(&tls, &["get", "a"]), "encrypted");
    // Longer than a TLS record and than the socket buffer.
    assert_eq!(cli(&tls, &["setrange", "long", "3000000", "x"]), "3000001");
    assert_eq!(cli(&tls, &["get", "long"]).trim_start_matches('\0').len(), 1);
    assert!(cli(&[], &["ping"]).contains("TLS"), "{}", cli(&[], &["ping"]));

    // Another authority; clients of the first are refused, open connections continue.
    let Some(others) = Certificates::create() else { return };
    let [other_authority, other_cert, other_key] = others.paths();
    fs::copy(&other_key, &key).expect("a copy");
    assert!(reload(&agent).contains("nothing changed"), "{}", agent.process().stderr());
    assert_eq!(cli(&tls, &["get", "a"]), "encrypted");
    fs::copy(&other_cert, &cert).expect("a copy");
    agent.process().signal("HUP");
    assert!(agent.process().stderr_line("users and TLS files read again").is_some());
    assert_eq!(cli(&["--tls", "--cacert", &other_authority], &["get", "a"]), "encrypted");
    assert_ne!(cli(&tls, &["get", "a"]), "encrypted");
}
