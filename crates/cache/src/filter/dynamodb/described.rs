//! Names of DynamoDB's requests for the log.

use wire::dynamodb::Message;

use super::DynamoDb;
use crate::filter::Described;

impl Described for DynamoDb {
    type Message<'a> = Message<'a>;

    fn command(&self, _: &Message<'_>) -> &'static str {
        ""
    }
}
