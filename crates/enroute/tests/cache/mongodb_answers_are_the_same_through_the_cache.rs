//! The same script with a MongoDB server directly and with another through the cache: the official
//! driver gets the same results, and many replies came from storage.

use std::net::SocketAddr;

use crate::support::enroute::Cache;
use crate::support::origins::Mongo;
use bson::{Bson, Document, doc};
use mongodb::IndexModel;
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::{IndexOptions, ReturnDocument};
use mongodb::sync::{Client, Collection, Database};

#[test]
fn of_ferretdb() {
    compare(Mongo::start_ferretdb);
}

#[test]
fn of_mongo_java() {
    compare(Mongo::start_java);
}

fn compare(start: fn() -> Option<Mongo>) {
    let Some(direct) = start() else { return };
    let Some(behind) = start() else { return };
    let cache = Cache::start("mongodb", behind.address(), "");
    let expected = script(direct.address());
    let answers = script(cache.address());
    for (answer, expected) in answers.iter().zip(&expected) {
        assert_eq!(answer, expected);
    }
    assert_eq!(answers.len(), expected.len());
    let statistics = cache.statistics();
    assert!(statistics["hits"] >= 40.0, "{statistics:?}");
    eprintln!("{} answers, {statistics:?}", answers.len());
}

/// Returns the driver's results as text, one for each request.
fn script(address: SocketAddr) -> Vec<String> {
    let url = format!("mongodb://{address}/?directConnection=true");
    let client = Client::with_uri_str(url).expect("a URL");
    let database = client.database("shop");
    let users = database.collection::<Document>("users");
    let mut told = Told(Vec::new());
    insert(&mut told, &users);
    project(&mut told, &users);
    insert_each_type(&mut told, &users);
    change(&mut told, &users);
    change_many(&mut told, &users);
    find_many(&mut told, &users);
    index(&mut told, &database);
    told.about("bad", database.run_command(doc! { "noSuchCommand": 1 }).run());
    told.about("bad filter", users.find_one(doc! { "$noSuch": 1 }).run());
    insert_long(&mut told, &users);
    told.about("drop database", database.drop().run());
    told.read(&users, "u007");
    told.0
}

fn insert(told: &mut Told, users: &Collection<Document>) {
    told.about("insert", users.insert_one(doc! { "_id": "42", "name": "Ada", "n": 1 }).run());
    told.read(users, "42");
    told.read(users, "absent");
    told.about("duplicate", users.insert_one(doc! { "_id": "42" }).run());
    told.read(users, "42");
    let many = (0..250).map(|n| doc! { "_id": format!("u{n:03}"), "n": n, "odd": n % 2 == 1 });
    told.about("many", users.insert_many(many).run().map(|many| many.inserted_ids.len()));
    told.read(users, "absent");
    told.read(users, "u007");
}

fn project(told: &mut Told, users: &Collection<Document>) {
    for projection in [doc! { "n": 1 }, doc! { "_id": 0, "n": 1 }, doc! { "name": 0 }, doc! {}] {
        for _ in 0..3 {
            let found = users.find_one(doc! { "_id": "42" }).projection(projection.clone()).run();
            told.about("projection", found);
        }
    }
}

fn insert_each_type(told: &mut Told, users: &Collection<Document>) {
    for id in [Bson::from(7), Bson::from(7_i64), Bson::from(7.0), doc! { "a": 1 }.into()] {
        told.about("typed", users.insert_one(doc! { "_id": id.clone(), "is": "typed" }).run());
        told.read(users, id);
    }
    let id = bson::oid::ObjectId::parse_str("0123456789abcdef01234567").expect("24 digits");
    told.about("object id", users.insert_one(doc! { "_id": id, "n": 9 }).run());
    told.read(users, id);
}

fn set(n: i32) -> Document {
    doc! { "$set": { "n": n } }
}

fn change(told: &mut Told, users: &Collection<Document>) {
    told.about("update", users.update_one(doc! { "_id": "42" }, set(2)).run());
    told.read(users, "42");
    told.about("update other", users.update_one(doc! { "name": "Ada" }, set(3)).run());
    told.read(users, "42");
    told.about("upsert", users.update_one(doc! { "_id": "new" }, set(5)).upsert(true).run());
    told.read(users, "new");
    told.about("replace", users.replace_one(doc! { "_id": "42" }, doc! { "name": "Eve" }).run());
    told.read(users, "42");
    let modified = users.find_one_and_update(doc! { "_id": "42" }, set(6));
    told.about("modify", modified.return_document(ReturnDocument::After).run());
    told.read(users, "42");
    told.about("modify", users.find_one_and_replace(doc! { "_id": "42" }, doc! { "n": 7 }).run());
    told.read(users, "42");
    told.about("modify", users.find_one_and_delete(doc! { "_id": "42" }).run());
    told.read(users, "42");
    told.about("delete", users.delete_one(doc! { "_id": "u001" }).run());
    told.read(users, "u001");
}

fn change_many(told: &mut Told, users: &Collection<Document>) {
    told.about("update many", users.update_many(doc! { "odd": true }, set(4)).run());
    told.read(users, "u007");
    told.about("delete many", users.delete_many(doc! { "n": { "$gte": 200 } }).run());
    told.read(users, "u200");
    let stop =
        users.insert_many([doc! { "_id": "b1" }, doc! { "_id": "b1" }, doc! { "_id": "b2" }]);
    told.about("ordered", stop.run());
    let go = users.insert_many([doc! { "_id": "b1" }, doc! { "_id": "b3" }, doc! { "_id": "b4" }]);
    told.about("unordered", go.ordered(false).run());
    for id in ["b1", "b2", "b3", "b4"] {
        told.read(users, id);
    }
}

fn find_many(told: &mut Told, users: &Collection<Document>) {
    let all = || users.find(doc! { "odd": false }).sort(doc! { "_id": 1 }).batch_size(20).run();
    for _ in 0..2 {
        let ids = all().map(|cursor| {
            cursor
                .map(|found| found.map(|found| found["_id"].clone()))
                .collect::<Result<Vec<_>, _>>()
        });
        told.about("cursor", ids);
    }
    told.about(
        "limit",
        users
            .find(doc! {})
            .sort(doc! { "n": -1, "_id": 1 })
            .limit(3)
            .run()
            .map(Iterator::collect::<Result<Vec<_>, _>>),
    );
    told.about("count", users.count_documents(doc! { "odd": true }).run());
    told.about("count all", users.estimated_document_count().run());
    told.about("distinct", users.distinct("odd", doc! {}).run());
    let grouped = users.aggregate([
        doc! { "$match": { "n": { "$lt": 10 } } },
        doc! { "$group": { "_id": "$odd", "sum": { "$sum": "$n" } } },
        doc! { "$sort": { "_id": 1 } },
    ]);
    told.about("aggregate", grouped.run().map(Iterator::collect::<Result<Vec<_>, _>>));
}

fn index(told: &mut Told, database: &Database) {
    let unique = IndexOptions::builder().unique(true).name("by_n".to_owned()).build();
    let index = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
    let accounts = database.collection::<Document>("accounts");
    told.about("index", accounts.create_index(index).run().map(|index| index.index_name));
    told.about("indexed", accounts.insert_one(doc! { "_id": "1", "email": "a@b" }).run());
    told.about("not unique", accounts.insert_one(doc! { "_id": "2", "email": "a@b" }).run());
    told.read(&accounts, "2");
    told.about("drop", accounts.drop().run());
    told.read(&accounts, "1");
}

fn insert_long(told: &mut Told, users: &Collection<Document>) {
    for megabytes in [1, 5, 10] {
        let text: String = ('a'..='z').cycle().take(megabytes << 20).collect();
        let id = format!("large{megabytes}");
        told.about("large", users.insert_one(doc! { "_id": &id, "text": &text }).run());
        for _ in 0..3 {
            let found = users.find_one(doc! { "_id": &id }).run().expect("answered");
            assert!(found == Some(doc! { "_id": &id, "text": &text }), "{id} came back changed");
        }
    }
}

struct Told(Vec<String>);

impl Told {
    fn about<T: std::fmt::Debug>(&mut self, what: &str, answer: Result<T, Error>) {
        self.0.push(match answer {
            Ok(answer) => format!("{what}: {answer:?}"),
            Err(error) => format!("{what}: error {}", describe(&error)),
        });
    }

    /// Reads three times: a miss, a fill and a hit.
    fn read(&mut self, from: &Collection<Document>, id: impl Into<Bson>) {
        let id = id.into();
        for _ in 0..3 {
            let found = from.find_one(doc! { "_id": id.clone() }).run();
            self.about(&format!("find {id}"), found);
        }
    }
}

/// The error without what differs between two servers: addresses and times.
fn describe(error: &Error) -> String {
    match &*error.kind {
        ErrorKind::Command(error) => {
            format!("{} {} {}", error.code, error.code_name, error.message)
        }
        ErrorKind::Write(WriteFailure::WriteError(error)) => {
            format!("{} {}", error.code, error.message)
        }
        ErrorKind::InsertMany(error) => format!("{error:?}"),
        other => format!("{other:?}"),
    }
}
