//! On nodes with authentication, agents, movers and placers log in as one user of the nodes' access
//! control list on every node; without a valid login they get an error.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use crate::support::cluster::{NODES, cluster, connection};
use crate::support::directory::TemporaryDirectory;
use crate::support::origins::Redis;
use crate::support::process::PATIENCE;
use crate::support::state::{Agent, placer_with, said, until_copied};
use redis::cmd;

const KEYS: usize = 500;

fn direct(node: SocketAddr) -> redis::Connection {
    let client = redis::Client::open(format!("redis://mover:secret@{node}/")).expect("a URL");
    client.get_connection().expect("the user may come in")
}

/// Index of the owner of the slot of `{foo}`.
fn owner(nodes: &[SocketAddr]) -> usize {
    let owns = |node: &SocketAddr| {
        cmd("GET").arg("{foo}0").query::<Option<String>>(&mut direct(*node)).is_ok()
    };
    let started = Instant::now();
    loop {
        if let Some(node) = nodes.iter().position(owns) {
            return node;
        }
        assert!(started.elapsed() < PATIENCE, "the slot has no owner");
    }
}

/// Allows only the user `mover` with the password `secret`.
fn require_login(nodes: &[Redis]) {
    for node in nodes {
        let mut direct = node.connection();
        let user = ["SETUSER", "mover", "on", ">secret", "~*", "&*", "+@all"];
        cmd("ACL").arg(&user).exec(&mut direct).expect("a user");
        cmd("ACL")
            .arg(&["SETUSER", "default", "off"])
            .exec(&mut direct)
            .expect("the default user is disabled");
    }
}

#[test]
fn one_user_serves_moves_and_copies() {
    let Some(redis) = cluster(&[]) else { return };
    let nodes: Vec<SocketAddr> = redis.iter().map(Redis::address).collect();
    require_login(&redis);
    let directory = TemporaryDirectory::create();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, own).expect("its own file");
        path.to_string_lossy().into_owned()
    };
    let (right, wrong) = (file("right", "secret\n"), file("wrong", "guess\n"));
    let login = ["--user", "mover", "--password-file", &right];

    let agent = Agent::start_with(&nodes, &login);
    let mut client = connection(agent.address());
    let mut pipeline = redis::pipe();
    for number in 0..KEYS {
        pipeline.cmd("SET").arg(format!("{{foo}}{number}")).arg(number).ignore();
    }
    pipeline.query::<()>(&mut client).expect("the agent is let in");
    let url = format!("redis://{}/?protocol=resp3", agent.address());
    let mut third = redis::Client::open(url).expect("a URL").get_connection().expect("RESP3");
    let value: usize = cmd("GET").arg("{foo}7").query(&mut third).expect("a value");
    assert_eq!(value, 7);

    // MIGRATE needs a client that has logged in at both nodes.
    for _ in 0..2 {
        let to = (owner(&nodes) + 1) % NODES;
        let target = nodes[to].to_string();
        let (output, text) =
            said(&nodes, &[&["move", "{foo}", "--to", &target][..], &login].concat());
        assert!(output.status.success(), "{text}");
        assert_eq!(owner(&nodes), to);
        let keys: Vec<String> = (0..KEYS).map(|number| format!("{{foo}}{number}")).collect();
        let values: Vec<Option<usize>> = cmd("MGET").arg(&keys).query(&mut client).expect("all");
        assert!(values.into_iter().eq((0..KEYS).map(Some)), "keys were lost on the way");
    }

    // Copies use a connection that has logged in, too.
    let slot: u16 =
        cmd("CLUSTER").arg("KEYSLOT").arg("{foo}").query(&mut direct(nodes[0])).expect("one");
    cmd("SET").arg("{enroute}:copies").arg(slot).exec(&mut client).expect("it is set");
    until_copied(&mut client, "{foo}0", &nodes, direct);

    // The placer receives the agent's reports.
    let why = || said(&nodes, &[&["why", "{foo}0"][..], &login].concat()).1;
    let placer = placer_with(&nodes, "placer", &login);
    assert!(placer.stderr_line("this placer leads").is_some(), "{}", placer.stderr());
    let started = Instant::now();
    while !why().contains("used by ") {
        let value: usize = cmd("GET").arg("{foo}0").query(&mut client).expect("a value");
        assert_eq!(value, 0);
        assert!(started.elapsed() < PATIENCE, "{}\n{}", why(), placer.stderr());
    }

    // A missing or wrong password is an error.
    for options in [vec![], vec!["--user", "mover", "--password-file", &wrong]] {
        let (output, text) = said(&nodes, &[&["status"], &options[..]].concat());
        let tells = text.contains("NOAUTH") || text.contains("WRONGPASS");
        assert!(!output.status.success() && tells, "{text}");
    }
    let stranger = Agent::start(&nodes);
    let mut client = connection(stranger.address());
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let told =
        cmd("GET").arg("{foo}0").query::<String>(&mut client).expect_err("login is required");
    assert!(told.to_string().contains("NOAUTH"), "{told}");
}
