//! Keys in canonical form.

use proptest::prelude::*;

use crate::dynamodb::{
    item::GetItem,
    value::{Names, number, write_key, write_key_of},
};

/// The key of a body `{"TableName": table, "Key": key}`.
fn key_of(table: &str, key: &str) -> Option<Vec<u8>> {
    let body = format!("{{\"TableName\":\"{table}\",\"Key\":{key}}}");
    let get = GetItem::parse(body.as_bytes())?;
    let mut bytes = Vec::new();
    write_key(&get.table_name.0, &get.key, &mut bytes).then_some(bytes)
}

#[test]
fn numbers_are_equal_by_value() {
    for (text, canonical) in [
        ("1", "1e0"),
        ("1.0", "1e0"),
        ("10e-1", "1e0"),
        ("0.1E+1", "1e0"),
        ("001", "1e0"),
        ("-1.50", "-15e-1"),
        ("100", "1e2"),
        ("-0", "0"),
        ("0.000e7", "0"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678e0"),
    ] {
        assert_eq!(number(text).as_deref(), Some(canonical), "{text}");
    }
    for text in
        ["", "-", "+1", "1.", ".5", "1e", "1e+-1", "1e1234567", "0x1", "1 ", "NaN", "١", "--1"]
    {
        assert_eq!(number(text), None, "{text}");
    }
    assert_eq!(number("123456789012345678901234567890123456789"), None);
    assert_eq!(number(&format!("{}1", "0".repeat(600))), None);
}

#[test]
fn the_order_and_the_spelling_of_a_key_do_not_matter() {
    let one = key_of("orders", r#"{"shop":{"S":"caf\u00e9"},"number":{"N":"1"}}"#);
    assert!(one.is_some());
    for same in [
        r#"{"number":{"N":"1.0"},"shop":{"S":"café"}}"#,
        r#" { "n\u0075mber" : { "N" : "10E-1" } , "shop":{"S":"caf\u00E9"}}"#,
    ] {
        assert_eq!(key_of("orders", same), one, "{same}");
    }
    for other in [
        r#"{"shop":{"S":"café"},"number":{"S":"1"}}"#,
        r#"{"shop":{"S":"café"},"number":{"N":"2"}}"#,
        r#"{"shop":{"S":"cafe"},"number":{"N":"1"}}"#,
        r#"{"shop":{"S":"café"}}"#,
    ] {
        assert!(key_of("orders", other).is_some_and(|key| Some(&key) != one.as_ref()), "{other}");
    }
    assert_ne!(key_of("order", r#"{"s":{"S":"a"}}"#), key_of("orders", r#"{"s":{"S":"a"}}"#));
    let bytes = key_of("orders", r#"{"id":{"B":"AP8="}}"#).expect("a key");
    assert!(bytes.ends_with(&[b'B', 0, 2, 0, 0xff]));
}

#[test]
fn what_names_no_item_has_no_key() {
    for key in [
        "{}",
        r#"{"a":{"S":"x"},"a":{"S":"y"}}"#,
        r#"{"a":{"S":"x"},"b":{"S":"y"},"c":{"S":"z"}}"#,
        r#"{"a":{"S":"x","N":"1"}}"#,
        r#"{"a":{"S":"x","S":"x"}}"#,
        r#"{"a":{"S":""}}"#,
        r#"{"a":{"N":"one"}}"#,
        r#"{"a":{"B":"A"}}"#,
        r#"{"a":{"BOOL":true}}"#,
        r#"{"a":{}}"#,
    ] {
        assert_eq!(key_of("t", key), None, "{key}");
    }
    let one = r#"{"a":{"S":"x"}}"#;
    let long = "t".repeat(256);
    for table in ["", &long, "arn:aws:dynamodb:eu-central-1:1:table/t", "a b"] {
        assert_eq!(key_of(table, one), None, "{table}");
    }
}

#[test]
fn an_item_has_the_key_that_its_names_state() {
    let key = key_of("t", r#"{"b":{"N":"2"},"a":{"S":"x"}}"#).expect("a key");
    let (table, names) = Names::of_key(&key).expect("names");
    assert_eq!(table, b"t");
    let of_item = |item: &str| {
        let body = format!("{{\"TableName\":\"t\",\"Key\":{item}}}");
        let get = GetItem::parse(body.as_bytes()).expect("valid");
        let mut bytes = Vec::new();
        write_key_of("t", names, &get.key, &mut bytes).then_some(bytes)
    };
    assert_eq!(of_item(r#"{"v":{"L":[]},"a":{"S":"x"},"b":{"N":"2.0"}}"#), Some(key.clone()));
    assert_eq!(of_item(r#"{"v":{"L":[]},"a":{"S":"x"}}"#), None);
    assert_eq!(of_item(r#"{"a":{"S":"x"},"b":{"N":"2"},"b":{"N":"3"}}"#), None);
    for end in 0..names.0.len() {
        assert!(Names::of_key(&key[..2 + end]).is_none());
    }
}

proptest! {
    #[test]
    fn every_spelling_of_a_number_is_the_same(
        digits in "[1-9][0-9]{0,20}[1-9]",
        exponent in -120i64..100,
        point in 0usize..24,
        zeros in 0usize..5,
        negative: bool,
    ) {
        let sign = if negative { "-" } else { "" };
        let canonical = number(&format!("{sign}{digits}e{exponent}"));
        prop_assert_eq!(canonical.clone(), Some(format!("{sign}{digits}e{exponent}")));
        // The point moves, and zeros stand before and after.
        let padded = format!("{digits}{}", "0".repeat(zeros + 1));
        let at = point.min(padded.len() - 1).max(1);
        let moved = (digits.len() as i64) - at as i64;
        let (whole, fraction) = padded.split_at(at);
        let before = "0".repeat(zeros);
        let text = format!("{sign}{before}{whole}.{fraction}E{}", exponent + moved);
        prop_assert_eq!(number(&text), canonical, "{}", text);
    }

    #[test]
    fn two_keys_are_the_same_only_if_their_attributes_are(
        one in prop::collection::vec(("[ab]{1,2}", "[SNB]", "[12]{1,2}"), 1..3),
        other in prop::collection::vec(("[ab]{1,2}", "[SNB]", "[12]{1,2}"), 1..3),
    ) {
        let text = |key: &[(String, String, String)]| {
            let parts = key.iter().map(|(name, kind, value)| {
                let value = if kind == "B" { format!("{value:A<4}") } else { value.clone() };
                format!("\"{name}\":{{\"{kind}\":\"{value}\"}}")
            });
            format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
        };
        let sorted = |key: &[(String, String, String)]| {
            let mut key = key.to_vec();
            key.sort();
            key
        };
        let keys = (key_of("t", &text(&one)), key_of("t", &text(&other)));
        if let (Some(first), Some(second)) = keys {
            prop_assert_eq!(first == second, sorted(&one) == sorted(&other));
        }
    }
}
