//! Cached copies, with invalidations and lease proofs that the test delivers.

use super::*;

const MS: Duration = Duration::from_millis(1);
const GET: &[u8] = b"GET a\r\n";
const PUSH: &[u8] = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n";

fn slot() -> Slot {
    Slot::of(b"a")
}

/// A copy of key `a`, fetched over link 3; the lease was proven at time 0.
fn copied() -> (Copies, Fill) {
    let mut copies = Copies::new();
    copies.choose(&[slot()]);
    copies.proven(3, WELL, Duration::ZERO);
    let fill = copies.begin(slot(), 3).expect("it is chosen");
    copies.fill(fill, GET, b"$1\r\nx\r\n");
    (copies, fill)
}

fn read(copies: &mut Copies, now: Duration) -> Option<Vec<u8>> {
    copies.read(slot(), Some(3), GET, Version::Resp2, now).map(<[u8]>::to_vec)
}

#[test]
fn a_copy_is_answered_from_once_it_is_known_when_it_expires() {
    let (mut copies, fill) = copied();
    assert_eq!(read(&mut copies, MS), None);
    copies.expires(fill, GET, 100, MS);
    assert_eq!(read(&mut copies, 100 * MS).as_deref(), Some(&b"$1\r\nx\r\n"[..]));
    assert_eq!(read(&mut copies, 101 * MS), None);
}

#[test]
fn a_key_that_is_not_there_is_not_copied() {
    let (mut copies, fill) = copied();
    copies.expires(fill, GET, NOT_THERE, MS);
    assert_eq!((read(&mut copies, MS), copies.bytes), (None, 0));
}

#[test]
fn nodes_that_do_not_tell_of_changes_are_asked_each_time() {
    let (mut copies, fill) = copied();
    copies.expires(fill, GET, -1, MS);
    copies.refuse();
    copies.choose(&[slot()]);
    assert!(read(&mut copies, MS).is_none() && !copies.wants(slot()));
}

#[test]
fn without_proof_a_copy_is_not_trusted() {
    let (mut copies, fill) = copied();
    copies.expires(fill, GET, -1, MS);
    assert!(read(&mut copies, COPY_LEASE - MS).is_some());
    assert_eq!(read(&mut copies, COPY_LEASE), None);
    copies.proven(3, b"cluster_state:fail", 500 * MS);
    assert_eq!(read(&mut copies, COPY_LEASE), None, "a node that is cut off proves nothing");
    copies.proven(3, WELL, 500 * MS);
    assert!(read(&mut copies, COPY_LEASE).is_some());
    copies.lost(3);
    assert_eq!(read(&mut copies, COPY_LEASE), None);
}

#[test]
fn what_changed_is_dropped_and_what_is_answered_after_it_is_stored() {
    let (mut copies, fill) = copied();
    copies.expires(fill, GET, -1, MS);
    let second = copies.begin(slot(), 3).expect("it is chosen");
    copies.told(3, PUSH);
    assert_eq!((read(&mut copies, MS), copies.bytes), (None, 0));
    // Requested before the change, and answered after it.
    copies.fill(second, GET, b"$1\r\ny\r\n");
    copies.expires(second, GET, -1, MS);
    assert_eq!(read(&mut copies, MS).as_deref(), Some(&b"$1\r\ny\r\n"[..]));
    copies.changed(slot());
    assert_eq!((read(&mut copies, MS), copies.bytes), (None, 0));
    copies.fill(fill, GET, NULL_3);
    // It changes before the node has reported its expiry.
    copies.told(3, b">2\r\n$10\r\ninvalidate\r\n_\r\n");
    copies.expires(fill, GET, -1, MS);
    assert_eq!(read(&mut copies, MS), None);
}

#[test]
fn what_was_asked_before_a_write_over_another_connection_is_not_stored() {
    for held in [Held::Slot(slot()), Held::All] {
        let (mut copies, fill) = copied();
        copies.write_begins(held);
        copies.write_ends(held);
        copies.fill(fill, GET, b"$1\r\nx\r\n");
        copies.expires(fill, GET, -1, MS);
        assert_eq!(read(&mut copies, MS), None, "{held:?}");
    }
}

#[test]
fn while_a_write_is_under_way_nothing_is_copied_or_answered_from_a_copy() {
    for held in [Held::Slot(slot()), Held::All] {
        let (mut copies, fill) = copied();
        copies.expires(fill, GET, -1, MS);
        copies.write_begins(held);
        assert!(read(&mut copies, MS).is_none() && !copies.wants(slot()), "{held:?}");
        copies.fill(fill, GET, b"$1\r\nx\r\n");
        copies.write_ends(held);
        assert!(read(&mut copies, MS).is_none() && copies.wants(slot()), "{held:?}");
    }
}

#[test]
fn a_slot_that_has_moved_begins_anew() {
    let (mut copies, fill) = copied();
    copies.expires(fill, GET, -1, MS);
    copies.proven(4, WELL, Duration::ZERO);
    assert_eq!(copies.read(slot(), Some(4), GET, Version::Resp2, MS), None);
    copies.begin(slot(), 4);
    assert_eq!((read(&mut copies, MS), copies.bytes), (None, 0));
}

#[test]
fn null_is_written_in_the_version_of_the_client() {
    assert_eq!(in_version(NULL_3, Version::Resp2), NULL_2);
    assert_eq!(in_version(NULL_3, Version::Resp3), NULL_3);
    assert!(!is_same_in_both_versions(b",1.5\r\n") && !is_same_in_both_versions(b"-ERR\r\n"));
}

#[test]
fn copies_give_way_when_less_memory_is_granted() {
    let (mut copies, fill) = copied();
    copies.expires(fill, GET, -1, MS);
    copies.grant(copies.bytes);
    assert!(read(&mut copies, MS).is_some());
    copies.grant(copies.bytes - 1);
    assert_eq!((read(&mut copies, MS), copies.bytes), (None, 0));
    copies.fill(fill, GET, b"$1\r\nx\r\n");
    assert_eq!(copies.bytes, 0, "there is no room");
}
