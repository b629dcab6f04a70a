//! A store opened on a segment of bytes nobody wrote: it opens or says why not, and serves nothing
//! but what passes its checksum.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use store::device::{Device, FileName, carry_out};
use store::elastic::{Config, Elastic, Scan};
use store::{Faults, SimulatedDevice};

const SEGMENT_BYTES: u64 = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    let device = SimulatedDevice::new(1, Faults::default());
    let config = Config { segment_bytes: SEGMENT_BYTES, ..Config::default() };
    let now = Duration::from_secs(1_700_000_000);
    drop(Elastic::open(config.clone(), &device, now).expect("an empty disk is a new store"));
    for (number, half) in [bytes, &bytes[bytes.len() / 2..]].into_iter().enumerate() {
        let file = FileName::Segment(number as u64 + 1);
        let half = &half[..half.len().min(SEGMENT_BYTES as usize)];
        device.write(file, 0, half).expect("written");
        device.sync(file).expect("synced");
    }
    let Ok(mut store) = Elastic::open(config, &device, now) else { return };
    let mut cursor = 0;
    for _ in 0..1000 {
        match store.scan(cursor, 100, now) {
            Scan::Ready { cursor: 0, .. } | Scan::Failed(_) => return,
            Scan::Ready { cursor: next, .. } => cursor = next,
            Scan::Pending(_) => {
                while let Some(command) = store.poll_device(now) {
                    store.complete(carry_out(&device, &command), now);
                }
            }
        }
    }
});
