use super::*;
use crate::{
    accesses::Counts,
    initiator, members,
    usage::{Memory, SlotUsage},
    view::{Directory, Look},
};

const SECOND: Duration = Duration::from_secs(1);

fn slot(number: usize) -> Slot {
    Slot::new(number).expect("a slot")
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Two nodes with half of the slots each.
fn view() -> View {
    let told = members::read(
        "aa 127.0.0.1:1@9 master - 0 0 1 connected 0-8191\n\
         bb 127.0.0.1:2@9 master - 0 0 2 connected 8192-16383\n",
        at(1),
    );
    let reports = told.iter().map(|member| (Some(member.clone()), 2)).collect();
    Look::new(&told, reports).expect("primaries").view(Vec::new(), &mut Directory::default())
}

fn placer() -> Placer {
    Placer::new(Config {
        goal: Goal::Latency,
        name: "p".to_owned(),
        period: SECOND,
        half_life: SECOND,
        initiator: initiator::Config::default(),
        moving: MoveCost { fixed_us: 0.0, per_byte_us: 0.0, dwell_s: 60.0 },
        load_max: f64::INFINITY,
        pins: BTreeSet::new(),
        excluded: BTreeSet::new(),
        copies: true,
        dry_run: false,
    })
}

/// Slot 1 is used often, by a host that is far from the slot's node and near the other.
fn report(sequence: u64) -> Report {
    let counts = Counts { reads: 1_000, writes: 1_000, bytes: 100_000, copied: 0 };
    Report {
        sequence,
        period_ms: 1_000,
        slots: vec![(1, counts.reads, counts.writes, counts.bytes, counts.copied)],
        round_trips_us: [(at(1), vec![5_000; 8]), (at(2), vec![100; 8])].into(),
        hot: Vec::new(),
    }
}

/// A leading placer that has received reports of `host-1` for ten seconds.
fn informed(view: &View) -> (Placer, Duration) {
    let mut placer = placer();
    placer.set_leading(true);
    let mut now = Duration::ZERO;
    for sequence in 0..10 {
        now += SECOND;
        let reports = vec![("host-1".to_owned(), report(sequence))];
        assert!(placer.hear(view, reports, now).is_empty());
    }
    (placer, now)
}

/// Runs reviews until a move is proposed.
fn wanted(placer: &mut Placer, view: &View, now: Duration) -> Vec<Move> {
    for review in 0..10 {
        let now = now + SECOND * review;
        let reviewed = placer.review(view, now);
        placer.explain(view, &reviewed, now);
        let moves = placer.ready();
        if !moves.is_empty() {
            return moves;
        }
    }
    Vec::new()
}

#[test]
fn a_slot_is_moved_to_the_node_near_its_host_and_the_status_tells() {
    let view = view();
    let (mut placer, now) = informed(&view);
    let moves = wanted(&mut placer, &view, now);
    assert_eq!(
        moves.iter().map(|one| (one.slot, one.to)).collect::<Vec<_>>(),
        [(slot(1), Node(1))]
    );
    let line = view.line(moves[0]);
    placer.ended(slot(1), &line, None, now);
    let lines = placer.status().lines();
    assert!(lines[0].ends_with("host-1") && lines[3] == "moves: 1, failed: 0", "{lines:?}");
    assert!(lines[4].contains("127.0.0.1:1 -> 127.0.0.1:2"), "{lines:?}");
    assert!(placer.status().why(slot(1)).contains("used by host-1"));
}

/// Counts keys and processor time, and reviews.
fn counted(placer: &mut Placer, view: &View, counts: Counter, now: Duration) {
    assert!(placer.count_is_due(now));
    for (node, ..) in placer.begin_count(view, now) {
        let processor_us = (counts == Counter::On).then(|| 100_000 * now.as_secs());
        let usage = |number| SlotUsage { slot: slot(number), keys: 1, processor_us };
        let slots = if node == Node(0) { vec![usage(1), usage(2)] } else { Vec::new() };
        let mut count = Count::of_all(Memory { dataset: 2, used: 2, limit: None }, slots);
        if counts == Counter::Absent {
            count.slots = None;
        }
        placer.count(node, count, now);
    }
    let review = placer.review(view, now);
    placer.explain(view, &review, now);
}

/// Whether nodes count processor time.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Counter {
    On,
    Off,
    Absent,
}

#[test]
fn load_is_evened_out_by_what_nodes_count_or_else_by_what_agents_count() {
    for counts in [Counter::On, Counter::Off, Counter::Absent] {
        let unit =
            if counts == Counter::On { "us of processor time" } else { "accesses per second" };
        let view = view();
        let mut placer = placer();
        placer.config.goal = Goal::Load;
        placer.set_leading(true);
        let mut now = Duration::ZERO;
        for second in 1..=25 {
            now = SECOND * second;
            let mut report = report(second.into());
            report.slots.push((2, 1_000, 1_000, 100_000, 0));
            placer.hear(&view, vec![("host-1".to_owned(), report)], now);
            if second % 5 == 0 {
                counted(&mut placer, &view, counts, now);
            }
        }
        let moves = placer.ready();
        let [one] = moves[..] else { panic!("{counts:?}: one of two slots is enough: {moves:?}") };
        assert_eq!((one.from, one.to), (Node(0), Node(1)), "{counts:?}");
        let line = placer.line(&view, one);
        assert!(line.starts_with("slot ") && line.contains("evens out load"), "{line}");
        placer.ended(one.slot, &line, None, now);
        let review = placer.review(&view, now);
        placer.explain(&view, &review, now);
        let status = placer.status();
        assert!(status.why(one.slot).contains("evens out load"), "{}", status.why(one.slot));
        let lines = status.lines();
        assert!(lines.iter().any(|line| line.contains(unit)), "{lines:?}");
        assert!(
            lines.iter().any(|line| line.contains("slot ") && line.contains("evens")),
            "{lines:?}"
        );
    }
}

#[test]
fn a_failed_move_is_remembered_until_another_leader_may_have_decided() {
    let view = view();
    let (mut placer, now) = informed(&view);
    assert!(!wanted(&mut placer, &view, now).is_empty());
    placer.ended(slot(1), "line", Some("no memory".to_owned()), now);
    let explained = |placer: &mut Placer| {
        let review = placer.review(&view, now);
        placer.explain(&view, &review, now);
        placer.status().why(slot(1)).contains("failed: no memory")
    };
    assert!(explained(&mut placer));
    placer.set_leading(true);
    assert!(explained(&mut placer));
    placer.set_leading(false);
    placer.set_leading(true);
    assert!(!explained(&mut placer) && !placer.knows_copied());
}

#[test]
fn without_copies_those_of_an_earlier_leader_end() {
    let (view, copied) = (view(), BTreeSet::from([slot(1)]));
    let (mut placer, now) = informed(&view);
    placer.config.copies = false;
    placer.set_copied(copied);
    let review = placer.review(&view, now);
    assert_eq!(placer.choose_copies(&review), Some(BTreeSet::new()));
    placer.set_copied(BTreeSet::new());
    assert_eq!(placer.choose_copies(&review), None);
}

#[test]
fn the_first_report_of_an_agent_counts_for_nothing_and_an_old_one_is_deleted() {
    let (view, mut placer) = (view(), placer());
    let heard = |placer: &mut Placer, sequence, now| {
        placer.hear(&view, vec![("host-1".to_owned(), report(sequence))], now)
    };
    assert!(heard(&mut placer, 1, SECOND).is_empty());
    assert!(placer.begin_count(&view, SECOND).iter().all(|(.., slots)| slots.is_empty()));
    assert!(heard(&mut placer, 2, SECOND * 2).is_empty());
    let counted = placer.begin_count(&view, SECOND * 2);
    assert_eq!(counted[0], (Node(0), at(1), vec![slot(1)]));
    assert!(heard(&mut placer, 2, SECOND * 2 + GONE_AFTER).is_empty());
    assert_eq!(heard(&mut placer, 2, SECOND * 3 + GONE_AFTER), ["host-1"]);
    // The number of the host is reused.
    placer.hear(&view, Vec::new(), SECOND * 4 + GONE_AFTER);
    placer.hear(&view, vec![("host-2".to_owned(), report(1))], SECOND * 5 + GONE_AFTER);
    assert_eq!(placer.hosts, [Some("host-2".to_owned())]);
}
