//! Opens a store whose segments are arbitrary bytes: it opens or reports the reason, and serves
//! only what passes its checksum. Shared by a test and a fuzz target.

use std::time::Duration;

use store::device::{Device, FileName, carry_out};
use store::elastic::{Config, Elastic, Load, Scan};
use store::{Faults, SimulatedDevice};

/// Segment length of the store.
pub const SEGMENT_BYTES: usize = 64 << 10;
const NOW: Duration = Duration::from_secs(1_700_000_000);

/// Configuration of the store.
pub fn config() -> Config {
    // Segments that were added are in no manifest.
    Config {
        segment_bytes: SEGMENT_BYTES as u64,
        accept_data_loss: true,
        hash_key: [1, 2],
        ..Config::default()
    }
}

/// The segments of a store of 100 keys, each written twice, one in five removed. The first has a
/// line for each record in its footer, others have a parity block.
pub fn corpus() -> Vec<(u64, Vec<u8>)> {
    let device = SimulatedDevice::new(1, Faults::default());
    let mut store = Elastic::open(config(), &device, NOW).expect("opens");
    for number in 0..200_u64 {
        let key = (number % 100).to_le_bytes();
        while let Load::Pending(_) = store.load(&key, NOW) {
            drain(&mut store, &device);
        }
        store.write(&key, &vec![number as u8; 300 + number as usize], None, NOW).expect("written");
        if number % 5 == 4 {
            store.remove(&key, NOW).expect("removed");
        }
        drain(&mut store, &device);
    }
    store.flush();
    drain(&mut store, &device);
    let read = |file, bytes| device.read(file, 0, bytes as usize).expect("read");
    let files = device.list().expect("files").into_iter();
    files
        .filter_map(|(file, bytes)| match file {
            FileName::Segment(number) => Some((number, read(file, bytes))),
            _ => None,
        })
        .collect()
}

/// Executes all pending device commands.
pub fn drain(store: &mut Elastic, device: &SimulatedDevice) {
    while let Some(command) = store.poll_device(NOW) {
        store.complete(carry_out(device, &command), NOW);
    }
}

/// Opens a store with these segments, by number, and reads it; returns its number of keys, if it
/// opens.
pub fn exercise(segments: &[(u64, &[u8])]) -> Option<usize> {
    let device = SimulatedDevice::new(1, Faults::default());
    drop(Elastic::open(config(), &device, NOW).expect("an empty disk is a new store"));
    for &(number, bytes) in segments {
        let file = FileName::Segment(number);
        let bytes = &bytes[..bytes.len().min(SEGMENT_BYTES)];
        device.create(file, bytes.len() as u64).expect("created");
        device.write(file, 0, bytes).expect("written");
        device.sync(file).expect("synced");
    }
    let mut store = Elastic::open(config(), &device, NOW).ok()?;
    let (mut cursor, mut count, mut held) = (0, 0, Vec::new());
    for _ in 0..1000 {
        match store.scan(cursor, 100, NOW) {
            Scan::Ready { cursor: next, keys, .. } => {
                held.drain(..).for_each(|ticket| store.release(ticket));
                count += keys.len();
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
            Scan::Pending(tickets) => {
                held.extend(tickets);
                drain(&mut store, &device);
            }
        }
    }
    // Upkeep reads the same bytes.
    for _ in 0..64 {
        store.step(NOW);
        drain(&mut store, &device);
    }
    Some(count)
}
