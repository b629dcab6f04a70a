use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const SEED: u64 = 7;

fn key_hash(key: u32) -> u64 {
    hash(&key.to_le_bytes(), SEED)
}

proptest! {
    #[test]
    fn the_sketch_never_counts_too_little(keys in prop::collection::vec(0u32..500, 0..3000), bits in 4u32..10) {
        let mut sketch = CountMin::new(4, bits).unwrap();
        let mut exact = HashMap::new();
        for &key in &keys {
            *exact.entry(key).or_insert(0u16) += 1;
            prop_assert!(sketch.add(key_hash(key)) >= exact[&key]);
        }
        for (&key, &count) in &exact {
            prop_assert!(sketch.estimate(key_hash(key)) >= count);
        }
    }

    #[test]
    fn the_filter_forgets_nothing(keys in prop::collection::vec(any::<u32>(), 0..500)) {
        let mut filter = Bloom::new(3, 8).unwrap();
        for &key in &keys {
            let known = filter.contains(key_hash(key));
            prop_assert_eq!(filter.insert(key_hash(key)), !known);
        }
        prop_assert!(keys.iter().all(|&key| filter.contains(key_hash(key))));
        filter.clear();
        prop_assert!(!keys.iter().any(|&key| filter.contains(key_hash(key))));
    }
}

#[test]
fn sketch_and_filter_err_as_seldom_as_their_theory_says() {
    let mut sketch = CountMin::new(4, 12).unwrap();
    let mut filter = Bloom::new(3, 18).unwrap();
    for key in 0..40_000 {
        sketch.add(key_hash(key));
    }
    for key in 0..10_000 {
        filter.insert(key_hash(key));
    }
    // Cormode and Muthukrishnan: more than e * additions / width too much with chance e^-rows.
    let bound = (std::f64::consts::E * 40_000.0 / 4096.0) as u16;
    let beyond = (0..40_000).filter(|&key| sketch.estimate(key_hash(key)) > bound + 1).count();
    assert!(beyond < 40_000 * 2 / 100, "{beyond}");
    // (1 - e^(-10,000 / 262,144))^3 is 5.2 in 100,000.
    let taken_for_known =
        (100_000..1_100_000).filter(|&key| filter.contains(key_hash(key))).count();
    assert!((20..120).contains(&taken_for_known), "{taken_for_known}");
}

#[test]
fn counters_saturate() {
    let mut sketch = CountMin::new(4, 4).unwrap();
    for _ in 0..70_000 {
        sketch.add(1);
    }
    assert_eq!(sketch.estimate(1), u16::MAX);
}

#[test]
fn each_hot_key_is_reported_once_a_period() {
    let config = Config { threshold: 10, ..Config::default() };
    let mut detector = Detector::new(config, SEED).unwrap();
    for _ in 0..2 {
        let mut reports = HashMap::new();
        for round in 0..50u32 {
            for key in 0..1000u32 {
                // Key 0 comes every round, key 999 almost never.
                if round % (key / 20 + 1) == 0 && detector.observe(&key.to_le_bytes()) {
                    *reports.entry(key).or_insert(0) += 1;
                }
            }
        }
        let hot = (0..1000u32).filter(|key| 50u32.div_ceil(key / 20 + 1) >= 10);
        assert_eq!(reports, hot.map(|key| (key, 1)).collect());
        detector.clear();
    }
    assert_eq!(detector.stats().periods, 2);
}

#[test]
fn sampling_takes_its_share_and_the_same_again() {
    let draws = |per_65536| {
        let mut sampler = Sampler::new(per_65536, SEED);
        (0..100_000).map(|_| sampler.sample()).collect::<Vec<_>>()
    };
    let share = |per_65536| draws(per_65536).iter().filter(|&&sampled| sampled).count();
    assert_eq!((share(0), share(65_536)), (0, 100_000));
    assert!((49_000..51_000).contains(&share(32_768)));
    assert_eq!(draws(1000), draws(1000));
}

#[test]
fn the_coldest_of_some_is_found() {
    let mut counters = Counters::new(4);
    for place in [0, 0, 1, 2, 2, 2, 9] {
        counters.add(place);
    }
    assert_eq!(counters.coldest([0, 1, 2]), Some(1));
    assert_eq!(counters.coldest([2, 0]), Some(0));
    assert_eq!(counters.coldest([]), None);
    counters.reset(2);
    assert_eq!(counters.coldest([0, 1, 2]), Some(2));
    counters.clear();
    assert_eq!(counters.count(0), 0);
}

#[test]
fn sizes_without_hash_functions_are_refused() {
    let refused = |config| Detector::new(config, SEED).err();
    let default = Config::default();
    assert_eq!(refused(default), None);
    let wrong = refused(Config { sketch_rows: 9, ..default });
    assert_eq!(wrong, Some(Error::Rows { what: "count-min sketch", got: 9, limit: 8 }));
    let wrong = refused(Config { filter_width_bits: 5, ..default });
    assert_eq!(wrong, Some(Error::Width { what: "Bloom filter", got: 5, min: 6, max: 30 }));
}
