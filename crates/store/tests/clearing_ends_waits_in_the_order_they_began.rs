//! Clearing the store ends every wait. Tickets are returned in the order in which their waits
//! began, so that commands resume in the same order in every process.

use std::iter::from_fn;
use std::time::Duration;

use store::device::carry_out;
use store::elastic::{Config, Elastic, Load, Sync};
use store::{Faults, SimulatedDevice};

const NOW: Duration = Duration::from_secs(1_700_000_000);
const KEYS: u64 = 50;

#[test]
fn with_two_waits_for_each_key() {
    let device = SimulatedDevice::new(1, Faults::default());
    let config = Config { sync: Sync::Always, ..Config::default() };
    let mut store = Elastic::open(config.clone(), &device, NOW).expect("opens");
    for key in (0..KEYS).map(u64::to_le_bytes) {
        assert!(matches!(store.load(&key, NOW), Load::Absent));
        store.write(&key, b"value", None, NOW).expect("written");
    }
    while let Some(command) = store.poll_device(NOW) {
        store.complete(carry_out(&device, &command), NOW);
    }
    // Memory is empty after opening, so every load waits for the disk.
    let mut store = Elastic::open(config, &device, NOW).expect("opens again");
    let keys = (0..KEYS).chain(0..KEYS).map(u64::to_le_bytes);
    let tickets: Vec<_> = keys
        .map(|key| match store.load(&key, NOW) {
            Load::Pending(ticket) => ticket,
            load => panic!("{load:?}"),
        })
        .collect();
    store.clear(NOW).expect("cleared");
    assert_eq!(from_fn(|| store.poll_loaded()).collect::<Vec<_>>(), tickets);
}
