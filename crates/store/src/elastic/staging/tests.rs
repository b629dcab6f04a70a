use std::time::Duration;

use super::*;
use crate::device::{DeviceCommand, Operation, carry_out};
use crate::elastic::log::Who;
use crate::elastic::pointing::point_to;
use crate::elastic::record::Address;
use crate::elastic::record::Kind;
use crate::elastic::{Config, Elastic, Sync};
use crate::{Faults, SimulatedDevice};

const NOW: Duration = Duration::from_secs(1_700_000_000);
/// Hash of all keys in these tests.
const HASH: u64 = 7;
/// A segment has room for one such record, so all records have the same offset.
static VALUE: [u8; 40_000] = [1; 40_000];

/// Completes requests of the device until there are no more.
fn rest(store: &mut Elastic, device: &SimulatedDevice) {
    while let Some(command) = store.poll_device(NOW) {
        store.complete(carry_out(device, &command), NOW);
    }
}

/// Appends a record of `key` and points the table to it, in place of `from` if given.
fn put(store: &mut Elastic, device: &SimulatedDevice, key: &[u8], from: Option<Slot>) -> Slot {
    let body = Body { version: 1, expires_at: Expiry::NEVER, value: &VALUE };
    let record =
        Record { kind: Kind::Put, more: false, durable: 0, kills: Address::NONE, key, body };
    let (location, class) = store.log.append(Who::Mover, HASH, record, NOW).expect("appended");
    let slot = Slot { location, class };
    point_to(&mut store.log, &mut store.table, HASH, from, slot);
    rest(store, device);
    slot
}

/// The next command, which reads the record of `slot`.
fn reads(store: &mut Elastic, slot: Slot) -> DeviceCommand {
    let command = store.poll_device(NOW).expect("a command");
    let number = store.log.segments.address(slot.location).segment();
    assert_eq!(command.file, FileName::Segment(number), "{command:?}");
    assert!(matches!(command.operation, Operation::Read { .. }), "{command:?}");
    command
}

/// A lookup has read one record of its hash and waits for the next. Compaction then empties the
/// segment of the first record and writes the record that is looked up to the same address.
#[test]
fn a_record_that_comes_to_a_place_of_before_is_not_taken_for_tried() {
    let device = SimulatedDevice::new(1, Faults::default());
    let config = Config {
        memory_bytes: Elastic::MEMORY_BYTES_MIN,
        segment_bytes: 64 << 10,
        sync: Sync::Always,
        ..Config::default()
    };
    let mut store = Elastic::open(config, &device, NOW).expect("opens");
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    let put_first = |key: &&[u8]| put(&mut store, &device, key, None);
    let records: Vec<Slot> = keys.iter().map(put_first).collect();
    // Lookups read the records in this order.
    let order = store.table.candidates(HASH);
    let key = |slot: Slot| keys[records.iter().position(|record| *record == slot).expect("put")];
    let [tried, next, wanted] = order[..] else { panic!("{order:?}") };

    let staged = StagedKey::Key(key(wanted).into());
    let ticket = store.stage(&staged, HASH);
    let command = reads(&mut store, tried);
    store.complete(carry_out(&device, &command), NOW);
    let under_way = reads(&mut store, next);

    put(&mut store, &device, key(tried), Some(tried));
    let position = store.log.want_durable();
    let segment = store.log.segments.slot(tried.location);
    store.log.segments.doom(segment, position.0);
    rest(&mut store, &device);
    let moved = put(&mut store, &device, key(wanted), Some(wanted));
    assert_eq!(moved.location, tried.location);

    store.complete(carry_out(&device, &under_way), NOW);
    rest(&mut store, &device);
    assert_eq!(store.poll_loaded(), Some(ticket));
    let state = store.staging.of_key(key(wanted));
    assert!(matches!(state, Some(State::Body { .. })), "{state:?}");
}
