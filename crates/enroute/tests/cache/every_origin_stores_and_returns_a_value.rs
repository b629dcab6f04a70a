//! The origins themselves, through their official clients and without enroute: if this fails, check
//! the installation first.

use crate::support::origins::{Mongo, Redis};
use bson::{Document, doc};

#[test]
fn redis_sets_and_gets() {
    let Some(redis) = Redis::start() else { return };
    let client = redis::Client::open(redis.url()).expect("a URL");
    let mut connection = client.get_connection().expect("it listens");
    let () = redis::cmd("SET").arg("user:42").arg("Ada").query(&mut connection).expect("a reply");
    let value: String = redis::cmd("GET").arg("user:42").query(&mut connection).expect("a reply");
    assert_eq!(value, "Ada");
}

#[test]
fn ferretdb_inserts_and_finds() {
    let Some(origin) = Mongo::start_ferretdb() else { return };
    inserts_and_finds(&origin);
}

#[test]
fn mongo_java_inserts_and_finds() {
    let Some(origin) = Mongo::start_java() else { return };
    inserts_and_finds(&origin);
}

fn inserts_and_finds(origin: &Mongo) {
    let client = mongodb::sync::Client::with_uri_str(origin.url()).expect("a URL");
    let users = client.database("shop").collection::<Document>("users");
    let ada = doc! { "_id": "42", "name": "Ada" };
    users.insert_one(ada.clone()).run().expect("inserted");
    let found = users.find_one(doc! { "_id": "42" }).run().expect("answered");
    assert_eq!(found, Some(ada));
    assert_eq!(users.find_one(doc! { "_id": "43" }).run().expect("answered"), None);
}
