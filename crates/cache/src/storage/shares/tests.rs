use proptest::{collection::vec, prelude::*};

use super::*;

const MIB: u64 = 1 << 20;

/// A curve: hits a second by bytes, rising at these sizes.
#[derive(Debug, Clone)]
struct Curve(Vec<(u64, f64)>);

impl Curve {
    fn hits(&self, bytes: u64) -> f64 {
        self.0.iter().filter(|(size, _)| *size <= bytes).map(|(_, hits)| hits).sum()
    }
}

/// Rises evenly up to `size`.
fn even(size: u64, hits: f64) -> Curve {
    Curve((1..=64).map(|part| (size / 64 * part, hits / 64.0)).collect())
}

fn any_bounds(total: u64) -> impl Strategy<Value = Bounds> {
    (0..=total, 0..=2 * total).prop_map(|(floor, ceiling)| {
        let ceiling = ceiling.max(1);
        Bounds { floor: (floor / 3).min(ceiling), ceiling }
    })
}

fn any_curve(total: u64) -> impl Strategy<Value = Curve> {
    vec((0..2 * total, 0.0..1e5), 0..6).prop_map(Curve)
}

fn any_origins() -> impl Strategy<Value = (u64, Vec<(Bounds, Curve)>)> {
    (1u64..1 << 40)
        .prop_flat_map(|total| (Just(total), vec((any_bounds(total), any_curve(total)), 1..6)))
}

/// Checks the budget and the bounds.
fn check(sizes: &[u64], bounds: &[Bounds], total: u64) {
    let sum: u128 = sizes.iter().map(|size| u128::from(*size)).sum();
    assert!(sum <= u128::from(total), "{sizes:?} is more than {total}");
    let floors = floors(total, bounds);
    for ((size, bounds), floor) in sizes.iter().zip(bounds).zip(floors) {
        assert!(*size >= floor && *size <= bounds.ceiling, "{size}: {floor} to {}", bounds.ceiling);
    }
}

fn settle(shares: &mut Shares, hits: Hits<'_>) -> usize {
    (0..1_000).take_while(|_| shares.review(hits)).count()
}

proptest! {
    #[test]
    fn budget_floors_and_ceilings_hold_for_any_curves_and_reviews_end(
        (total, origins) in any_origins(),
        other in 1u64..1 << 40,
        usable in 0u64..1 << 40,
    ) {
        let bounds: Vec<_> = origins.iter().map(|(bounds, _)| *bounds).collect();
        let hits = |origin: usize, bytes: u64| origins[origin].1.hits(bytes);
        let mut shares = Shares::new(total, bounds.clone());
        check(shares.bytes(), &bounds, total);
        let mut reviews = 0;
        loop {
            let before = shares.bytes().to_vec();
            let moved = shares.review(&hits);
            check(shares.bytes(), &bounds, total);
            let given: u64 =
                before.iter().zip(shares.bytes()).map(|(a, b)| b.saturating_sub(*a)).sum();
            prop_assert!(given <= (total / STEP_PART).max(1), "{} at once", given);
            if !moved {
                break;
            }
            reviews += 1;
            prop_assert!(reviews < 1_000, "shares never settle");
        }
        check(&shares.within(usable.min(total)), &bounds, usable.min(total));
        shares.resize(other, bounds.clone());
        check(shares.bytes(), &bounds, other);
    }

    #[test]
    fn what_is_left_gains_little((total, origins) in any_origins()) {
        let bounds: Vec<_> = origins.iter().map(|(bounds, _)| *bounds).collect();
        let hits = |origin: usize, bytes: u64| origins[origin].1.hits(bytes);
        let mut shares = Shares::new(total, bounds);
        settle(&mut shares, &hits);
        let all = |bytes: &[u64]| -> f64 {
            bytes.iter().enumerate().map(|(origin, bytes)| hits(origin, *bytes)).sum()
        };
        let possible = all(&vec![total; origins.len()]);
        prop_assert!(all(&shares.best(&hits)) - all(shares.bytes()) <= GAIN_MIN * possible);
    }
}

fn two(first: Curve, second: Curve) -> (Shares, impl Fn(usize, u64) -> f64) {
    let bounds = Bounds { floor: 8 * MIB, ceiling: 64 * MIB };
    let curves = [first, second];
    (Shares::new(64 * MIB, vec![bounds; 2]), move |origin: usize, bytes| curves[origin].hits(bytes))
}

#[test]
fn a_scan_keeps_its_floor_and_what_is_read_again_gets_the_rest() {
    let (mut shares, hits) = two(Curve(Vec::new()), even(100 * MIB, 10.0));
    assert_eq!(shares.bytes(), [32 * MIB, 32 * MIB]);
    let reviews = settle(&mut shares, &hits);
    let [scan, useful] = shares.bytes() else { panic!("two") };
    assert!((8 * MIB..10 * MIB).contains(scan) && *useful > 54 * MIB, "{scan} {useful}");
    assert_eq!(reviews, 12, "24 MiB in steps of 2 MiB");
    assert_eq!(shares.margin(1, &hits).why, Why::Balanced);
    assert_eq!(shares.margin(0, &hits).why, Why::Enough);
}

#[test]
fn a_loop_gets_memory_only_if_all_of_it_fits() {
    for (size, expected) in [(40, [16, 48]), (60, [32, 32])] {
        let whole_loop = Curve(vec![(size * MIB, 1_000.0)]);
        let (mut shares, hits) = two(even(64 * MIB, 10.0), whole_loop);
        settle(&mut shares, &hits);
        let at_least = shares.bytes()[1] >= size * MIB;
        assert_eq!(at_least, expected[1] > 32, "{size}: {:?}", shares.bytes());
    }
}

#[test]
fn memory_goes_where_each_mebibyte_answers_most() {
    // Of the same size; the second is read three times as often.
    let (mut shares, hits) = two(even(48 * MIB, 100.0), even(48 * MIB, 300.0));
    settle(&mut shares, &hits);
    let [less, more] = shares.bytes() else { panic!("two") };
    assert!(*more >= 46 * MIB && *less >= 8 * MIB, "{less} {more}");
    let margin = shares.margin(0, &hits);
    assert!(margin.gain_per_mebibyte < 100.0 / 48.0 * 1.4, "{margin:?}");
}

#[test]
fn what_nothing_gains_by_stays_where_it_is() {
    let (mut shares, hits) = two(even(4 * MIB, 10.0), even(2 * MIB, 10.0));
    assert_eq!(settle(&mut shares, &hits), 0);
    let (mut shares, hits) = two(Curve(Vec::new()), Curve(Vec::new()));
    assert_eq!(settle(&mut shares, &hits), 0);
    assert_eq!(shares.bytes(), [32 * MIB, 32 * MIB]);
}

#[test]
fn a_gain_within_the_error_of_the_samples_moves_nothing() {
    for (hits_of_other, moves) in [(1_004.0, false), (1_100.0, true)] {
        // With half of the memory each, more of either is worth nearly the same.
        let (mut shares, hits) = two(even(64 * MIB, 1_000.0), even(64 * MIB, hits_of_other));
        assert_eq!(settle(&mut shares, &hits) > 0, moves, "{hits_of_other}");
    }
}

#[test]
fn a_share_that_could_gain_less_than_the_error_of_the_samples_is_enough() {
    for (hits_above, why) in [(4.0, Why::Enough), (8.0, Why::Balanced)] {
        let curve = Curve(vec![(16 * MIB, 1_000.0), (60 * MIB, hits_above)]);
        let (shares, hits) = two(curve, Curve(Vec::new()));
        assert_eq!(shares.margin(0, &hits).why, why, "{hits_above}");
    }
}

#[test]
fn a_smaller_budget_keeps_proportions_and_returns_to_them() {
    let bounds = Bounds { floor: MIB, ceiling: 64 * MIB };
    let mut shares = Shares::new(64 * MIB, vec![bounds; 2]);
    let curves = [even(200 * MIB, 10.0), even(200 * MIB, 1.0)];
    settle(&mut shares, &|origin, bytes| curves[origin].hits(bytes));
    let before = shares.bytes().to_vec();
    let smaller = shares.within(32 * MIB);
    assert!(smaller[0] > 10 * smaller[1], "{smaller:?}");
    assert_eq!(shares.within(64 * MIB), before);
}
