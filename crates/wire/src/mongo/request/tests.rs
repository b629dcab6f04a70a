use super::*;
use crate::mongo::fixture::{
    body, command, decoded, document, frame, message, pair, parsed, request, sequence,
};
use crate::mongo::frame::opcode;

#[test]
fn a_command_has_name_database_and_collection() {
    let bytes = command(|find| find.str("find", "items"), &[]);
    let request = request(&bytes);
    assert_eq!(request.name, "find");
    assert_eq!(request.effect(), Effect::Read { filter: "filter" });
    assert_eq!(request.namespace, Namespace { database: "shop", collection: Some("items") });
    assert!(request.acknowledged() && !request.legacy);
}

#[test]
fn each_place_of_a_collection_is_looked_at() {
    let namespace = |bytes: &[u8]| {
        let namespace = request(bytes).namespace;
        (namespace.database.to_owned(), namespace.collection.map(str::to_owned))
    };
    let full = |database: &str, name: &str| (database.to_owned(), Some(name.to_owned()));

    let more = command(
        |more| {
            more.i64("getMore", 77);
            more.str("collection", "items");
        },
        &[],
    );
    assert_eq!(namespace(&more), full("shop", "items"));
    let rename = command(|rename| rename.str("renameCollection", "a.b.c"), &[]);
    assert_eq!(namespace(&rename), full("a", "b.c"));
    let aggregate = command(|aggregate| aggregate.i32("aggregate", 1), &[]);
    assert_eq!(namespace(&aggregate), ("shop".to_owned(), None));
    let drop = command(|drop| drop.i32("dropDatabase", 1), &[]);
    assert_eq!(namespace(&drop), ("shop".to_owned(), None));
}

#[test]
fn an_unknown_command_counts_as_a_write_to_everything() {
    let bytes = command(|unknown| unknown.str("frobnicate", "items"), &[]);
    let request = request(&bytes);
    assert!(request.command.is_none());
    assert_eq!(request.effect(), Effect::Write(Scope::Everything));
}

#[test]
fn a_body_without_command_or_database_is_refused() {
    for body_bytes in [document(|_| {}), pair("ping", 1), document(|b| b.i32("$db", 1))] {
        let bytes = message(0, &[body(&body_bytes)]);
        assert!(Request::parse(&decoded(&bytes)).is_err());
    }
}

#[test]
fn a_list_is_found_in_the_body_and_in_sections() {
    let (inline, first, second) = (pair("_id", 0), pair("_id", 1), pair("_id", 2));
    let bytes = command(
        |insert| {
            insert.str("insert", "items");
            insert.array("documents", |items| items.document(parsed(&inline)));
        },
        &[
            sequence("documents", std::slice::from_ref(&first)),
            sequence("other", &[pair("_id", 9)]),
            sequence("documents", std::slice::from_ref(&second)),
        ],
    );
    let found: Vec<_> = request(&bytes)
        .documents("documents")
        .map(|found| found.unwrap().bytes().to_vec())
        .collect();
    assert_eq!(found, [inline, first, second]);
    assert_eq!(request(&bytes).sequences().count(), 3);
}

#[test]
fn a_malformed_list_is_an_error_and_not_an_absent_list() {
    let numbers = command(
        |insert| {
            insert.str("insert", "items");
            insert.array("documents", |items| items.str("no document"));
        },
        &[],
    );
    assert!(request(&numbers).documents("documents").any(|found| found.is_err()));
}

#[test]
fn a_legacy_command_is_a_request_and_a_legacy_find_is_not() {
    let query = |namespace: &[u8]| {
        let hello = pair("isMaster", 1);
        frame(opcode::QUERY, &[&[0; 4], namespace, &[0; 8], &hello].concat())
    };
    let bytes = query(b"admin.$cmd\0");
    let request = request(&bytes);
    assert!(request.legacy);
    assert_eq!((request.name, request.effect()), ("isMaster", Effect::Handshake));
    assert_eq!(request.namespace.database, "admin");
    assert!(Request::parse(&decoded(&query(b"shop.items\0"))).unwrap().is_none());
}
