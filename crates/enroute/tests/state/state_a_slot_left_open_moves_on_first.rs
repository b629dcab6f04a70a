//! A slot with an open move to one node has to move to another: its keys are at both nodes, and all
//! of them arrive.

use crate::support::cluster::{cluster, connection};
use crate::support::origins::Redis;
use crate::support::state::{owner, said, slot_of, tags_at};
use redis::cmd;

const SOURCE: usize = 0;
const FIRST: usize = 1;
const THEN: usize = 2;
const KEYS: usize = 8;

#[test]
fn state_a_slot_left_open_moves_on_first() {
    let Some(nodes) = cluster(&[]) else { return };
    let addresses: Vec<_> = nodes.iter().map(Redis::address).collect();
    let [tag, ..] = tags_at(&addresses, SOURCE);
    let slot = slot_of(&tag);
    let [source, first] = [SOURCE, FIRST].map(|node| connection(addresses[node]));
    let (mut source, mut first) = (source, first);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("{tag}:{number}")).collect();
    for key in &keys {
        cmd("SET").arg(key).arg(1).exec(&mut source).expect("it is set");
    }
    let id = |node: &mut redis::Connection| -> String {
        cmd("CLUSTER").arg("MYID").query(node).expect("its name")
    };
    let (source_id, first_id) = (id(&mut source), id(&mut first));
    let set = |how: &str, other: &str, node: &mut redis::Connection| {
        let mut command = cmd("CLUSTER");
        command.arg("SETSLOT").arg(slot).arg(how).arg(other).exec(node).expect("it is open");
    };
    set("IMPORTING", &source_id, &mut first);
    set("MIGRATING", &first_id, &mut source);
    let to = addresses[FIRST];
    let mut migrate = cmd("MIGRATE");
    migrate.arg(to.ip().to_string()).arg(to.port()).arg("").arg(0).arg(5_000).arg("KEYS");
    migrate.arg(&keys[..KEYS / 2]).exec(&mut source).expect("half of them have gone");

    let (output, text) = said(&addresses, &["move", &tag, "--to", &addresses[THEN].to_string()]);
    assert!(output.status.success(), "{text}");
    assert_eq!(owner(&addresses, slot), THEN);
    let mut then = connection(addresses[THEN]);
    for key in &keys {
        let found: Option<usize> = cmd("GET").arg(key).query(&mut then).expect("an answer");
        assert_eq!(found, Some(1), "{key}");
    }
}
