//! The agent authenticates to the cluster on behalf of its clients: without users of its own, it
//! logs a warning at startup if other machines can reach it.

use crate::support::{
    directory::TemporaryDirectory, origins::Redis, process::Process, state::by_hand,
};

#[test]
fn an_agent_that_other_machines_reach_warns() {
    // There is no node; the agent starts nevertheless.
    let nodes = ["127.0.0.1:1".parse().expect("an address")];
    let started_with = |listen: &str, options: &[&str]| {
        let words = [&["agent", "--listen", listen], options].concat();
        let process = Process::start(&mut by_hand(&nodes, &words));
        assert!(process.stderr_line(" -> ").is_some(), "{}", process.stderr());
        process.terminate().stderr
    };
    let started = |listen: &str| started_with(listen, &[]);
    let told = started("0.0.0.0:0");
    assert!(
        told.contains("does not authenticate its clients") && told.contains("127.0.0.1"),
        "{told}"
    );
    assert_eq!(told.matches("does not authenticate").count(), 1, "once is enough: {told}");
    assert!(!started("127.0.0.1:0").contains("does not authenticate"));
    let directory = TemporaryDirectory::create();
    let path = directory.path().join("users");
    let users = ["--users", path.to_str().expect("a plain path")];
    let with = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        started_with("0.0.0.0:0", &users)
    };
    assert!(!with("user default on >secret ~* &* +@all\n").contains("does not authenticate"));
    // The default user needs no password.
    assert!(with("user app on >secret ~* +@all\n").contains("does not authenticate"));
}

#[test]
fn an_agent_before_a_node_that_is_not_of_a_cluster_says_so() {
    let Some(node) = Redis::start() else { return };
    let listen = ["agent", "--listen", "127.0.0.1:0"];
    let process = Process::start(&mut by_hand(&[node.address()], &listen));
    let told = process.stderr_line("cannot read the slots of the cluster");
    let told = told.unwrap_or_else(|| panic!("{}", process.stderr()));
    assert!(told.contains("--cluster") && told.contains("cluster support disabled"), "{told}");
}

#[test]
fn an_agent_with_more_memory_than_the_machine_has_does_not_start() {
    let nodes = ["127.0.0.1:1".parse().expect("an address")];
    let options = ["agent", "--listen", "127.0.0.1:0", "--memory", "900000GB"];
    let ended = Process::start(&mut by_hand(&nodes, &options)).wait();
    let told = &ended.stderr;
    assert!(!ended.status.success() && told.contains("the machine has"), "{told}");
}
