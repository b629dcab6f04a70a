//! Round trip: documents, replies and compressed frames decode to what was encoded.

use proptest::prelude::*;
use wire::mongo::bson::{Document, Writer};
use wire::mongo::compressed::{Compressor, compress};
use wire::mongo::frame::{Body, Limits, decode};
use wire::mongo::response::{Response, legacy_reply, reply};

#[derive(Debug, Clone)]
enum Value {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Bool(bool),
    Text(String),
    Nested(Vec<(String, Value)>),
    Array(Vec<String>),
}

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::char::range('a', 'z'), 0..6).prop_map(String::from_iter)
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 0..12).prop_map(String::from_iter)
}

fn fields() -> impl Strategy<Value = Vec<(String, Value)>> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        (-1e9..1e9_f64).prop_map(Value::Double),
        any::<bool>().prop_map(Value::Bool),
        text().prop_map(Value::Text),
        prop::collection::vec(text(), 0..15).prop_map(Value::Array),
    ];
    let value = leaf.prop_recursive(4, 40, 5, |inner| {
        prop::collection::vec((name(), inner), 0..5).prop_map(Value::Nested)
    });
    prop::collection::vec((name(), value), 0..8)
}

fn write(fields: &[(String, Value)], writer: &mut Writer<'_>) {
    for (name, value) in fields {
        match value {
            Value::Int32(number) => writer.i32(name, *number),
            Value::Int64(number) => writer.i64(name, *number),
            Value::Double(number) => writer.f64(name, *number),
            Value::Bool(truth) => writer.bool(name, *truth),
            Value::Text(text) => writer.str(name, text),
            Value::Nested(inner) => writer.nested(name, |writer| write(inner, writer)),
            Value::Array(texts) => writer.array(name, |items| {
                texts.iter().for_each(|text| items.str(text));
            }),
        }
    }
}

fn check(fields: &[(String, Value)], document: Document<'_>) {
    let elements: Vec<_> = document.elements().map(Result::unwrap).collect();
    assert_eq!(elements.len(), fields.len());
    for ((name, value), element) in fields.iter().zip(elements) {
        assert_eq!(element.name(), name.as_bytes());
        match value {
            Value::Int32(number) => assert_eq!(element.i32(), Some(*number)),
            Value::Int64(number) => assert_eq!(element.i64(), Some(*number)),
            Value::Double(number) => assert_eq!(element.f64(), Some(*number)),
            Value::Bool(truth) => assert_eq!(element.bool(), Some(*truth)),
            Value::Text(text) => assert_eq!(element.str(), Some(&**text)),
            Value::Nested(inner) => check(inner, element.document().unwrap()),
            Value::Array(texts) => {
                let items: Vec<_> =
                    element.array().unwrap().elements().map(Result::unwrap).collect();
                assert_eq!(items.len(), texts.len());
                for (index, (text, item)) in texts.iter().zip(items).enumerate() {
                    assert_eq!(item.name(), index.to_string().as_bytes());
                    assert_eq!(item.str(), Some(&**text));
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn as_replies_and_compressed(fields in fields(), request: i32, response_to: i32) {
        let mut body = Vec::new();
        Writer::write(&mut body, |writer| write(&fields, writer));
        check(&fields, Document::parse(&body).unwrap());

        for encode in [reply, legacy_reply] {
            let mut bytes = Vec::new();
            encode(&mut bytes, request, response_to, &body);
            let (frame, length) = decode(&bytes, &Limits::default()).unwrap().unwrap();
            prop_assert_eq!(length, bytes.len());
            let response = Response::parse(&frame).unwrap().unwrap();
            prop_assert_eq!(response.body.bytes(), &body[..]);
            prop_assert_eq!(response.header.request_id, request);
            prop_assert_eq!(response.header.response_to, response_to);

            for compressor in [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
                let (mut packed, mut again) = (Vec::new(), Vec::new());
                compress(&bytes, compressor, &mut packed).unwrap();
                let (frame, _) = decode(&packed, &Limits::default()).unwrap().unwrap();
                let Body::Compressed(compressed) = frame.body() else { panic!("not compressed") };
                compressed.inflate(&Limits::default(), &mut again).unwrap();
                prop_assert_eq!(&again, &bytes);
            }
        }
    }
}
