//! DynamoDB Streams: the calls that a reader of changes makes, and the bodies of their replies.
//! Reference: Amazon DynamoDB Streams API Reference, version 2012-08-10.

use serde::Deserialize;
use serde_json::json;

use super::{
    item::read,
    value::{Attributes, Text},
};

/// What the name of an operation begins with in `X-Amz-Target`.
pub const TARGET: &str = "DynamoDBStreams_20120810.";
/// Maximum number of records of a reply to `GetRecords`.
pub const RECORDS_MAX: usize = 1_000;
/// Maximum number of streams, or of shards, of a reply.
const LISTED_MAX: usize = 100;

/// A call.
#[derive(Debug, Clone, Copy)]
pub enum Call<'a> {
    /// The streams of all tables, behind the one with this ARN.
    ListStreams {
        /// The last stream of the page before.
        after: Option<&'a str>,
    },
    /// A stream and its shards.
    DescribeStream {
        /// The stream.
        arn: &'a str,
        /// The last shard of the page before.
        after: Option<&'a str>,
    },
    /// A place in a shard from which it can be read.
    GetShardIterator {
        /// The stream.
        arn: &'a str,
        /// The shard.
        shard: &'a str,
        /// The place.
        start: Start<'a>,
    },
    /// The next records of a shard.
    GetRecords {
        /// The place in the shard.
        iterator: &'a str,
    },
}

/// A place in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start<'a> {
    /// After its newest record.
    Latest,
    /// At its oldest record that is kept, which is kept for 24 hours.
    TrimHorizon,
    /// After the record with this sequence number.
    After(&'a str),
}

impl Call<'_> {
    /// The operation.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        match self {
            Self::ListStreams { .. } => "ListStreams",
            Self::DescribeStream { .. } => "DescribeStream",
            Self::GetShardIterator { .. } => "GetShardIterator",
            Self::GetRecords { .. } => "GetRecords",
        }
    }

    /// The body of its request.
    #[must_use]
    pub fn body(&self) -> String {
        let mut body = match *self {
            Self::ListStreams { after } => {
                json!({"Limit": LISTED_MAX, "ExclusiveStartStreamArn": after})
            }
            Self::DescribeStream { arn, after } => {
                json!({"StreamArn": arn, "Limit": LISTED_MAX, "ExclusiveStartShardId": after})
            }
            Self::GetShardIterator { arn, shard, start } => {
                let (kind, number) = match start {
                    Start::Latest => ("LATEST", None),
                    Start::TrimHorizon => ("TRIM_HORIZON", None),
                    Start::After(number) => ("AFTER_SEQUENCE_NUMBER", Some(number)),
                };
                json!({"StreamArn": arn, "ShardId": shard, "ShardIteratorType": kind,
                       "SequenceNumber": number})
            }
            Self::GetRecords { iterator } => {
                json!({"ShardIterator": iterator, "Limit": RECORDS_MAX})
            }
        };
        if let Some(members) = body.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        body.to_string()
    }
}

/// Reply to `ListStreams`: streams of tables, also those that were disabled in the last 24 hours.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Streams<'a> {
    /// The streams of this page.
    #[serde(borrow)]
    pub streams: Vec<Stream<'a>>,
    /// Where the next page begins; `None` for the last.
    #[serde(borrow, default)]
    pub last_evaluated_stream_arn: Option<Text<'a>>,
}

/// A stream.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Stream<'a> {
    /// Its name.
    #[serde(borrow)]
    pub stream_arn: Text<'a>,
    /// The table.
    #[serde(borrow)]
    pub table_name: Text<'a>,
    /// The time of its creation, in ISO 8601: the newest stream of a table has the largest.
    #[serde(borrow)]
    pub stream_label: Text<'a>,
}

/// The description in a reply to `DescribeStream`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Description<'a> {
    /// `ENABLED`, `ENABLING`, `DISABLING` or `DISABLED`.
    #[serde(borrow)]
    pub stream_status: Text<'a>,
    /// The shards of this page.
    #[serde(borrow)]
    pub shards: Vec<Shard<'a>>,
    /// Where the next page begins; `None` for the last.
    #[serde(borrow, default)]
    pub last_evaluated_shard_id: Option<Text<'a>>,
}

/// A shard: a part of a stream in the order of its records.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Shard<'a> {
    /// Its name.
    #[serde(borrow)]
    pub shard_id: Text<'a>,
    /// The shard that it continues.
    #[serde(borrow, default)]
    pub parent_shard_id: Option<Text<'a>>,
    #[serde(borrow)]
    sequence_number_range: Range<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Range<'a> {
    #[serde(borrow, default)]
    ending_sequence_number: Option<Text<'a>>,
}

impl Shard<'_> {
    /// Whether no record is added to it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sequence_number_range.ending_sequence_number.is_some()
    }
}

/// Reply to `GetRecords`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Records<'a> {
    #[serde(borrow)]
    records: Vec<Record<'a>>,
    /// From where to read next; `None` at the end of a closed shard.
    #[serde(borrow, default)]
    pub next_shard_iterator: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    dynamodb: Change<'a>,
}

/// The change of one item.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Change<'a> {
    /// Key attributes of the item.
    #[serde(borrow)]
    pub keys: Attributes<'a>,
    /// The place of the record in its shard.
    #[serde(borrow)]
    pub sequence_number: Text<'a>,
}

impl<'a> Records<'a> {
    /// Reads the body of a reply.
    #[must_use]
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        read(body)
    }

    /// What has changed, in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change<'a>> {
        self.records.iter().map(|record| &record.dynamodb)
    }

    /// Number of records.
    #[must_use]
    pub fn count(&self) -> usize {
        self.records.len()
    }
}

impl<'a> Streams<'a> {
    /// Reads the body of a reply.
    #[must_use]
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        read(body)
    }
}

impl<'a> Description<'a> {
    /// Reads the body of a reply.
    #[must_use]
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Reply<'a> {
            #[serde(borrow)]
            stream_description: Description<'a>,
        }
        read::<Reply<'_>>(body).map(|reply| reply.stream_description)
    }
}

/// The iterator in a reply to `GetShardIterator`.
#[must_use]
pub fn iterator(body: &[u8]) -> Option<Text<'_>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Reply<'a> {
        #[serde(borrow)]
        shard_iterator: Text<'a>,
    }
    read::<Reply<'_>>(body).map(|reply| reply.shard_iterator)
}
