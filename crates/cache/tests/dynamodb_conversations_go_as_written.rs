//! Scripted conversations of DynamoDB clients and endpoints through the cache:
//! `testdata/conversations/dynamodb/`.

#[path = "conversation/harness.rs"]
mod conversation;
#[path = "conversation/dynamodb.rs"]
mod dynamodb;

#[test]
fn dynamodb_conversations_go_as_written() {
    conversation::hold_all::<dynamodb::DynamoDb>("dynamodb");
}
