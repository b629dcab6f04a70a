//! Segments of a real store, damaged at random, cut, swapped and mixed. The fuzz target
//! `elastic_store` does the same for longer.

#[expect(unreachable_pub, reason = "shared with the fuzz target")]
#[path = "segments/exercise.rs"]
mod exercise;

use std::time::Duration;

use exercise::{SEGMENT_BYTES, config, drain, exercise};
use store::device::{Device, FileName};
use store::elastic::{Elastic, Load};
use store::{Faults, SimulatedDevice};

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }
}

/// The segments of a store of 100 keys, each written twice, one in five removed.
fn corpus() -> Vec<(u64, Vec<u8>)> {
    let now = Duration::from_secs(1_600_000_000);
    let device = SimulatedDevice::new(1, Faults::default());
    let mut store = Elastic::open(config(), &device, now).expect("opens");
    for number in 0..200_u64 {
        let key = (number % 100).to_le_bytes();
        while let Load::Pending(_) = store.load(&key, now) {
            drain(&mut store, &device);
        }
        store.write(&key, &vec![number as u8; 300 + number as usize], None, now).expect("written");
        if number % 5 == 4 {
            store.remove(&key, now).expect("removed");
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

#[test]
fn any_bytes() {
    let corpus = corpus();
    assert!(corpus.len() > 3, "{} segments", corpus.len());
    let whole: Vec<(u64, &[u8])> =
        corpus.iter().map(|(number, bytes)| (*number, &bytes[..])).collect();
    assert_eq!(exercise(&whole), Some(80), "undamaged, it is what was stored");
    let mut random =
        Random(std::env::var("SEED").map_or(7, |seed| seed.parse().expect("a number")));
    let mut opened = 0;
    for _ in 0..400 {
        let mut damaged = corpus.clone();
        for _ in 0..=random.below(8) {
            let at = random.below(damaged.len());
            let other = random.below(damaged.len());
            let segment = &mut damaged[at].1;
            let place = random.below(segment.len().max(1));
            match random.below(6) {
                0 => segment.truncate(place),
                1 => segment.resize(SEGMENT_BYTES, 0),
                2 => segment.iter_mut().skip(place).take(600).for_each(|byte| *byte = 0),
                3 => damaged[at].1 = damaged[other].1.clone(),
                _ if segment.is_empty() => {}
                _ => segment[place] ^= 1 << random.below(8),
            }
        }
        let damaged: Vec<(u64, &[u8])> =
            damaged.iter().map(|(number, bytes)| (*number, &bytes[..])).collect();
        if let Some(count) = exercise(&damaged) {
            assert!(count <= 100, "{count} keys, but no more than 100 were ever stored");
            opened += 1;
        }
    }
    assert!(opened > 0, "damage need not keep a store from opening");
}
