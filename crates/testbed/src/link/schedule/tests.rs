//! The path under virtual time.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn path(config: PathConfig) -> (Schedule, Order) {
    (Schedule::new(config, 7), Order::default())
}

fn leaving(fates: impl IntoIterator<Item = Fate>) -> Vec<Duration> {
    let leaves_at = |fate| match fate {
        Fate::Leaves(at) => Some(at),
        Fate::Lost | Fate::QueueFull => None,
    };
    fates.into_iter().filter_map(leaves_at).collect()
}

#[test]
fn a_perfect_path_only_delays() {
    let (mut path, mut order) = path(PathConfig { delay: 82 * MS, ..PathConfig::default() });
    assert_eq!(path.packet(&mut order, 1500, 3 * MS), Fate::Leaves(85 * MS));
    assert_eq!(path.packet(&mut order, 1500, 3 * MS), Fate::Leaves(85 * MS));
}

#[test]
fn rate_serialises_one_packet_after_the_other() {
    let rate = Some(12_000_000); // 1500 bytes in 1 ms
    let config = PathConfig { delay: 10 * MS, bits_per_second: rate, ..PathConfig::default() };
    let (mut path, mut order) = path(config);
    assert_eq!(path.packet(&mut order, 1500, Duration::ZERO), Fate::Leaves(11 * MS));
    assert_eq!(path.packet(&mut order, 1500, Duration::ZERO), Fate::Leaves(12 * MS));
    assert_eq!(path.packet(&mut order, 1500, 5 * MS), Fate::Leaves(16 * MS));
}

#[test]
fn a_full_queue_drops_packets_and_holds_streams_back() {
    let config = PathConfig {
        bits_per_second: Some(12_000_000),
        queue: 5 * MS,
        delay: MS,
        ..PathConfig::default()
    };
    let (mut path, mut order) = path(config);
    let fates: Vec<Fate> = (0..20).map(|_| path.packet(&mut order, 1500, MS)).collect();
    assert_eq!(fates.iter().filter(|fate| **fate == Fate::QueueFull).count(), 14);
    assert_eq!(path.held_back_until(MS), Some(2 * MS));
    assert_eq!(path.held_back_until(2 * MS), None);
}

#[test]
fn jitter_stays_in_bounds_and_centres_on_the_delay() {
    let config =
        PathConfig { delay: 50 * MS, jitter: 4 * MS, reorder: true, ..PathConfig::default() };
    let (mut path, mut order) = path(config);
    let leaves = leaving((0..10_000).map(|_| path.packet(&mut order, 100, Duration::ZERO)));
    assert!(leaves.iter().all(|at| (46 * MS..=54 * MS).contains(at)));
    let mean = leaves.iter().sum::<Duration>() / 10_000;
    assert!(mean.abs_diff(50 * MS) < MS / 10, "{mean:?}");
}

#[test]
fn jitter_reorders_only_when_asked() {
    for reorder in [false, true] {
        let config = PathConfig { delay: 9 * MS, jitter: 5 * MS, reorder, ..PathConfig::default() };
        let (mut path, mut order) = path(config);
        let leaves = leaving((0..100).map(|step| path.packet(&mut order, 100, step * MS)));
        assert_eq!(!leaves.is_sorted(), reorder);
    }
}

#[test]
fn jitter_wider_than_the_delay_never_leaves_before_it_enters() {
    let config = PathConfig { delay: MS, jitter: 9 * MS, reorder: true, ..PathConfig::default() };
    let (mut path, mut order) = path(config);
    let leaves = leaving((0..1000).map(|_| path.packet(&mut order, 100, 7 * MS)));
    assert!(leaves.iter().all(|at| *at >= 7 * MS));
}

#[test]
fn loss_has_the_asked_share() {
    let (mut path, mut order) = path(PathConfig { loss: 0.1, ..PathConfig::default() });
    let packets = (0..100_000).map(|_| path.packet(&mut order, 100, MS));
    let lost = packets.filter(|fate| *fate == Fate::Lost).count();
    assert!((9_500..10_500).contains(&lost), "{lost}");
}

#[test]
fn the_same_seed_repeats_and_another_does_not() {
    let config = PathConfig { loss: 0.2, jitter: MS, delay: 5 * MS, ..PathConfig::default() };
    let run = |seed| {
        let (mut path, mut order) = (Schedule::new(config.clone(), seed), Order::default());
        (0..100).map(|step| path.packet(&mut order, 100, step * MS)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_lost_segment_stalls_itself_and_all_behind_it() {
    let (mut path, mut order) =
        path(PathConfig { loss: 0.05, delay: 50 * MS, ..PathConfig::default() });
    let mut leaves = Vec::new();
    let lost = path.stream(&mut order, 100 * SEGMENT_BYTES, 100 * MS, Duration::ZERO, |_, at| {
        leaves.push(at);
    });
    assert!(lost > 0);
    assert!(leaves.is_sorted());
    assert_eq!(leaves.first(), Some(&(50 * MS)));
    assert_eq!(leaves.last(), Some(&(150 * MS)), "noticed by what follows: one round trip");
}

#[test]
fn a_lone_lost_segment_costs_a_timeout() {
    let (mut path, mut order) =
        path(PathConfig { loss: 1.0, delay: 50 * MS, ..PathConfig::default() });
    let mut leaves = Vec::new();
    let lost = path.stream(&mut order, 20, 100 * MS, MS, |bytes, at| leaves.push((bytes, at)));
    assert_eq!((lost, leaves), (1, vec![(20, 351 * MS)]));
}

#[test]
fn a_stream_keeps_every_byte_in_order() {
    let config = PathConfig {
        delay: 5 * MS,
        jitter: 4 * MS,
        loss: 0.1,
        bits_per_second: Some(100_000_000),
        ..PathConfig::default()
    };
    let (mut path, mut order) = path(config);
    let (mut total, mut last) = (0, Duration::ZERO);
    for step in 0..500 {
        path.stream(&mut order, 3000, 10 * MS, step * MS, |bytes, at| {
            assert!(at >= last);
            (total, last) = (total + bytes, at);
        });
    }
    assert_eq!(total, 500 * 3000);
    assert!(path.signal(&mut order, 500 * MS) >= last);
}

#[test]
fn the_end_of_a_stream_waits_for_the_bottleneck() {
    let config = PathConfig { bits_per_second: Some(8_000), ..PathConfig::default() };
    let (mut path, mut order) = path(config);
    path.stream(&mut order, 1000, MS, Duration::ZERO, |_, _| ());
    assert_eq!(path.signal(&mut Order::default(), Duration::ZERO), Duration::from_secs(1));
}

#[test]
fn delay_changes_apply_to_what_enters_later_and_keep_order() {
    let (mut path, mut order) = path(PathConfig { delay: 50 * MS, ..PathConfig::default() });
    assert_eq!(path.packet(&mut order, 1, Duration::ZERO), Fate::Leaves(50 * MS));
    path.set_delay(MS);
    assert_eq!(path.packet(&mut order, 1, MS), Fate::Leaves(50 * MS));
    assert_eq!(path.packet(&mut order, 1, 60 * MS), Fate::Leaves(61 * MS));
}
