//! Names of DynamoDB's requests for the log.

use wire::dynamodb::Message;

use super::{DynamoDb, operation};
use crate::filter::Described;

impl Described for DynamoDb {
    type Message<'a> = Message<'a>;

    fn command(&self, message: &Message<'_>) -> &'static str {
        operation::of(message).0
    }
}
