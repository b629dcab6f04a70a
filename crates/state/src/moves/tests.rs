use super::*;

const WINDOW: Duration = Duration::from_secs(10);
const LENGTHS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn from_to(from: u16, to: u16) -> Move {
    let slot = Slot::new(7).expect("a slot");
    Move { slot, from: Node(from), to: Node(to), saves_us: 0.0 }
}

#[test]
fn only_so_many_moves_begin_within_the_window() {
    let mut moves = Moves::new(2, WINDOW);
    for second in [0, 5] {
        assert!(!moves.is_spent(at(second)));
        moves.begin(from_to(0, 1), at(second));
        moves.end(from_to(0, 1).slot);
    }
    assert!(moves.is_spent(at(9)), "also after they have ended");
    assert!(!moves.is_spent(at(10)), "the first is outside the window");
    moves.begin(from_to(1, 0), at(10));
    assert!(moves.is_spent(at(14)));
    // A move that is put off costs nothing.
    assert!(moves.put_off(from_to(1, 0).slot) && !moves.is_spent(at(14)));
    assert!(!moves.put_off(from_to(1, 0).slot) && moves.is_empty());
}

#[test]
fn a_slot_that_moves_back_soon_waits_twice_as_long_up_to_the_maximum() {
    let mut slot = CoolDown::default();
    let mut waits = Vec::new();
    for (second, (from, to)) in [(0, (0, 1)), (1, (1, 2)), (2, (2, 0)), (4, (0, 1)), (8, (1, 0))] {
        slot.begin(&from_to(from, to), true, LENGTHS, at(second));
        assert_eq!(slot.until, at(second) + slot.length);
        waits.push(slot.length.as_secs());
    }
    // To 1 and to 2 for the first time; then back to 0, 1 and 0.
    assert_eq!(waits, [1, 1, 2, 4, 4]);
    slot.begin(&from_to(0, 1), true, LENGTHS, at(100));
    assert_eq!(slot.length, at(1), "after a long time it does not count as an oscillation");
}

#[test]
fn a_slot_that_the_same_node_refuses_again_waits_twice_as_long() {
    let mut slot = CoolDown::default();
    for (to, moved, wait) in [(1, false, 1), (1, false, 2), (2, false, 1), (2, true, 1)] {
        slot.begin(&from_to(0, to), moved, LENGTHS, at(0));
        assert_eq!((slot.length, slot.not_moved), (at(wait), (!moved).then_some(Node(to))));
    }
}
