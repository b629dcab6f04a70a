//! Compares the scripts, as they are sent, with the model of their steps (`cluster/steps.rs`): two
//! real nodes are set to every small state, execute the step, and must then have the state of the
//! model.
//!
//! The nodes do not gossip, because neither has the other's address: only the test changes their
//! state. Valkey 9 considers such nodes failed and moves slots, so the nodes are redis-server
//! processes.

use std::collections::BTreeMap;

use wire::resp::Reply;

use self::nodes::Nodes;
use super::{
    cluster::{Cluster, Noted, Server, slot},
    *,
};

mod nodes;
#[path = "../../../tests/server/mod.rs"]
#[expect(unreachable_pub, dead_code, reason = "shared with the tests of fences")]
mod server;

const SOURCE: Node = Node(0);
const THIRD: Node = Node(1);
const TARGET: Node = Node(2);

/// The turn of the steps. Notes are of this turn or of another.
const TURN: u64 = 7;

#[test]
fn scripts_do_to_real_nodes_what_steps_do_to_the_model() {
    let Some(program) = server::redis() else { return };
    let mut nodes = Nodes::start(&program);
    let single = [(SOURCE, at_source()), (TARGET, at_target())];
    let mut all: Vec<(Cluster, Node, Step)> =
        single.iter().flat_map(|(at, steps)| small_states(*at, steps)).collect();
    all.extend(moves());
    assert!(all.len() > 1_000, "{}", all.len());
    let differ = all.iter().filter_map(|(before, at, step)| nodes.compare(before, *at, step));
    let differ: Vec<String> = differ.collect();
    let shown = differ.iter().take(40).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(differ.is_empty(), "{} of {} differ:\n{shown}", differ.len(), all.len());
    nodes.owes_an_answer();
}

fn at_source() -> Vec<Step> {
    let value = |key: u8, value: u64| {
        let value = value.to_le_bytes().to_vec();
        Value { key: vec![key], value, expires_ms: 0 }
    };
    vec![
        Step::Turn { to: TARGET, turn: TURN },
        Step::Turn { to: TARGET, turn: TURN + 1 },
        Step::Send { to: TARGET, turn: TURN },
        Step::Restore { to: TARGET, values: vec![value(0, 3)] },
        Step::Restore { to: TARGET, values: vec![value(0, 3), value(1, 4)] },
        Step::Own { owner: TARGET },
        Step::Stable,
    ]
}

fn at_target() -> Vec<Step> {
    let keys = |keys: &[u8]| keys.iter().map(|&key| vec![key]).collect::<Vec<_>>();
    vec![
        Step::Import { from: SOURCE },
        Step::Settle { batch: TURN, keys: keys(&[]) },
        Step::Settle { batch: TURN, keys: keys(&[0]) },
        Step::Own { owner: TARGET },
        Step::Keys,
        Step::Read { from: SOURCE, keys: keys(&[0, 1]) },
        Step::Drop { from: SOURCE, keys: keys(&[0]) },
        Step::Stable,
    ]
}

/// Every state of one node that a move can meet, with every step; the other node is empty.
fn small_states(at: Node, steps: &[Step]) -> Vec<(Cluster, Node, Step)> {
    let mut all = Vec::new();
    for server in servers(at, 2) {
        for step in steps.iter().filter(|step| meets(&server, step)) {
            all.push((cluster(&[(at, &server)]), at, step.clone()));
        }
    }
    all
}

/// Every state of a source with those of a target that matter to a MIGRATE.
fn moves() -> Vec<(Cluster, Node, Step)> {
    let step = Step::Move { to: TARGET, turn: TURN };
    let targets = servers(TARGET, 1);
    let is_other = |note: &Option<Noted>| note.as_ref().is_none_or(|(turn, ..)| *turn != TURN);
    let targets = targets.iter().filter(|target| is_other(&target.note));
    let mut all = Vec::new();
    for source in servers(SOURCE, 2).iter().filter(|source| meets(source, &step)) {
        for target in targets.clone() {
            all.push((cluster(&[(SOURCE, source), (TARGET, target)]), SOURCE, step.clone()));
        }
    }
    all
}

/// Whether a node can have this state when it executes a step. Only the target has a note of the
/// turn without owning the slot, and no slot moves to its owner.
fn meets(server: &Server, step: &Step) -> bool {
    let at_source = matches!(step, Step::Send { .. } | Step::Restore { .. } | Step::Move { .. });
    !(at_source && server.importing.is_some())
}

fn cluster(servers: &[(Node, &Server)]) -> Cluster {
    let mut cluster = Cluster::new(0);
    cluster.loses = false;
    for &(node, server) in servers {
        *cluster.at(node) = server.clone();
    }
    cluster
}

/// Returns the states of a node with up to this number of keys.
fn servers(at: Node, keys_max: u8) -> Vec<Server> {
    let other = if at == SOURCE { TARGET } else { SOURCE };
    let owns = |owner: Node| (0, owner.0);
    let mut open =
        vec![(owns(at), None, None), (owns(other), None, None), (owns(other), None, Some(other))];
    if at == SOURCE {
        open.extend([TARGET, THIRD].map(|to| (owns(at), Some(to), None)));
    }
    let noted = |keys: &[u8]| keys.iter().map(|&key| vec![key]).collect::<Vec<_>>();
    let notes: [Option<Noted>; 4] = [
        None,
        Some((TURN, TURN, vec![])),
        Some((TURN, TURN, noted(&[0]))),
        Some((TURN - 1, TURN - 2, noted(&[0, 1]))),
    ];
    let mut all = Vec::new();
    for (owner, migrating, importing) in open {
        for kept in 0..1_u8 << keys_max {
            let keys = (0..keys_max).filter(|key| kept >> key & 1 == 1);
            let keys = keys.map(|key| (key, u64::from(at.0) + 1)).collect::<BTreeMap<_, _>>();
            for note in &notes {
                let (keys, note) = (keys.clone(), note.clone());
                all.push(Server { keys, migrating, importing, owner, note, ..Server::default() });
            }
        }
    }
    all
}
