use proptest::{collection::vec, prelude::*};

use super::*;

/// Parts that shrink slowly, as memory does: what each was given, and may hold.
struct Parts(Vec<(StorageLimits, StorageLimits)>);

impl Parts {
    fn total(&self) -> (u128, u128) {
        let sum = |of: fn(&StorageLimits) -> usize| {
            self.0.iter().map(|(_, holds)| of(holds) as u128).sum()
        };
        (sum(|limits| limits.items_max), sum(|limits| limits.bytes_max))
    }

    fn give(&mut self, part: usize, limits: StorageLimits) -> StorageLimits {
        let (given, holds) = &mut self.0[part];
        *given = limits;
        holds.items_max = holds.items_max.max(limits.items_max);
        holds.bytes_max = holds.bytes_max.max(limits.bytes_max);
        *holds
    }

    /// Each holds up to `less` bytes less, and half as many items.
    fn shrink(&mut self, less: usize) {
        for (given, holds) in &mut self.0 {
            holds.items_max = given.items_max.max(holds.items_max.saturating_sub(less / 2));
            holds.bytes_max = given.bytes_max.max(holds.bytes_max.saturating_sub(less));
        }
    }
}

fn portions(floors: &[Option<u64>]) -> Vec<Portion> {
    let portion = |(number, floor): (usize, &Option<u64>)| Portion {
        origin: Some(number as u64),
        floor: *floor,
        ceiling: None,
    };
    floors.iter().enumerate().map(portion).collect()
}

fn measured(lookups: f64, bytes: usize) -> Measured {
    let points = vec![store::elastic::Point { memory_bytes: bytes, hit_ratio: 1.0 }];
    let curve = store::elastic::Advice { fixed_bytes: 0, points, lookups_sampled: 10_000 };
    Measured { lookups, hits: 0.0, curve }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_limits_hold_at_every_moment_and_every_part_gets_its_share(
        rates in vec(vec((0.0..1e4, 1usize..2_000), 3), 1..5),
        sizes in vec((1_000usize..4_000, 300usize..5_000, 500usize..4_000), 1..8),
        less in 50usize..400,
    ) {
        let limits = StorageLimits { items_max: 4_000, bytes_max: 2_000 };
        let mut division = Division::new(limits, &portions(&[None, Some(300), None]));
        let given = division.limits_of_parts();
        let mut parts = Parts(given.iter().map(|limits| (*limits, *limits)).collect());
        let mut now = Duration::ZERO;
        for (rates, (bytes_max, items_max, granted)) in rates.iter().zip(&sizes) {
            // What is held above a lower limit leaves in steps; it is never more than before.
            let mut before = parts.total();
            let limits = StorageLimits { items_max: *items_max, bytes_max: *bytes_max };
            division.resize(limits);
            division.grant(*granted);
            for _ in 0..100 {
                now += REVIEW;
                let measured = rates.iter().map(|(rate, bytes)| measured(*rate, *bytes));
                division.review(measured.collect(), now);
                division.share_out(|part, limits| parts.give(part, limits));
                parts.shrink(less);
                let (items, bytes) = parts.total();
                let usable = bytes_max.min(granted);
                prop_assert!(bytes <= before.1.max(*usable as u128), "{} bytes", bytes);
                prop_assert!(items <= before.0.max(*items_max as u128), "{} items", items);
                before = (items, bytes);
            }
            prop_assert!(division.is_done);
            let held: Vec<_> = parts.0.iter().map(|(_, holds)| *holds).collect();
            prop_assert_eq!(held, division.wanted());
        }
    }
}

#[test]
fn floors_that_are_not_stated_are_a_quarter_of_an_equal_share_as_far_as_others_leave_it() {
    let floors = |stated: &[Option<u64>], total| -> Vec<u64> {
        bounds(&portions(stated), total).iter().map(|bounds| bounds.floor).collect()
    };
    assert_eq!(floors(&[None, None], 800), [100, 100]);
    assert_eq!(floors(&[Some(0), None], 800), [0, 100]);
    assert_eq!(floors(&[Some(700), None, None], 800), [700, 50, 50]);
    assert_eq!(floors(&[Some(900), None], 800), [800, 0]);
}

#[test]
fn one_origin_has_all_memory_up_to_its_ceiling() {
    let limits = StorageLimits { items_max: usize::MAX, bytes_max: 1_000 };
    let ceiling = Portion { ceiling: Some(600), ..Portion::default() };
    assert_eq!(Division::new(limits, &[]).limits_of_parts(), [limits]);
    let bounded = StorageLimits { bytes_max: 600, ..limits };
    assert_eq!(Division::new(limits, &[ceiling]).limits_of_parts(), [bounded]);
}
