use super::*;
use crate::{
    delays::Matrix,
    placement::{Capacity, MoveCost},
};

const S: Duration = Duration::from_secs(1);
/// A move costs half a second of waiting time in total.
const MOVING: MoveCost = MoveCost { fixed_us: 500_000.0, per_byte_us: 0.0, dwell_s: 30.0 };

struct Cluster {
    delays: Matrix,
    nodes: Vec<Capacity>,
    initiator: Initiator,
    owner: Node,
    moves: Vec<(Duration, Node)>,
}

impl Cluster {
    fn new(delays_us: &[[u64; 3]; 3], config: Config) -> Self {
        let mut delays = Matrix::unknown(3, 3);
        for (host, row) in delays_us.iter().enumerate() {
            for (node, &us) in row.iter().enumerate() {
                delays.set(Host(host as u16), Node(node as u16), Duration::from_micros(us));
            }
        }
        let roomy = Capacity { bytes: 1 << 30, accesses: 1e9, replication_us: 0.0 };
        let initiator = Initiator::new(config);
        Self { delays, nodes: vec![roomy; 3], initiator, owner: Node(0), moves: Vec::new() }
    }

    /// One review of one slot that hosts access at these rates; moves complete at once.
    fn review(&mut self, rates: [f64; 3], now: Duration) -> Option<Stays> {
        for one in self.ready(rates, now) {
            assert_eq!(one.from, self.owner);
            self.owner = one.to;
            self.moves.push((now, one.to));
            self.initiator.ended(one.slot, true, now);
        }
        self.initiator.why(slot())
    }

    /// The moves that begin after such a review.
    fn ready(&mut self, rates: [f64; 3], now: Duration) -> Vec<Move> {
        let rate = |reads| Rate { reads, ..Rate::default() };
        let used = (0..3).map(|host| (Host(host), rate(rates[usize::from(host)])));
        let demands = [Demand {
            slot: slot(),
            owner: self.owner,
            bytes: 1_000,
            accesses: used.filter(|(_, rate)| rate.reads > 0.0).collect(),
            pinned: false,
        }];
        let problem =
            Problem { delays: &self.delays, nodes: &self.nodes, demands: &demands, moving: MOVING };
        self.initiator.review(&problem, now);
        self.initiator.ready()
    }
}

fn slot() -> Slot {
    Slot::new(5).expect("a slot")
}

const EVEN: [[u64; 3]; 3] = [[50, 5_000, 5_000], [5_000, 50, 5_000], [5_000, 5_000, 50]];

#[test]
fn a_function_that_moved_is_followed_after_two_reviews() {
    let mut cluster = Cluster::new(&EVEN, Config::default());
    assert_eq!(cluster.review([55.0, 0.0, 0.0], S), Some(Stays::Best));
    assert_eq!(cluster.review([50.0, 0.0, 0.0], 2 * S), Some(Stays::Unchanged));
    assert_eq!(cluster.review([0.0, 55.0, 0.0], 3 * S), Some(Stays::Wanted { reviews: 1 }));
    assert_eq!(cluster.review([0.0, 55.0, 0.0], 4 * S), Some(Stays::Moving));
    assert_eq!(cluster.moves, [(4 * S, Node(1))]);
    let cools = Stays::CoolsDown { until: 14 * S };
    assert_eq!(cluster.review([0.0, 0.0, 55.0], 5 * S), Some(cools));
}

#[test]
fn a_slot_that_is_used_as_before_goes_to_a_node_that_has_come() {
    let mut cluster = Cluster::new(&EVEN, Config::default());
    let all = cluster.delays.clone();
    cluster.delays = Matrix::unknown(3, 3);
    for (host, node) in [(0, 0), (0, 2), (1, 0), (1, 2), (2, 0), (2, 2)] {
        cluster.delays.set(Host(host), Node(node), Duration::from_millis(5));
    }
    assert_eq!(cluster.review([0.0, 55.0, 0.0], S), Some(Stays::Best));
    assert_eq!(cluster.review([0.0, 55.0, 0.0], 2 * S), Some(Stays::Unchanged));
    // A while without reports makes no difference.
    cluster.delays = Matrix::unknown(3, 3);
    assert_eq!(cluster.review([0.0, 55.0, 0.0], 3 * S), Some(Stays::Unchanged));
    cluster.delays = all;
    assert_eq!(cluster.review([0.0, 55.0, 0.0], 4 * S), Some(Stays::Wanted { reviews: 1 }));
    assert_eq!(cluster.review([0.0, 55.0, 0.0], 5 * S), Some(Stays::Moving));
    assert_eq!(cluster.moves, [(5 * S, Node(1))]);
}

#[test]
fn what_does_not_pay_stays() {
    let mut cluster = Cluster::new(&EVEN, Config::default());
    // One access a second saves 4.95 ms: 0.15 s in the dwell time, while the move costs 0.5 s.
    let stays = cluster.review([0.0, 1.0, 0.0], S);
    assert!(matches!(stays, Some(Stays::NotWorthIt { .. })), "{stays:?}");
}

/// A move that its batch postpones neither waits for another dwell time nor uses up the budget.
#[test]
fn a_move_that_is_put_off_is_wanted_again_at_once() {
    let mut cluster = Cluster::new(&EVEN, Config { moves_max: 1, ..Config::default() });
    let mut put_off = Vec::new();
    for second in 1..=4_u32 {
        for one in cluster.ready([0.0, 55.0, 0.0], S * second) {
            cluster.initiator.put_off(one.slot);
            put_off.push(second);
        }
    }
    assert_eq!(put_off, [2, 3, 4]);
    assert_eq!(cluster.initiator.why(slot()), Some(Stays::Budget));
}

/// A target that refuses the slot is retried after an increasing interval.
#[test]
fn a_move_that_is_refused_again_and_again_is_tried_ever_less() {
    let mut cluster = Cluster::new(&EVEN, Config::default());
    let mut refused = Vec::new();
    for second in 0..120_u32 {
        for one in cluster.ready([0.0, 55.0, 0.0], S * second) {
            cluster.initiator.ended(one.slot, false, S * second);
            refused.push(second);
        }
    }
    assert_eq!(refused, [1, 12, 33, 74]);
    let until = S * (74 + 80);
    assert_eq!(cluster.initiator.why(slot()), Some(Stays::NotMoved { until }));
    // A move to another node is not delayed.
    cluster.owner = Node(0);
    assert_eq!(cluster.review([0.0, 0.0, 55.0], until), Some(Stays::Wanted { reviews: 1 }));
    assert_eq!(cluster.review([0.0, 0.0, 55.0], until + S), Some(Stays::Moving));
    let cools = Stays::CoolsDown { until: until + 11 * S };
    assert_eq!(cluster.review([0.0, 0.0, 55.0], until + 2 * S), Some(cools));
}

/// CockroachDB's warning (cockroach#15369): two users that take turns at uneven latencies.
#[test]
fn no_pattern_makes_a_slot_swing_for_long() {
    for uneven in [EVEN, [[50, 300, 90_000], [70_000, 50, 1_000], [90_000, 40_000, 50]]] {
        for period in [2, 5, 11, 23, 60] {
            let mut cluster = Cluster::new(&uneven, Config::default());
            for second in 0..7_200_u32 {
                let turn = second / period % 3;
                let rates = [0, 1, 2].map(|host| if host == turn { 200.0 } else { 3.0 });
                cluster.review(rates, S * second);
            }
            let most = 7_200 / 12;
            assert!(cluster.moves.len() <= most, "{} moves", cluster.moves.len());
        }
        // Back and forth between two hosts.
        let mut cluster = Cluster::new(&uneven, Config::default());
        for second in 0..7_200_u32 {
            let turn = second / 12 % 2;
            let rates = [0, 1, 9].map(|host| if host == turn { 200.0 } else { 0.0 });
            cluster.review(rates, S * second);
        }
        assert!(cluster.moves.len() <= 16, "{} moves in two hours", cluster.moves.len());
    }
}

/// Two hosts take turns that are too short to follow: the slot stays with the one whose turns are
/// longer.
#[test]
fn a_slot_that_cannot_follow_stays_where_it_is_used_most_on_average() {
    let mut cluster = Cluster::new(&EVEN, Config::default());
    let mut there = 0;
    for second in 0..7_200_u32 {
        let rates = if second % 6 < 4 { [200.0, 0.0, 0.0] } else { [0.0, 200.0, 0.0] };
        cluster.review(rates, S * second);
        there += u32::from(second >= 600 && cluster.owner == Node(0));
    }
    assert!(
        there > 6_600 * 9 / 10,
        "{there} s of 6,600 where two thirds of its accesses come from"
    );
}

/// A return after a long time is no oscillation: however often, the slot follows within seconds.
#[test]
fn day_and_night_are_followed_at_once_each_time() {
    let mut cluster = Cluster::new(&EVEN, Config::default());
    for second in 0..7_200_u32 {
        let day = second / 300 % 2 == 0;
        cluster.review(if day { [200.0, 0.0, 0.0] } else { [0.0, 200.0, 0.0] }, S * second);
    }
    assert_eq!(cluster.moves.len(), 7_200 / 300 - 1);
    for (number, (at, _)) in cluster.moves.iter().enumerate() {
        let due = S * 300 * (number as u32 + 1);
        assert!(*at < due + 3 * S, "it moved at {at:?} and was wanted from {due:?}");
    }
}

#[test]
fn what_measuring_cannot_tell_from_nothing_moves_nothing() {
    // Far from all hosts: two nodes whose delays differ by 1 %, and by 3 %.
    for (us, moves) in [(49_500, 0), (48_500, 1)] {
        let delays = [[us, 50_000, 90_000]; 3];
        let mut cluster = Cluster::new(&delays, Config::default());
        cluster.owner = Node(1);
        for second in 0..60 {
            cluster.review([1_000.0, 1_000.0, 1_000.0], S * second);
        }
        assert_eq!(cluster.moves.len(), moves, "{us}");
    }
}

#[test]
fn moves_have_a_budget_and_the_dearest_go_first() {
    let config = Config { moves_max: 2, reviews: 1, ..Config::default() };
    let cluster = Cluster::new(&EVEN, config.clone());
    let mut initiator = Initiator::new(config);
    let demands: Vec<Demand> = (0..5)
        .map(|number| Demand {
            slot: Slot::new(number).expect("a slot"),
            owner: Node(0),
            bytes: 1,
            accesses: vec![(Host(1), Rate { reads: 100.0 + number as f64, ..Rate::default() })],
            pinned: number == 4,
        })
        .collect();
    let (delays, nodes) = (&cluster.delays, &cluster.nodes[..]);
    let problem = Problem { delays, nodes, demands: &demands, moving: MOVING };
    initiator.review(&problem, S);
    let numbers: Vec<usize> = initiator.ready().iter().map(|one| one.slot.number()).collect();
    assert_eq!(numbers, [3, 2]);
    let why = |initiator: &Initiator, number| initiator.why(Slot::new(number).expect("a slot"));
    assert_eq!(why(&initiator, 1), Some(Stays::Budget));
    assert_eq!(why(&initiator, 4), Some(Stays::Pinned));
    initiator.review(&problem, 2 * S);
    assert!(initiator.ready().is_empty());
    initiator.review(&problem, 11 * S);
    assert_eq!(initiator.ready().len(), 2);
    assert_eq!(why(&initiator, 3), Some(Stays::Moving));
}
