//! Compares the model's nodes with real nodes that execute the real commands: the key of the lease
//! in each of its states, and fences in each combination.

use std::{path::Path, thread};

use state::{
    fence::{self, Others},
    lease::key::{self, KEY},
    query::Query,
    scripts,
};

use super::{
    server::{self, Connection, Server},
    *,
};

/// The placer whose commands are compared.
const OWN: usize = 0;

#[test]
fn the_key_of_the_lease_answers_as_its_model_does() {
    for program in [server::redis(), server::valkey()].into_iter().flatten() {
        let server = Server::start(&program, &[], &[]);
        let mut node = server.connect();
        let values = ["a", "b"].map(|name| key::value(name, 7));
        for before in [None, Some(OWN), Some(1)] {
            for ask in [Ask::Take, Ask::Renew] {
                hold(&mut node, before.map(|holder| values[holder].as_str()));
                let mut world = World::new(SMALL, Broken::default());
                world.lease = before;
                world.ask(OWN, ask, true);
                let held = matches!(world.placers[OWN].rules.next(Duration::ZERO), Ask::Fence(_));
                let (answer, holder) = said(&mut node, key::ask(ask, &values[OWN]));
                assert_eq!(answer == Answer::Held, held, "{ask:?} of {before:?}");
                let other = (ask == Ask::Renew && before == Some(1)).then_some("b");
                assert_eq!(holder.as_deref(), other, "{ask:?} of {before:?}");
                let holder = world.lease.map(|holder| ["a", "b"][holder].to_owned());
                assert_eq!(said(&mut node, key::holder()), holder, "{ask:?} of {before:?}");
                let Reply::Integer(left) = node.ask(&["PTTL", KEY]) else { panic!("no time") };
                assert_eq!(left > 0, held, "{ask:?} of {before:?}: {left}");
            }
            hold(&mut node, before.map(|holder| values[holder].as_str()));
            said(&mut node, key::release(&values[OWN]));
            let left = before.filter(|holder| *holder != OWN).map(|_| "b".to_owned());
            assert_eq!(said(&mut node, key::holder()), left, "released {before:?}");
        }
    }
}

#[test]
fn fences_stand_at_a_node_as_in_its_model() {
    for program in [server::redis(), server::valkey()].into_iter().flatten() {
        for stand in 0..8 {
            compare(&program, stand);
        }
    }
}

/// With those of three fences whose bits are set; the middle one is the placer's own.
fn compare(program: &Path, stand: usize) {
    let token = |number| Token { number, holder: u64::from(number != 2) };
    let (own, all) = (token(2), [token(1), token(2), token(3)]);
    let standing: BTreeSet<Token> =
        (0..3).filter(|at| stand >> at & 1 == 1).map(|at| all[at]).collect();
    let server = Server::start(program, &[], &[]);
    let mut node = server.connect();
    let _subscribers: Vec<Connection> = standing
        .iter()
        .map(|token| {
            let mut connection = server.connect();
            for query in fence::subscribe(&token.channel("x")) {
                said(&mut connection, query);
            }
            connection
        })
        .collect();
    let channel = own.channel("x");
    let world = |stage: Stage| {
        let mut world = World::new(SMALL, Broken::default());
        world.subscribed[0].clone_from(&standing);
        world.placers[OWN].raising = Some((own, [stage, Stage::Nothing]));
        world
    };

    let mut model = world(Stage::Done);
    model.execute(OWN, own, 1, 0);
    let step = scripts::tell(&[]).behind(&channel);
    let reply = node.ask(step.words());
    let executed = step.read(reply);
    assert_eq!(executed.is_ok(), model.executed.is_some(), "{standing:?}");
    assert!(executed.err().is_none_or(|error| error.is_fenced()), "{standing:?}");

    let mut model = world(Stage::Done);
    model.raise(OWN, 0);
    let confirmed = model.placers[OWN].raising.is_some();
    assert_eq!(said(&mut node, fence::stands(&channel)), confirmed, "{standing:?}");

    if standing.contains(&own) {
        let mut model = world(Stage::Subscribed);
        model.raise(OWN, 0);
        let stage = model.placers[OWN].raising.map(|(_, [stage, _])| stage);
        match said(&mut node, fence::others(own, &channel)) {
            Others::Higher(higher) => assert_eq!((higher, stage), (all[2], None)),
            Others::Lower(lower) if lower.is_empty() => assert_eq!(stage, Some(Stage::Done)),
            Others::Lower(lower) => {
                assert_eq!(stage, Some(Stage::Subscribed), "{standing:?}");
                for kill in said(&mut node, fence::close(&lower)) {
                    said(&mut node, kill);
                }
                let left = BTreeSet::from([own]);
                assert_eq!(model.subscribed[0], left);
                // A connection may be closed a moment after the reply.
                while said(&mut node, fence::others(own, &channel)) != Others::Lower(Vec::new()) {
                    thread::yield_now();
                }
                assert!(said(&mut node, fence::stands(&channel)));
            }
        }
    }
}

fn hold(node: &mut Connection, value: Option<&str>) {
    node.ask(&["DEL", KEY]);
    if let Some(value) = value {
        node.ask(&["SET", KEY, value]);
    }
}

fn said<T>(node: &mut Connection, query: Query<'_, T>) -> T {
    let reply = node.ask(query.words());
    query.read(reply).expect("a reply to this query")
}
