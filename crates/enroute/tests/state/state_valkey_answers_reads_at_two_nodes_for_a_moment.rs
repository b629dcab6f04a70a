//! Shows why histories with Valkey leave out reads of a slot during its handover
//! (`support/handover.rs`): the source of a slot serves reads of it until it has learned over the
//! cluster bus that the target has taken it, while the target already accepts writes. If an engine
//! no longer does this, the test fails, and the exception has to be removed.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use crate::support::cluster::{bus_behind_link, connection, valkey};
use crate::support::handover::handovers;
use crate::support::origins::Redis;
use crate::support::state::{owner_now, slot_of, tags_at, wait_for};
use redis::{Connection, cmd};

const SOURCE: usize = 0;
const TARGET: usize = 1;
const OTHER: usize = 2;
/// Less than the time for which the source refuses writes.
const LATE: Duration = Duration::from_millis(1_500);

#[test]
fn a_deleted_key_is_read_at_the_node_that_its_slot_has_left() {
    let Some(mut nodes) = valkey(&[]) else { return };
    let start = SystemTime::now();
    let addresses: Vec<SocketAddr> = nodes.iter().map(Redis::address).collect();
    // Delays the messages of other nodes to the source, and their replies to it.
    let source_bus = bus_behind_link(&mut nodes, SOURCE, &[TARGET, OTHER]);
    let target_bus = bus_behind_link(&mut nodes, TARGET, &[SOURCE, OTHER]);
    let [tag, ..] = tags_at(&addresses, SOURCE);
    let (slot, key) = (slot_of(&tag), format!("{tag}:key"));
    let [mut source, mut target] = [SOURCE, TARGET].map(|node| connection(addresses[node]));
    cmd("SET").arg(&key).arg("before").exec(&mut source).expect("it is set");

    source_bus.set_delay(LATE, Duration::ZERO);
    target_bus.set_delay(Duration::ZERO, LATE);
    let target_id: String = cmd("CLUSTER").arg("MYID").query(&mut target).expect("its name");
    let mut migrate = cmd("CLUSTER");
    migrate.arg("MIGRATESLOTS").arg("SLOTSRANGE").arg(slot).arg(slot);
    migrate.arg("NODE").arg(target_id).exec(&mut source).expect("it moves it");
    let has_it = || owner_now(&addresses[TARGET..=TARGET], slot).is_some();
    wait_for(has_it, || nodes[SOURCE].log());

    let deleted: usize = cmd("DEL").arg(&key).query(&mut target).expect("its owner takes it");
    let read = get(&mut source, &key);
    assert_eq!((deleted, read), (1, Ok(Some("before".to_owned()))), "{}", nodes[SOURCE].log());
    let during = start.elapsed().expect("a monotonic clock");

    let is_heard = || get(&mut connection(addresses[SOURCE]), &key).is_err();
    wait_for(is_heard, || nodes[SOURCE].log());
    let found = handovers(&nodes[SOURCE].log(), start);
    let [handover] = &found[..] else { panic!("{found:?} in\n{}", nodes[SOURCE].log()) };
    assert_eq!(handover.slots, (slot, slot));
    assert!(handover.begins <= during && during <= handover.ends, "{during:?} is not in {found:?}");
}

fn get(node: &mut Connection, key: &str) -> Result<Option<String>, String> {
    cmd("GET").arg(key).query(node).map_err(|error| error.to_string())
}
