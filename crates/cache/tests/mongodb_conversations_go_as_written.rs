//! Scripted conversations of MongoDB drivers and servers through the cache:
//! `testdata/conversations/mongodb/`.

#[path = "conversation/bson.rs"]
mod bson;
#[path = "conversation/harness.rs"]
mod conversation;
#[path = "conversation/mongodb.rs"]
mod mongodb;

#[test]
fn mongodb_conversations_go_as_written() {
    conversation::hold_all::<mongodb::MongoDb>("mongodb");
}
