//! Bodies of requests and replies.

use std::io::Write as _;

use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};

use crate::{
    dynamodb::{
        item::{GetItem, Which, only_selects, table, writes},
        reply::{Reply, checksum, comparable},
    },
    http1::Limits,
};

/// The canonical form of what a GetItem with these options wants.
fn wanted(options: &str) -> Option<Vec<u8>> {
    let body = format!("{{\"TableName\":\"t\",\"Key\":{{\"a\":{{\"S\":\"x\"}}}}{options}}}");
    let mut out = Vec::new();
    GetItem::parse(body.as_bytes())?.write_projection(&mut out)?;
    Some(out)
}

#[test]
fn a_projection_does_not_depend_on_blanks_and_on_the_names_of_placeholders() {
    let one =
        wanted(r##","ProjectionExpression":"#x.b[0], c","ExpressionAttributeNames":{"#x":"a.1"}"##);
    let same = wanted(
        r##","ExpressionAttributeNames":{"#y1":"a.1"},"ProjectionExpression":" #y1 . b [ 0 ] ,c""##,
    );
    assert_eq!(one.as_deref(), Some(&b"en\0\x03a.1.w\0\x01b[0],w\0\x01c"[..]));
    assert_eq!(one, same);
    let others = [
        "",
        r#","AttributesToGet":["a"]"#,
        r#","AttributesToGet":["a","b"]"#,
        r#","ProjectionExpression":"a,b""#,
        r#","ProjectionExpression":"a.b""#,
        r#","ProjectionExpression":"a[1]""#,
        // A reserved word is an error without a placeholder.
        r#","ProjectionExpression":"a""#,
        r##","ProjectionExpression":"#a","ExpressionAttributeNames":{"#a":"a"}"##,
    ];
    for (place, options) in others.iter().enumerate() {
        assert!(wanted(options).is_some(), "{options}");
        let earlier = others.iter().take(place).find(|other| wanted(other) == wanted(options));
        assert_eq!(earlier, None, "{options}");
    }
    assert_eq!(wanted(r#","AttributesToGet":null,"ConsistentRead":null"#), wanted(""));
}

#[test]
fn what_the_origin_refuses_has_no_projection() {
    for options in [
        r#","AttributesToGet":[]"#,
        r#","AttributesToGet":[""]"#,
        r#","AttributesToGet":["a"],"ProjectionExpression":"a""#,
        r##","ExpressionAttributeNames":{"#a":"a"}"##,
        r##","AttributesToGet":["a"],"ExpressionAttributeNames":{"#a":"a"}"##,
        r##","ProjectionExpression":"a","ExpressionAttributeNames":{"#a":"a"}"##,
        r##","ProjectionExpression":"#a","ExpressionAttributeNames":{"#a":"a","#a":"b"}"##,
        r##","ProjectionExpression":"#","ExpressionAttributeNames":{"#":"a"}"##,
        r##","ProjectionExpression":"#b","ExpressionAttributeNames":{"#a":"a"}"##,
        r#","ProjectionExpression":"""#,
        r#","ProjectionExpression":"a,""#,
        r#","ProjectionExpression":"a..b""#,
        r#","ProjectionExpression":"a[b]""#,
        r#","ProjectionExpression":"a[1""#,
        r#","ProjectionExpression":"a-b""#,
        r#","ProjectionExpression":"1a""#,
        r#","ProjectionExpression":"size(a)""#,
        r#","Other":1"#,
        r#","TableName":"u""#,
        r#","ConsistentRead":"true""#,
    ] {
        assert_eq!(wanted(options), None, "{options}");
    }
    assert!(GetItem::parse(br#"["t",{"a":{"S":"x"}}]"#).is_none());
    assert!(GetItem::parse(br#"{"TableName":"t","Key":{"a":{"S":"x"}}} x"#).is_none());
}

/// Table, and whether the item is named by its key alone, of all that is written.
fn written(operation: &str, body: &str) -> Option<Vec<String>> {
    let all = writes(operation, body.as_bytes())?;
    let named = all.iter().map(|one| match &one.item {
        Which::Key(key) => format!("{} by {}", one.table.0, key.0[0].0.0),
        Which::Item(item) => format!("{} of {}", one.table.0, item.0.len()),
    });
    Some(named.collect())
}

#[test]
fn every_write_names_its_items() {
    let named = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
    let item = r#"{"a":{"S":"x"},"v":{"M":{"w":{"L":[{"NULL":true}]}}}}"#;
    let key = r#"{"a":{"S":"x"}}"#;
    let put = format!(r#"{{"TableName":"t","Item":{item},"ReturnValues":"NONE"}}"#);
    let change = format!(r#"{{"TableName":"t","Key":{key},"UpdateExpression":"SET b = :c"}}"#);
    assert_eq!(written("PutItem", &put), named(&["t of 2"]));
    assert_eq!(written("UpdateItem", &change), named(&["t by a"]));
    assert_eq!(written("DeleteItem", &change), named(&["t by a"]));
    let batch = format!(
        r#"{{"RequestItems":{{"t":[{{"PutRequest":{{"Item":{item}}}}},{{"DeleteRequest":{{"Key":{key}}}}}],
        "u":[{{"DeleteRequest":{{"Key":{key}}}}}]}}}}"#
    );
    assert_eq!(written("BatchWriteItem", &batch), named(&["t of 2", "t by a", "u by a"]));
    let check = change.replace("UpdateExpression", "ConditionExpression");
    let transaction = format!(
        r#"{{"TransactItems":[{{"ConditionCheck":{check}}},{{"Put":{put}}},{{"Update":{change}}},
        {{"Delete":{change}}}],"ClientRequestToken":"c"}}"#
    );
    assert_eq!(written("TransactWriteItems", &transaction), named(&["t of 2", "t by a", "t by a"]));
    for (operation, body) in [
        ("PutItem", change.as_str()),
        ("PutItem", &put[..put.len() - 1]),
        ("DeleteItem", r#"{"TableName":"t","Key":{"a":{"S":"x"}},"TableName":"u"}"#),
        ("BatchWriteItem", r#"{"RequestItems":{"t":[{"UpdateRequest":{}}]}}"#),
        ("TransactWriteItems", r#"{"TransactItems":[{"Other":{}}]}"#),
        ("GetItem", change.as_str()),
    ] {
        assert_eq!(written(operation, body), None, "{operation} {body}");
    }
    assert_eq!(table(br#"{"A":1,"TableName":"t"}"#).expect("a table").0, "t");
    assert!(table(br#"{"TableName":"t","TableName":"u"}"#).is_none());
}

#[test]
fn only_statements_that_begin_with_select_read() {
    let statements = |name: &str, all: &[&str]| {
        let all: Vec<_> = all.iter().map(|one| format!("{{\"Statement\":\"{one}\"}}")).collect();
        format!("{{\"{name}\":[{}]}}", all.join(","))
    };
    let reads = |operation, body: &str| only_selects(operation, body.as_bytes());
    assert!(reads("ExecuteStatement", r#"{"Statement":" Select * from t","Limit":1}"#));
    assert!(!reads("ExecuteStatement", r#"{"Statement":"update t set a = 1"}"#));
    assert!(!reads("ExecuteStatement", r#"{"Statement":"selected"}"#));
    assert!(!reads("ExecuteStatement", r#"{"Statement":"select 1","Statement":"delete from t"}"#));
    let both = ["SELECT a FROM t", "DELETE FROM t WHERE a = 1"];
    for (operation, name) in
        [("BatchExecuteStatement", "Statements"), ("ExecuteTransaction", "TransactStatements")]
    {
        assert!(reads(operation, &statements(name, &both[..1])), "{operation}");
        assert!(!reads(operation, &statements(name, &both)), "{operation}");
        assert!(!reads(operation, &statements(name, &[])), "{operation}");
    }
}

/// A reply with a body and further headers.
fn reply(status: &str, more: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let length = body.as_ref().len();
    let kind = "Content-Type: application/x-amz-json-1.0";
    let head = format!("HTTP/1.1 {status}\r\n{kind}\r\n{more}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body.as_ref()].concat()
}

/// `content` with the coding `gzip`.
fn zipped(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn only_known_errors_prove_that_nothing_was_done() {
    let is_refusal = |status: &str, body: &str| {
        let bytes = reply(status, "", body);
        let limits = Limits::default();
        Reply::parse(&bytes, &limits).expect("a reply").is_refusal(&limits)
    };
    let error = |name: &str| format!("{{\"__type\":\"com.amazonaws.dynamodb.v20120810#{name}\"}}");
    assert!(is_refusal("400 Bad", &error("ConditionalCheckFailedException")));
    assert!(is_refusal("400 Bad", r#"{"message":"m","__type":"ThrottlingException"}"#));
    assert!(!is_refusal("500 Error", &error("ConditionalCheckFailedException")));
    assert!(!is_refusal("200 OK", &error("ConditionalCheckFailedException")));
    assert!(!is_refusal("400 Bad", &error("InternalServerError")));
    assert!(!is_refusal("400 Bad", &error("TransactionInProgressException")));
    assert!(!is_refusal("403 Forbidden", "<html>"));
    let limits = Limits::default();
    let coded = zipped(error("ThrottlingException").as_bytes());
    let bytes = reply("400 Bad", "Content-Encoding: gzip\r\n", coded);
    assert!(Reply::parse(&bytes, &limits).expect("a reply").is_refusal(&limits));
}

/// What an answer with this body and further headers has, and its checksum.
fn answer(status: &str, more: &str, body: &[u8]) -> Option<(Vec<u8>, u32)> {
    let limits = Limits { content_bytes_max: 1_000, ..Limits::default() };
    let bytes = reply(status, more, body);
    let reply = Reply::parse(&bytes, &limits).expect("a reply");
    let (content, sum) = reply.answer(&limits)?;
    Some((content.into_owned(), sum))
}

const ITEM: &[u8] = br#"{"Item":{}}"#;

#[test]
fn an_answer_is_in_json_and_not_damaged() {
    let sum = checksum(ITEM);
    let right = Some((ITEM.to_vec(), sum));
    assert_eq!(answer("200 OK", "", ITEM), right);
    assert_eq!(answer("200 OK", &format!("x-amz-crc32: {sum}\r\n"), ITEM), right);
    assert_eq!(answer("200 OK", "x-amz-crc32: 1\r\n", ITEM), None);
    assert_eq!(answer("200 OK", "Content-Encoding: gzip\r\n", ITEM), None);
    assert_eq!(answer("200 OK", "Content-Encoding: br\r\n", ITEM), None);
    assert_eq!(answer("400 Bad Request", "", ITEM), None);
}

#[test]
fn an_answer_has_no_coding_and_the_checksum_is_of_what_was_sent() {
    const GZIP: &str = "Content-Encoding: gzip\r\n";
    let (coded, right) = (zipped(ITEM), Some((ITEM.to_vec(), checksum(ITEM))));
    assert_eq!(answer("200 OK", GZIP, &coded), right);
    assert_eq!(answer("200 OK", "content-encoding: X-GZIP\r\n", &coded), right);
    let stated = |sum: u32| answer("200 OK", &format!("{GZIP}x-amz-crc32: {sum}\r\n"), &coded);
    assert_eq!(stated(checksum(&coded)), right);
    assert_eq!(stated(checksum(ITEM)), None);
    // In two members, cut off, damaged, with more after it, with two codings.
    let members = [zipped(&ITEM[..4]), zipped(&ITEM[4..])].concat();
    assert_eq!(answer("200 OK", GZIP, &members), right);
    assert_eq!(answer("200 OK", GZIP, &coded[..coded.len() - 1]), None);
    let mut damaged = coded.clone();
    *damaged.last_mut().expect("a length") ^= 1;
    assert_eq!(answer("200 OK", GZIP, &damaged), None);
    assert_eq!(answer("200 OK", GZIP, &[&coded[..], b"x"].concat()), None);
    assert_eq!(answer("200 OK", "Content-Encoding: gzip, gzip\r\n", &zipped(&coded)), None);
    assert_eq!(answer("200 OK", &format!("{GZIP}{GZIP}"), &coded), None);

    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(ITEM).expect("memory");
    let deflated = encoder.finish().expect("memory");
    const DEFLATE: &str = "Content-Encoding: deflate\r\n";
    assert_eq!(answer("200 OK", DEFLATE, &deflated), right);
    assert_eq!(answer("200 OK", DEFLATE, &[&deflated[..], b"x"].concat()), None);
}

#[test]
fn the_content_of_an_answer_is_limited() {
    let of_length = |bytes: usize| {
        let content = [b"{", &b" ".repeat(bytes - 1)[..]].concat();
        answer("200 OK", "Content-Encoding: gzip\r\n", &zipped(&content)).is_some()
    };
    assert!(of_length(1_000));
    assert!(!of_length(1_001));
    assert!(!of_length(10 << 20));
}

#[test]
fn the_order_of_maps_and_sets_is_not_compared() {
    let one = br#"{"Item":{"a":{"SS":["x","y"]},"b":{"L":[{"S":"1"},{"S":"2"}]}}}"#;
    let same = br#"{"Item":{"b":{"L":[{"S":"1"},{"S":"2"}]},"a":{"SS":["y","x"]}}}"#;
    let other = br#"{"Item":{"a":{"SS":["x","y"]},"b":{"L":[{"S":"2"},{"S":"1"}]}}}"#;
    assert_eq!(comparable(one), comparable(same));
    assert_ne!(comparable(one), comparable(other));
    assert_eq!(&*comparable(b"{"), b"{");
}
