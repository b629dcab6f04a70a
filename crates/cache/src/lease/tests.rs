use std::time::Duration;

use super::{Character, Closed, Leases, NAMESPACES_MAX, Outcome, Ticket};
use crate::key::{Key, Namespace, Sent};

const SECOND: Duration = Duration::from_secs(1);

fn users() -> Namespace {
    Namespace::new(0, "origin", b"shop", b"users")
}

fn key(bytes: &[u8]) -> Key<'_> {
    Key::new(users(), bytes)
}

fn sent(key: Key<'_>) -> Sent {
    crate::key::Scope::Key(key).into()
}

/// Every scope that covers the key `a`.
fn scopes_above() -> [Sent; 4] {
    let namespace = users();
    [
        sent(key(b"a")),
        Sent::Collection(namespace),
        namespace.whole_database().into(),
        namespace.whole_origin().into(),
    ]
}

#[test]
fn a_write_at_any_level_revokes_the_lease() {
    for scope in scopes_above() {
        let mut leases = Leases::default();
        let lease = leases.take(key(b"a"), None).unwrap();
        leases.write_sent(scope);
        leases.write_settled(scope, Outcome::Applied);
        assert_eq!(leases.redeem(lease), None, "{scope:?}");
        assert!(leases.is_idle());
    }
}

#[test]
fn while_a_write_is_unanswered_no_lease_is_given() {
    for scope in scopes_above() {
        let mut leases = Leases::default();
        leases.write_sent(scope);
        assert_eq!(leases.take(key(b"a"), None), Err(Closed::WritePending), "{scope:?}");
        leases.write_settled(scope, Outcome::Applied);
        let lease = leases.take(key(b"a"), None).unwrap();
        assert!(leases.redeem(lease).is_some(), "{scope:?}");
        assert!(leases.is_idle());
    }
}

#[test]
fn looking_tells_what_taking_a_lease_would() {
    let told = |leases: &mut Leases| {
        let looked = leases.closed(key(b"a"));
        let taken = leases.take(key(b"a"), None);
        assert_eq!(looked, taken.as_ref().err().copied());
        if let Ok(lease) = taken {
            assert!(leases.is_filling(key(b"a")));
            leases.release(lease);
        }
        looked
    };
    for scope in scopes_above() {
        let mut leases = Leases::default();
        assert_eq!(told(&mut leases), None);
        leases.write_sent(scope);
        assert_eq!(told(&mut leases), Some(Closed::WritePending), "{scope:?}");
        leases.write_settled(scope, Outcome::Applied);
        assert_eq!(told(&mut leases), None, "{scope:?}");
        leases.write_sent(scope);
        leases.write_lost(scope, SECOND);
        assert_eq!(told(&mut leases), Some(Closed::Quarantine), "{scope:?}");
        leases.advance(2 * SECOND);
        let lease = leases.take(key(b"a"), None).unwrap();
        leases.learn(&lease, Character::Derived);
        leases.release(lease);
        assert_eq!(told(&mut leases), Some(Closed::Derived), "{scope:?}");
        assert!(!leases.is_filling(key(b"a")));
    }
    let mut leases = Leases::default();
    let busy = |number: usize| {
        let namespace = Namespace::new(0, "origin", b"shop", &number.to_le_bytes());
        Key::new(namespace, b"a")
    };
    let taken: Vec<_> =
        (0..NAMESPACES_MAX).map(|number| leases.take(busy(number), None).unwrap()).collect();
    assert_eq!(told(&mut leases), Some(Closed::NamespaceLimit));
    taken.into_iter().for_each(|lease| leases.release(lease));
    assert_eq!(told(&mut leases), None);
}

#[test]
fn what_is_stored_is_suspended_while_a_write_is_unanswered_and_served_again_if_all_were_refused() {
    for scope in scopes_above() {
        let mut leases = Leases::default();
        let lease = leases.take(key(b"a"), None).unwrap();
        let generation = leases.redeem(lease);
        assert!(generation.is_some());
        let sees = |leases: &Leases| leases.serves(key(b"a"));
        assert_eq!(sees(&leases), generation);
        leases.write_sent(scope);
        leases.write_sent(scope);
        assert_eq!(sees(&leases), None, "{scope:?}");
        leases.write_settled(scope, Outcome::Refused);
        assert_eq!(sees(&leases), None, "another is under way: {scope:?}");
        leases.write_settled(scope, Outcome::Refused);
        assert_eq!(sees(&leases), generation, "{scope:?}");
        leases.write_sent(scope);
        leases.write_sent(scope);
        leases.write_settled(scope, Outcome::Applied);
        leases.write_settled(scope, Outcome::Refused);
        // For a key the storage drops the entry itself.
        let is_key = matches!(scope, Sent::Key { .. });
        assert_eq!(sees(&leases) == generation, is_key, "{scope:?}");
    }
}

#[test]
fn a_write_elsewhere_leaves_the_lease_alone() {
    let mut leases = Leases::default();
    let elsewhere = Namespace::new(0, "origin", b"blog", b"posts");
    let lease = leases.take(key(b"a"), None).unwrap();
    for scope in [
        sent(key(b"b")),
        Sent::Collection(elsewhere),
        elsewhere.whole_database().into(),
        Sent::Origin(crate::key::origin(0, "another origin")),
        Sent::Key { namespace: elsewhere, hash: Key::new(elsewhere, b"a").hash },
    ] {
        leases.write_sent(scope);
    }
    assert!(leases.redeem(lease).is_some());
}

#[test]
fn a_collection_write_begins_a_generation_that_was_never_used() {
    let mut leases = Leases::default();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let lease = leases.take(key(b"a"), None).unwrap();
        seen.extend(leases.redeem(lease));
        leases.write_sent(Sent::Collection(users()));
        leases.write_settled(Sent::Collection(users()), Outcome::Applied);
    }
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_waiting_session_is_woken_by_fill_release_and_write() {
    type End = fn(&mut Leases, super::Lease);
    let ends: [End; 3] = [
        |leases, lease| {
            leases.redeem(lease);
        },
        Leases::release,
        |leases, lease| {
            leases.write_sent(sent(key(b"a")));
            assert_eq!(*leases.woken(), [Ticket(7)], "woken when the write is sent");
            leases.release(lease);
        },
    ];
    for end in ends {
        let mut leases = Leases::default();
        let lease = leases.take(key(b"a"), Some(Ticket(6))).unwrap();
        assert_eq!(leases.take(key(b"a"), Some(Ticket(7))), Err(Closed::FillPending));
        end(&mut leases, lease);
        assert_eq!(*leases.woken(), [Ticket(7)]);
    }
}

#[test]
fn no_session_waits_for_a_lease_that_a_write_has_revoked() {
    let mut leases = Leases::default();
    let revoked = leases.take(key(b"a"), None).unwrap();
    leases.write_sent(sent(key(b"a")));
    leases.write_settled(sent(key(b"a")), Outcome::Applied);
    let fresh = leases.take(key(b"a"), Some(Ticket(1))).unwrap();
    assert_eq!(leases.redeem(revoked), None);
    assert!(leases.redeem(fresh).is_some());
}

#[test]
fn a_lost_write_keeps_its_scope_closed_until_quarantine_ends() {
    for scope in scopes_above() {
        let mut leases = Leases::default();
        leases.write_sent(scope);
        leases.write_lost(scope, 3 * SECOND);
        leases.advance(2 * SECOND);
        assert_eq!(leases.take(key(b"a"), None), Err(Closed::Quarantine));
        leases.advance(3 * SECOND);
        let lease = leases.take(key(b"a"), None).unwrap();
        leases.release(lease);
        assert!(leases.is_idle());
    }
}

#[test]
fn what_is_known_of_a_collection_is_forgotten_with_its_generation() {
    let mut leases = Leases::default();
    let lease = leases.take(key(b"a"), None).unwrap();
    leases.learn(&lease, Character::Plain);
    leases.release(lease);
    assert_eq!(leases.character(users()), Character::Plain);
    leases.write_sent(Sent::Collection(users()));
    leases.write_settled(Sent::Collection(users()), Outcome::Applied);
    assert_eq!(leases.character(users()), Character::Unknown);

    let stale = leases.take(key(b"a"), None).unwrap();
    leases.write_sent(Sent::Collection(users()));
    leases.write_settled(Sent::Collection(users()), Outcome::Applied);
    leases.learn(&stale, Character::Plain);
    assert_eq!(leases.character(users()), Character::Unknown, "learned before the write");
    leases.release(stale);
}

#[test]
fn only_a_write_that_was_always_alone_is_the_sole_writer() {
    let mut leases = Leases::default();
    let lease = leases.take(key(b"a"), None).unwrap();
    leases.release(lease);
    let scope = sent(key(b"a"));
    leases.write_sent(scope);
    let first = leases.events();
    assert!(leases.is_sole_writer(scope, first));
    leases.write_sent(scope);
    let second = leases.events();
    assert!(!leases.is_sole_writer(scope, first));
    assert!(!leases.is_sole_writer(scope, second));
    leases.write_settled(scope, Outcome::Applied);
    assert!(!leases.is_sole_writer(scope, first), "another write ran concurrently");
}

#[test]
fn lost_writes_without_number_are_kept_in_bounds_and_all_end() {
    let mut leases = Leases::default();
    let lost = |number: u32| sent(key(&number.to_le_bytes()));
    for number in 0..200_000 {
        leases.write_sent(lost(number));
        leases.write_lost(lost(number), 3 * SECOND + Duration::from_micros(number.into()));
    }
    assert!(leases.quarantine.len() <= super::QUARANTINE_MAX + 1);
    assert!(leases.flights.len() <= super::QUARANTINE_MAX);
    let elsewhere = Namespace::new(0, "origin", b"blog", b"posts");
    assert_eq!(leases.take(key(b"a"), None), Err(Closed::Quarantine), "the collection is closed");
    let lease = leases.take(Key::new(elsewhere, b"a"), None).unwrap();
    leases.release(lease);
    leases.advance(3 * SECOND + Duration::from_micros(199_998));
    assert_eq!(leases.take(key(b"a"), None), Err(Closed::Quarantine), "until the last has ended");
    leases.advance(3 * SECOND + Duration::from_micros(199_999));
    let lease = leases.take(key(b"a"), None).unwrap();
    leases.release(lease);
    assert!(leases.is_idle());
}

#[test]
fn a_collection_that_was_forgotten_has_no_sole_writer() {
    let mut leases = Leases::default();
    let touch = |leases: &mut Leases, namespace| {
        let lease = leases.take(Key::new(namespace, b"x"), None).unwrap();
        leases.release(lease);
    };
    touch(&mut leases, users());
    let scope = sent(key(b"a"));
    leases.write_sent(scope);
    let first = leases.events();
    assert!(leases.is_sole_writer(scope, first));
    leases.write_sent(Sent::Collection(users()));
    leases.write_settled(Sent::Collection(users()), Outcome::Applied);
    for number in 0..NAMESPACES_MAX {
        touch(&mut leases, Namespace::new(0, "origin", b"many", &number.to_le_bytes()));
    }
    touch(&mut leases, users());
    assert!(!leases.is_sole_writer(scope, first), "the collection was written after that");
}
