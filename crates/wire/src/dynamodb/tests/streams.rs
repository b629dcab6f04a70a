//! The replies are those of DynamoDB Local 2.5 and of Amazon's reference.

use crate::dynamodb::{
    streams::{Call, Description, Records, Start, Streams, iterator},
    value::write_key,
};

#[test]
fn calls_have_the_members_that_they_need() {
    let arn = "arn:aws:dynamodb:ddblocal:0:table/orders/stream/2026-01-01T00:00:00.000";
    let of = |call: Call<'_>| (call.operation(), call.body());
    let (name, body) = of(Call::ListStreams { after: None });
    assert_eq!((name, &*body), ("ListStreams", r#"{"Limit":100}"#));
    let (name, body) = of(Call::DescribeStream { arn, after: Some("shard-\"1") });
    assert_eq!(name, "DescribeStream");
    let expected =
        format!(r#"{{"StreamArn":"{arn}","Limit":100,"ExclusiveStartShardId":"shard-\"1"}}"#);
    assert_eq!(body, expected);
    for (start, kind) in [
        (Start::Latest, r#""LATEST""#),
        (Start::TrimHorizon, r#""TRIM_HORIZON""#),
        (Start::After("7"), r#""AFTER_SEQUENCE_NUMBER","SequenceNumber":"7""#),
    ] {
        let (name, body) = of(Call::GetShardIterator { arn, shard: "s", start });
        assert_eq!(name, "GetShardIterator");
        let expected =
            format!(r#"{{"StreamArn":"{arn}","ShardId":"s","ShardIteratorType":{kind}}}"#);
        assert_eq!(body, expected);
    }
    let body = r#"{"ShardIterator":"i","Limit":1000}"#.to_owned();
    assert_eq!(of(Call::GetRecords { iterator: "i" }), ("GetRecords", body));
}

#[test]
fn streams_and_shards_are_read_page_by_page() {
    let reply = br#"{"LastEvaluatedStreamArn":"b","Streams":[
        {"StreamArn":"a","TableName":"orders","StreamLabel":"2026-01-01T00:00:00.000"}]}"#;
    let streams = Streams::parse(reply).expect("valid");
    assert_eq!(streams.last_evaluated_stream_arn.expect("more").0, "b");
    assert_eq!(streams.streams[0].table_name.0, "orders");
    assert!(Streams::parse(br#"{"Streams":[]}"#).expect("valid").streams.is_empty());
    let reply = br#"{"StreamDescription":{"StreamStatus":"ENABLED","StreamViewType":"KEYS_ONLY",
        "TableName":"orders","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],"Shards":[
        {"ShardId":"1","SequenceNumberRange":{"StartingSequenceNumber":"1","EndingSequenceNumber":"9"}},
        {"ShardId":"2","ParentShardId":"1","SequenceNumberRange":{"StartingSequenceNumber":"10"}}],
        "LastEvaluatedShardId":"2"}}"#;
    let found = Description::parse(reply).expect("valid");
    assert_eq!((&*found.stream_status.0, found.shards.len()), ("ENABLED", 2));
    assert!(found.shards[0].is_closed() && found.shards[0].parent_shard_id.is_none());
    assert!(!found.shards[1].is_closed());
    assert_eq!(found.shards[1].parent_shard_id.as_ref().expect("a parent").0, "1");
    assert_eq!(found.last_evaluated_shard_id.expect("more").0, "2");
    assert_eq!(iterator(br#"{"ShardIterator":"arn|1|x"}"#).expect("one").0, "arn|1|x");
    for damaged in [&b"[]"[..], b"{}", b"", br#"{"Streams":{}}"#, br#"{"StreamDescription":[]}"#] {
        assert!(Streams::parse(damaged).is_none() && Description::parse(damaged).is_none());
        assert!(Records::parse(damaged).is_none() && iterator(damaged).is_none());
    }
}

#[test]
fn a_record_has_the_key_of_its_item_whatever_its_view() {
    let reply = br#"{"Records":[{"eventID":"x","eventName":"MODIFY","eventVersion":"1.1",
        "eventSource":"aws:dynamodb","awsRegion":"eu-central-1","dynamodb":{
        "ApproximateCreationDateTime":1795858140,"Keys":{"number":{"N":"1.0"},"shop":{"S":"caf\u00e9"}},
        "NewImage":{"v":{"M":{"a":{"L":[{"N":"1"}]}}}},"SequenceNumber":"000000000000000000001",
        "SizeBytes":4,"StreamViewType":"NEW_IMAGE"}}],"NextShardIterator":"n"}"#;
    let records = Records::parse(reply).expect("valid");
    assert_eq!(
        (records.count(), &*records.next_shard_iterator.as_ref().expect("next").0),
        (1, "n")
    );
    let change = records.changes().next().expect("a record");
    assert_eq!(change.sequence_number.0, "000000000000000000001");
    let (mut key, mut same) = (Vec::new(), Vec::new());
    assert!(write_key("orders", &change.keys, &mut key));
    let spelled =
        br#"{"TableName":"orders","Key":{"shop":{"S":"caf\u00e9"},"number":{"N":"10e-1"}}}"#;
    let get = crate::dynamodb::item::GetItem::parse(spelled).expect("valid");
    assert!(write_key("orders", &get.key, &mut same) && key == same);
    let last = Records::parse(br#"{"Records":[]}"#).expect("valid");
    assert!(last.next_shard_iterator.is_none() && last.count() == 0);
    let keyless = br#"{"Records":[{"dynamodb":{"SequenceNumber":"1"}}],"NextShardIterator":"n"}"#;
    assert!(Records::parse(keyless).is_none());
}
