use super::*;

const TOLD: &str = "\
aa 127.0.0.1:1@11 master - 0 0 1 connected 0-5000
bb 127.0.0.1:2@12 master - 0 0 2 connected 5001-10000
cc 127.0.0.1:3@13 master,fail - 0 0 3 connected 10001-10009
";

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn slot(number: usize) -> Slot {
    Slot::new(number).expect("a slot")
}

fn told(text: &str) -> Vec<Member> {
    members::read(text, at(1))
}

/// The reports of `aa` and `bb` about the slots that they own.
fn look(aa: &str, bb: &str) -> Look {
    let own = |name: &str, port: u16, owns: &str| {
        let line = format!("{name} 127.0.0.1:{port}@9 myself,master - 0 0 {port} connected {owns}");
        (told(&line).pop(), 7 + u64::from(port))
    };
    Look::new(&told(TOLD), vec![own("aa", 1, aa), own("bb", 2, bb)]).expect("primaries")
}

#[test]
fn failing_nodes_are_not_asked_and_come_last_as_seeds() {
    assert_eq!(Look::primaries(&told(TOLD)), [at(1), at(2)]);
    let failing_first = TOLD.replacen("master -", "master,fail? -", 1);
    assert_eq!(Look::seeds(&told(&failing_first)), [at(2), at(1), at(3)]);
    assert_eq!(Look::new(&told(TOLD), vec![(None, 9)]).err(), Some(Missing::Primaries));
}

#[test]
fn a_slot_is_lost_only_if_no_node_knows_of_an_owner_that_was_not_asked() {
    let look = look("0-5000", "5001-9998");
    assert_eq!(look.asked(), [at(1), at(2)]);
    // Each node says that the other owns slot 9999; `bb` itself claims 10000 in its second report.
    let by_aa = told(TOLD);
    let by_bb = told(
        "aa 127.0.0.1:1@11 master - 0 0 1 connected 9999\n\
         bb 127.0.0.1:2@12 myself,master - 0 0 2 connected 10000\n",
    );
    let said = [look.denied(&by_aa), look.denied(&by_bb)].concat();
    let mut directory = Directory::default();
    let view = look.view(said, &mut directory);
    assert_eq!(view.lost().iter().map(|slot| slot.number()).collect::<Vec<_>>(), [9_999]);
    assert_eq!((view.owner(slot(0)), view.owner(slot(9_998))), (Some(Node(0)), Some(Node(1))));
    // Owned by the node that did not answer.
    assert!(!view.lost().contains(&slot(10_001)));
    assert_eq!(directory.number("bb"), Node(1));
}

#[test]
fn what_nodes_report_of_open_slots_becomes_claims_and_lines() {
    let look = look("0-5000 [7->-bb]", "5001-10000 [7-<-aa] [8-<-gone]");
    let mut directory = Directory::default();
    let view = look.view(Vec::new(), &mut directory);
    let (aa, bb) = (Node(0), Node(1));
    let member = view.member(aa).expect("a primary");
    assert!(view.foreign(aa, member, false).is_empty());
    assert_eq!(view.foreign(aa, member, true).len(), SLOTS - 5_001);
    let misplaced = vec![
        Misplaced { coming: vec![], foreign: vec![(slot(6_000), 2), (slot(6_001), 0)] },
        Misplaced { coming: vec![3, 0], foreign: vec![] },
    ];
    let claims = view.claims(misplaced, &mut directory);
    let expected = [
        (slot(7), vec![(aa, Claim::Migrating(bb)), (bb, Claim::Importing(aa, 3))]),
        (slot(8), vec![(bb, Claim::Importing(Node(2), 0))]),
        (slot(6_000), vec![(aa, Claim::Holding(2))]),
    ];
    assert_eq!(claims, expected);
    assert_eq!(
        view.findings(&claims)[2..],
        [
            "slot 8 is open: moving to 127.0.0.1:2 from a node that left the cluster, 0 keys have arrived",
            "slot 6000 has 2 keys at 127.0.0.1:1, which does not own it",
        ]
    );
    assert_eq!(view.lines()[1], "node 127.0.0.1:2: 5000 slots, 2 open");
    assert_eq!(view.open().len(), 2);
}

#[test]
fn slots_that_are_there_already_are_not_moved_and_others_are_told() {
    let view = look("0-5000", "5001-10000").view(Vec::new(), &mut Directory::default());
    let moves = view.moves(&[slot(1), slot(6_000)], at(2)).expect("moves");
    assert_eq!(moves.iter().map(|one| one.slot.number()).collect::<Vec<_>>(), [1]);
    assert_eq!(view.line(moves[0]), "slot 1 127.0.0.1:1 -> 127.0.0.1:2");
    assert!(view.news_for(Node(1), &moves).is_empty());
    assert_eq!(view.news_for(Node(5), &moves), [(slot(1), "bb")]);
    assert_eq!(view.moves(&[slot(1)], at(9)), Err(Missing::Address(at(9))));
    assert_eq!(view.moves(&[slot(12_000)], at(2)), Err(Missing::Owner(slot(12_000))));
}
