use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// Spreads small numbers over all hash values.
fn hash_of(location: Location) -> u32 {
    location.wrapping_mul(0x9e37_79b9) ^ location >> 3
}

fn check(index: &Index, model: &HashMap<Location, u32>) {
    assert_eq!(index.len(), model.len());
    for (&location, &hash) in model {
        assert_eq!(index.find(hash, |found| found == location), Some(location));
    }
}

#[test]
fn holds_everything_while_growing_and_shrinking() {
    let mut index = Index::new();
    for location in 0..200_000 {
        index.insert(hash_of(location), location, hash_of);
        if location % 1013 == 0 {
            for earlier in (0..=location).step_by(97) {
                assert!(index.find(hash_of(earlier), |found| found == earlier).is_some());
            }
        }
    }
    let full = index.bytes();
    assert!(full < 200_000 * 8, "{full}");
    for location in 0..199_000 {
        index.remove(hash_of(location), location, hash_of);
        assert_eq!(index.find(hash_of(location), |found| found == location), None);
    }
    while index.stretch_some(64, hash_of) {}
    assert!(index.bytes() < full / 50, "{} of {full}", index.bytes());
    for location in 199_000..200_000 {
        assert!(index.find(hash_of(location), |found| found == location).is_some());
    }
}

#[test]
fn many_items_of_one_hash_overflow_to_later_buckets_and_come_back() {
    let mut index = Index::new();
    let same = |_| u32::MAX;
    for location in 0..1000 {
        index.insert(u32::MAX, location, same);
    }
    for location in (0..1000).rev() {
        assert_eq!(index.find(u32::MAX, |found| found == location), Some(location));
        index.remove(u32::MAX, location, same);
    }
    while index.stretch_some(64, same) {}
    assert_eq!(index.find(u32::MAX, |_| true), None);
    assert_eq!(index.bytes(), pages(BUCKETS_MIN * size_of::<Bucket>()));
}

proptest! {
    #[test]
    fn behaves_like_a_map(changes in prop::collection::vec((0u32..3000, 0u8..4), 1..4000), narrow in any::<bool>()) {
        // A narrow range of hashes crowds neighbouring buckets, so that they overflow all the time.
        let hash_of = |location: Location| if narrow { hash_of(location) & 0xf000_00ff } else { hash_of(location) };
        let mut index = Index::new();
        let mut model = HashMap::new();
        for (location, what) in changes {
            if model.remove(&location).is_some() {
                index.remove(hash_of(location), location, hash_of);
            } else if what > 0 {
                index.insert(hash_of(location), location, hash_of);
                model.insert(location, hash_of(location));
            }
        }
        check(&index, &model);
    }
}
