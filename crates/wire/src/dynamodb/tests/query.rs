use crate::dynamodb::query::{QUERY_BYTES_MAX, Query};

fn canonical(body: &str) -> Option<String> {
    let mut out = Vec::new();
    Query::parse(body.as_bytes())?.write(&mut out)?;
    Some(String::from_utf8(out).expect("text"))
}

#[test]
fn neither_order_nor_blanks_nor_the_spelling_of_numbers_matter_in_a_query() {
    let expected = concat!(
        r##"{"ExclusiveStartKey":{"id":{"S":"é"},"n":{"N":"1e1"}},"ExpressionAttributeNames":"##,
        r##"{"#N":"N"},"ExpressionAttributeValues":{":l":{"L":[{"N":"0"},{"N":"x"}]},":v":"##,
        r##"{"N":"12e-1"}},"Limit":10,"TableName":"t"}"##
    );
    assert_eq!(canonical(expected).as_deref(), Some(expected));
    let other = r##" { "TableName" : "\u0074",
        "ExpressionAttributeNames": {"\u0023N": "N"}, "Limit":10,
        "ExpressionAttributeValues": {":v": {"N": "1.20"}, ":l": {"L": [{"N":"0.0"}, {"N":"x"}]}},
        "ExclusiveStartKey": {"n": {"N":"010"}, "id": {"S": "\u00e9"}} } "##;
    assert_eq!(canonical(other).as_deref(), Some(expected));
}

#[test]
fn what_may_be_another_query_has_another_form() {
    let bodies = [
        r#"{"TableName":"t"}"#,
        r#"{"TableName":"u"}"#,
        r#"{"TableName":"t","Limit":1}"#,
        r#"{"TableName":"t","Limit":1.0}"#,
        r#"{"TableName":"t","ScanIndexForward":false}"#,
        r#"{"TableName":"t","ScanIndexForward":null}"#,
        r#"{"TableName":"t","ScanIndexForward":"false"}"#,
        r#"{"TableName":"t","IndexName":"i"}"#,
        r#"{"TableName":"t","ExpressionAttributeValues":{":v":{"S":"1"}}}"#,
        r#"{"TableName":"t","ExpressionAttributeValues":{":v":{"N":"1"}}}"#,
        r#"{"TableName":"t","ExpressionAttributeValues":{":v":{"NS":["1"]}}}"#,
        r#"{"TableName":"t","ExpressionAttributeValues":{":v":{"NS":["1.0"]}}}"#,
        // No number: the name of an attribute.
        r#"{"TableName":"t","ExpressionAttributeNames":{"N":"1"}}"#,
        r#"{"TableName":"t","ExpressionAttributeNames":{"N":"1.0"}}"#,
        r#"{"TableName":"t","AttributesToGet":["a","b"]}"#,
        r#"{"TableName":"t","AttributesToGet":["b","a"]}"#,
    ];
    let forms: Vec<_> = bodies.map(|body| canonical(body).expect(body)).into();
    for (place, form) in forms.iter().enumerate() {
        assert!(!forms[..place].contains(form), "{form}");
    }
}

#[test]
fn what_is_not_understood_is_no_query() {
    let deep = |levels: usize| {
        let value = "[".repeat(levels) + &"]".repeat(levels);
        canonical(&format!(r#"{{"TableName":"t","AttributesToGet":{value}}}"#))
    };
    assert!(deep(80).is_some() && deep(81).is_none());
    let long = |bytes: usize| {
        let empty = r#"{"TableName":""}"#.len();
        canonical(&format!(r#"{{"TableName":"{}"}}"#, "t".repeat(bytes - empty)))
    };
    assert!(long(QUERY_BYTES_MAX).is_some() && long(QUERY_BYTES_MAX + 1).is_none());
    for body in [
        r#"{"TableName":"t","TableName":"t"}"#,
        r#"{"TableName":"t","Unheard":1}"#,
        r#"{"TableName":"t","KeyConditions":{"a":1,"a":1}}"#,
        r#"{"TableName":"t","Limit":}"#,
        r#"["TableName","t"]"#,
        "",
    ] {
        assert_eq!(canonical(body), None, "{body}");
    }
}

#[test]
fn a_query_states_what_its_answer_must_have() {
    let query = |more: &str| {
        let body = format!(r#"{{"TableName":"t"{more}}}"#);
        let query = Query::parse(body.as_bytes()).expect("valid");
        assert_eq!(query.table().expect("a table").0, "t");
        (query.is_consistent(), query.wants_capacity())
    };
    assert_eq!(query(""), (false, false));
    assert_eq!(query(r#","ConsistentRead":false,"ReturnConsumedCapacity":"NONE""#), (false, false));
    assert_eq!(query(r#","ConsistentRead":true"#), (true, false));
    // Whatever is not plainly the default.
    assert_eq!(query(r#","ConsistentRead":null,"ReturnConsumedCapacity":"TOTAL""#), (true, true));
    assert!(Query::parse(br#"{"TableName":1}"#).expect("valid").table().is_none());
    assert!(Query::parse(b"{}").expect("valid").table().is_none());
}
