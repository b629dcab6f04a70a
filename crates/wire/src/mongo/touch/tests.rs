use super::*;
use crate::mongo::bson::Writer;
use crate::mongo::fixture::{command, document, pair, parsed, request, sequence};

const ITEMS: Namespace<'static> = Namespace { database: "shop", collection: Some("items") };

/// The targets of the request in `bytes` as text; `Touch` borrows its names.
fn touched(bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    touches(&request(bytes), &mut |touch| found.push(describe(&touch))).unwrap();
    found
}

fn describe(touch: &Touch<'_>) -> String {
    let id = |document: &Document<'_>| document.element("_id").unwrap().unwrap().i32().unwrap();
    let name = |namespace: &Namespace<'_>| {
        format!("{}.{}", namespace.database, namespace.collection.unwrap_or("?"))
    };
    match touch {
        Touch::Document { namespace, document } => {
            format!("document {} {}", name(namespace), id(document))
        }
        Touch::Filter { namespace, filter, .. } => {
            format!("filter {} {}", name(namespace), id(filter))
        }
        Touch::Collection(namespace) => format!("collection {}", name(namespace)),
        Touch::Database(database) => format!("database {database}"),
        Touch::Everything => "everything".to_owned(),
    }
}

fn entry(filter: &str, id: i32) -> Vec<u8> {
    let filter_bytes = pair("_id", id);
    document(|entry| entry.document(filter, parsed(&filter_bytes)))
}

#[test]
fn inserts_touch_their_documents() {
    let documents = sequence("documents", &[pair("_id", 1), pair("_id", 2)]);
    let bytes = command(|insert| insert.str("insert", "items"), &[documents]);
    assert_eq!(touched(&bytes), ["document shop.items 1", "document shop.items 2"]);
}

#[test]
fn updates_and_deletes_touch_what_their_filters_select() {
    let updates = sequence("updates", &[entry("q", 1), entry("q", 2)]);
    let bytes = command(|update| update.str("update", "items"), &[updates]);
    assert_eq!(touched(&bytes), ["filter shop.items 1", "filter shop.items 2"]);

    let delete = entry("q", 3);
    let bytes = command(
        |command| {
            command.str("delete", "items");
            command.array("deletes", |items| items.document(parsed(&delete)));
        },
        &[],
    );
    assert_eq!(touched(&bytes), ["filter shop.items 3"]);
}

#[test]
fn find_and_modify_touches_its_query_and_without_one_the_collection() {
    let query = pair("_id", 4);
    let bytes = command(
        |command| {
            command.str("findAndModify", "items");
            command.document("query", parsed(&query));
        },
        &[],
    );
    assert_eq!(touched(&bytes), ["filter shop.items 4"]);
    let bytes = command(|command| command.str("findandmodify", "items"), &[]);
    assert_eq!(touched(&bytes), ["collection shop.items"]);
}

#[test]
fn bulk_writes_touch_the_namespaces_they_count_into() {
    let operation = |verb: &str, index: i32, field: &str, id: i32| {
        let value = pair("_id", id);
        document(|operation| {
            operation.i32(verb, index);
            operation.document(field, parsed(&value));
        })
    };
    let name = |name: &str| document(|entry| entry.str("ns", name));
    let bulk = |operations: &[Vec<u8>]| {
        let sections = [
            sequence("ops", operations),
            sequence("nsInfo", &[name("shop.items"), name("old.log.x")]),
        ];
        command(|bulk| bulk.i32("bulkWrite", 1), &sections)
    };
    let bytes = bulk(&[
        operation("insert", 1, "document", 1),
        operation("update", 0, "filter", 2),
        operation("delete", 1, "filter", 3),
        operation("novelty", 0, "filter", 4),
    ]);
    assert_eq!(
        touched(&bytes),
        [
            "document old.log.x 1",
            "filter shop.items 2",
            "filter old.log.x 3",
            "collection shop.items"
        ]
    );
    let bytes = bulk(&[operation("insert", 2, "document", 1)]);
    assert!(touches(&request(&bytes), &mut |_| {}).is_err());
}

#[test]
fn commands_on_collections_and_databases_touch_all_of_them() {
    let bytes = command(|drop| drop.str("drop", "items"), &[]);
    assert_eq!(touched(&bytes), ["collection shop.items"]);
    let bytes = command(|drop| drop.i32("dropDatabase", 1), &[]);
    assert_eq!(touched(&bytes), ["database shop"]);
    let bytes = command(|unknown| unknown.i32("frobnicate", 1), &[]);
    assert_eq!(touched(&bytes), ["everything"]);
    let bytes = command(
        |rename| {
            rename.str("renameCollection", "shop.items");
            rename.str("to", "shop.old");
        },
        &[],
    );
    assert_eq!(touched(&bytes), ["collection shop.items", "collection shop.old"]);
    let bytes = command(|find| find.str("find", "items"), &[]);
    assert!(touched(&bytes).is_empty());
}

#[test]
fn a_write_to_a_system_collection_touches_its_database() {
    let documents = sequence("documents", &[pair("_id", 1)]);
    let bytes = command(|insert| insert.str("insert", "system.views"), &[documents]);
    assert_eq!(touched(&bytes), ["database shop"]);
}

fn aggregate(stage: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let (matching, stage) = (pair("$limit", 1), document(stage));
    command(
        |aggregate| {
            aggregate.str("aggregate", "items");
            aggregate.array("pipeline", |stages| {
                stages.document(parsed(&matching));
                stages.document(parsed(&stage));
            });
        },
        &[],
    )
}

#[test]
fn an_aggregation_touches_where_it_writes() {
    assert!(touched(&aggregate(|stage| stage.i32("$skip", 1))).is_empty());
    assert_eq!(touched(&aggregate(|stage| stage.str("$out", "o"))), ["collection shop.o"]);
    let elsewhere = document(|target| {
        target.str("db", "other");
        target.str("coll", "o");
    });
    let bytes = aggregate(|stage| stage.document("$out", parsed(&elsewhere)));
    assert_eq!(touched(&bytes), ["collection other.o"]);
    assert_eq!(touched(&aggregate(|stage| stage.str("$merge", "m"))), ["collection shop.m"]);
    let bytes = aggregate(|stage| {
        stage.nested("$merge", |merge| merge.document("into", parsed(&elsewhere)));
    });
    assert_eq!(touched(&bytes), ["collection other.o"]);
    let bytes = aggregate(|stage| stage.i32("$out", 1));
    assert!(touches(&request(&bytes), &mut |_| {}).is_err());
    let bytes = aggregate(|stage| stage.str("$out", "o"));
    let namespace = output(&request(&bytes)).unwrap();
    assert_eq!(namespace, Some(Namespace { collection: Some("o"), ..ITEMS }));
}
