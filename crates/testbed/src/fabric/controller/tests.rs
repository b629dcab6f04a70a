use ::fabric::topology::Memory;

use super::*;

fn controller(entries_each: u64) -> Controller {
    let topology = Topology::ft8_10k();
    let entries = entries_each * u64::from(topology.switches());
    on(&topology, entries)
}

fn on(topology: &Topology, cache_entries: u64) -> Controller {
    let config = Config { cache_entries, ..Config::default() };
    Controller::new(topology, &config, 150.0)
}

/// The saving of a choice of stores.
fn saved(program: &Program, stores: &[usize]) -> f64 {
    (0..program.demands)
        .map(|demand| {
            let usable = program
                .uses
                .iter()
                .filter(|each| each.demand == demand && stores.contains(&each.store));
            usable.map(|each| each.saving).fold(0.0, f64::max)
        })
        .sum()
}

/// The optimum, found by exhaustive search.
fn best(program: &Program) -> f64 {
    let fits = |stores: &[usize]| {
        program.capacities.iter().all(|(switch, &capacity)| {
            stores.iter().filter(|&&store| program.stores[store].0 == *switch).count() <= capacity
        })
    };
    (0_u32..1 << program.stores.len())
        .map(|set| {
            (0..program.stores.len()).filter(|store| set >> store & 1 == 1).collect::<Vec<_>>()
        })
        .filter(|stores| fits(stores))
        .map(|stores| saved(program, &stores))
        .fold(0.0, f64::max)
}

#[test]
fn a_mapping_that_all_senders_want_is_kept_near_them() {
    // Two racks of pod 0 send to a VM of pod 7 through one spine: ToRs 48 and 49, spine 16.
    let way = |source: u32, _| if source < 320 { vec![48, 16, 0] } else { vec![49, 16, 0] };
    let program = controller(1).program(&[(0, 10_239, 0, 5), (320, 10_239, 0, 5)], way);
    assert_eq!((program.demands, program.stores.len()), (2, 4));
    let expected = best(&program);
    // With a hit at the ToR a packet passes 5 switches; through the gateway it is 3 + 40 + 1 + 2.
    assert!((expected - 10.0 * (46.0 - 5.0)).abs() < 1e-9, "{expected}");
}

#[cfg(feature = "highs")]
#[test]
fn random_programs_are_solved_to_within_the_gap() {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;
    for seed in 0..40 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut draw = |to: u32| random.random_range(0..to);
        let traffic: Vec<_> = (0..4)
            .map(|_| (draw(4) * 320, 5_000 + draw(4), draw(2), u64::from(draw(9)) + 1))
            .collect();
        let way = |source: u32, gateway: u32| vec![48 + source / 320, 16 + gateway, gateway * 4];
        let program = controller(1).program(&traffic, way);
        let choice = solver::solve(&program).unwrap();
        for (switch, &capacity) in &program.capacities {
            let held = choice.stores.iter().filter(|&&store| program.stores[store].0 == *switch);
            assert!(held.count() <= capacity, "seed {seed}");
        }
        let (ours, expected) = (saved(&program, &choice.stores), best(&program));
        assert!(ours >= expected * (1.0 - 0.005) - 1e-9, "seed {seed}: {ours} of {expected}");
        assert!(choice.gap <= 0.005 + 1e-9, "seed {seed}: gap {}", choice.gap);
    }
}

#[test]
fn each_switch_holds_as_many_entries_as_the_caches_are_divided_into() {
    let program = controller(1)
        .program(&[(0, 10_239, 0, 5), (0, 10_238, 0, 5), (0, 10_237, 0, 5)], |_, _| {
            vec![48, 16, 0]
        });
    assert_eq!(program.capacities, [(0, 1), (16, 1), (48, 1)].into());
    assert_eq!(best(&program), 5.0 * ((46 - 5) * 3) as f64);
}

#[test]
fn memory_by_role_bounds_what_is_placed() {
    let memory = Memory { tor: 3.0, core: 0.0, ..Memory::default() };
    let topology = Topology { memory, ..Topology::ft8_10k() };
    // Each unit of weight is ten entries: 28 ToRs of weight 3, 4 gateway ToRs and 32 spines of 1.
    let capacities = on(&topology, 10 * (28 * 3 + 4 + 32)).capacities;
    assert_eq!((capacities[0], capacities[16], capacities[48], capacities[49]), (0, 10, 10, 30));
}
