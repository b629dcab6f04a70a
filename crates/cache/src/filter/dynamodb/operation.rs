//! The operations of DynamoDB, by their effect.

use wire::dynamodb::Message;

/// Effect of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Reads one item by its key.
    Get,
    /// Reads several items by their keys.
    GetMany,
    /// Reads a page of the items of a table.
    Queries,
    /// Reads items, and is never answered from storage.
    Reads,
    /// Writes items that it names.
    Writes,
    /// Writes a table that it names.
    WritesTable,
    /// Executes statements.
    Executes,
    /// Reads neither items nor writes anything.
    Describes,
    /// Any other: it may write everything.
    Unknown,
}

/// Operations whose effect is known.
const OPERATIONS: &[(&str, Effect)] = &[
    ("GetItem", Effect::Get),
    ("PutItem", Effect::Writes),
    ("UpdateItem", Effect::Writes),
    ("DeleteItem", Effect::Writes),
    ("BatchWriteItem", Effect::Writes),
    ("TransactWriteItems", Effect::Writes),
    ("BatchGetItem", Effect::GetMany),
    ("Query", Effect::Queries),
    ("Scan", Effect::Queries),
    ("TransactGetItems", Effect::Reads),
    ("ExecuteStatement", Effect::Executes),
    ("BatchExecuteStatement", Effect::Executes),
    ("ExecuteTransaction", Effect::Executes),
    ("CreateTable", Effect::WritesTable),
    ("DeleteTable", Effect::WritesTable),
    ("UpdateTable", Effect::WritesTable),
    ("UpdateTimeToLive", Effect::WritesTable),
    ("DescribeContinuousBackups", Effect::Describes),
    ("DescribeEndpoints", Effect::Describes),
    ("DescribeLimits", Effect::Describes),
    ("DescribeTable", Effect::Describes),
    ("DescribeTimeToLive", Effect::Describes),
    ("ListTables", Effect::Describes),
    ("ListTagsOfResource", Effect::Describes),
];

/// Operations of DynamoDB Streams, which only read.
const STREAMS: [&[u8]; 4] = [
    b"DynamoDBStreams_20120810.DescribeStream",
    b"DynamoDBStreams_20120810.GetRecords",
    b"DynamoDBStreams_20120810.GetShardIterator",
    b"DynamoDBStreams_20120810.ListStreams",
];

/// The name of the operation of `message` for the log, "" if it is not known; and its effect.
pub(super) fn of(message: &Message<'_>) -> (&'static str, Effect) {
    let operation = message.operation();
    if let Some(&known) = OPERATIONS.iter().find(|(name, _)| *name == operation) {
        return known;
    }
    let head = &message.request.head;
    let is_plain = matches!(message.request.method, "GET" | "HEAD" | "OPTIONS")
        && head.all("x-amz-target").next().is_none();
    match head.one("x-amz-target").is_some_and(|target| STREAMS.contains(&target)) || is_plain {
        true => ("", Effect::Describes),
        false => ("", Effect::Unknown),
    }
}
