//! `BatchGetItem`: parts of requests and of replies.

use crate::dynamodb::batch::{BatchGetItem, TableNames, are_plain, stored};

const REQUEST: &str = r##"{"RequestItems":{
    "t":{"Keys":[{"id":{"S":"a"}},{"id":{"S":"b"}}],"ProjectionExpression":"#v"
         ,"ExpressionAttributeNames":{"#v":"v"}},
    "u":{"Keys":[{"of":{"S":"x"},"id":{"N":"1"}}],"ConsistentRead":true}}}"##;

fn keys(batch: &BatchGetItem<'_>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for table in &batch.tables {
        for place in 0..table.keys() {
            let mut key = Vec::new();
            assert!(table.write_key(place, &mut key));
            keys.push(key);
        }
    }
    keys
}

#[test]
fn a_part_of_a_request_keeps_the_options_of_its_tables() {
    let batch = BatchGetItem::parse(REQUEST.as_bytes()).expect("valid");
    let all = keys(&batch);
    let part = |keys: &[usize]| {
        let mut out = Vec::new();
        batch.write_part(keys.iter().map(|&at| all[at].as_slice()), &mut out);
        String::from_utf8(out).expect("text")
    };
    assert_eq!(
        part(&[1]),
        r##"{"RequestItems":{"t":{"Keys":[{"id":{"S":"b"}}],"ProjectionExpression":"#v","ExpressionAttributeNames":{"#v":"v"}}}}"##
    );
    assert_eq!(
        part(&[2]),
        r#"{"RequestItems":{"u":{"Keys":[{"of":{"S":"x"},"id":{"N":"1"}}],"ConsistentRead":true}}}"#
    );
    assert_eq!(part(&[]), r#"{"RequestItems":{}}"#);
    let whole = part(&[0, 1, 2]);
    let same = BatchGetItem::parse(whole.as_bytes()).expect("valid");
    assert_eq!(keys(&same), all);
}

#[test]
fn a_request_that_is_not_understood_is_none() {
    for (from, to) in [
        (r#""ConsistentRead":true"#, r#""ConsistentRead":1"#),
        (r#""ConsistentRead":true"#, r#""Other":true"#),
        (r#""ConsistentRead":true"#, r#""Keys":[]"#),
        (r#"{"RequestItems""#, r#"{"Other":1,"RequestItems""#),
        (r#""u":{"Keys""#, r#""u":["Keys"],"v":{"Keys""#),
        (r#""u":{"Keys":["#, r#""u":{"Keys":{},"a":["#),
    ] {
        assert!(REQUEST.contains(from), "{from}");
        assert!(BatchGetItem::parse(REQUEST.replace(from, to).as_bytes()).is_none(), "{to}");
    }
    let plain = |from: &str, to: &str| {
        let text = REQUEST.replace(from, to);
        are_plain(&BatchGetItem::parse(text.as_bytes()).expect("valid").tables)
    };
    assert!(plain("", ""));
    assert!(!plain("\"u\":", "\"t\":"));
    assert!(!plain("\"u\":", "\"arn:aws:dynamodb\":"));
    assert!(
        BatchGetItem::parse(br#"{"RequestItems":{},"ReturnConsumedCapacity":"TOTAL"}"#)
            .expect("valid")
            .wants_capacity()
    );
}

/// What is stored for each key of [`REQUEST`], and the reply that is combined again.
fn parts(reply: &str) -> (Vec<Option<String>>, Option<String>) {
    let batch = BatchGetItem::parse(REQUEST.as_bytes()).expect("valid");
    let (names, keys) = (TableNames::of(&batch), keys(&batch));
    let parts = names.split(reply.as_bytes(), keys.iter().map(Vec::as_slice));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let combined = names.combine(&parts.concat()).map(|body| text(&body));
    (parts.iter().map(|part| stored(part).map(text)).collect(), combined)
}

#[test]
fn each_item_of_a_reply_is_that_of_its_key() {
    let some = |text: &str| Some(text.to_owned());
    let reply =
        r#"{"Responses":{"u":[{"id":{"N":"1.0"},"of":{"S":"x"}}],"t":[{"v":{},"id":{"S":"b"}}]}}"#;
    let (stored, combined) = parts(reply);
    let item = some(r#"{"id":{"N":"1.0"},"of":{"S":"x"}}"#);
    assert_eq!(stored, [some("-"), some(r#"{"v":{},"id":{"S":"b"}}"#), item]);
    let same = r#"{"Responses":{"t":[{"v":{},"id":{"S":"b"}}],"u":[{"id":{"N":"1.0"},"of":{"S":"x"}}]},"UnprocessedKeys":{}}"#;
    assert_eq!(combined, some(same));
    // Of the keys of a table some have no item; the projection does not tell which.
    let (stored, combined) = parts(r#"{"Responses":{"t":[{"v":{}}],"u":[]}}"#);
    assert_eq!(stored, [None, None, some("-")]);
    let same = r#"{"Responses":{"t":[{"v":{}}],"u":[]},"UnprocessedKeys":{}}"#;
    assert_eq!(combined, some(same));
    // What was not read is not known to be absent. Of one key that is left, the item is known.
    let left = r#"{"t":{"Keys":[{"id":{"S":"a"}}],"ProjectionExpression":"v"}}"#;
    let reply = format!("{{\"Responses\":{{\"t\":[{{\"v\":{{}}}}]}},\"UnprocessedKeys\":{left}}}");
    let (stored, combined) = parts(&reply);
    assert_eq!(stored, [None, some(r#"{"v":{}}"#), some("-")]);
    assert!(combined.expect("a reply").ends_with(&format!("\"UnprocessedKeys\":{left}}}")));
}

#[test]
fn a_reply_that_does_not_answer_the_request_has_no_parts() {
    for reply in [
        "",
        "{}",
        "[]",
        r#"{"Responses":[]}"#,
        r#"{"Responses":{"v":[]}}"#,
        r#"{"Responses":{"t":[{"id":{"S":"c"}}]}}"#,
        r#"{"Responses":{"t":[{"id":{"S":"a"}},{"id":{"S":"a"}}]}}"#,
        r#"{"Responses":{"t":[{"v":{}},{"v":{}},{"v":{}}]}}"#,
        r#"{"Responses":{"t":[],"t":[{"id":{"S":"a"}}]}}"#,
        r#"{"Responses":{"u":[{"id":{"N":"2"},"of":{"S":"x"}}]}}"#,
        r#"{"Responses":{"t":["a"]}}"#,
        r#"{"Responses":{},"UnprocessedKeys":{"t":{"Keys":[{"id":{"S":"c"}}]}}}"#,
        r#"{"Responses":{},"UnprocessedKeys":{"t":{"Keys":[{"id":{"S":"a"}},{"id":{"S":"a"}}]}}}"#,
        r#"{"Responses":{"t":[{"id":{"S":"a"}}]},"UnprocessedKeys":{"t":{"Keys":[{"id":{"S":"a"}}]}}}"#,
        r#"{"Responses":{},"UnprocessedKeys":[]}"#,
    ] {
        assert_eq!(parts(reply), (vec![None; 3], None), "{reply}");
    }
}
