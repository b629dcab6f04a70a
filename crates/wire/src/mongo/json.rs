//! Commands that people write as JSON, as frames.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{
    bson::{Kind, Writer},
    message,
};

/// The frame of a `find` in `namespace`, which is `database.collection`. Filter and projection are
/// JSON; `{"$oid": "…"}`, `{"$date": milliseconds}`, `{"$numberLong": "…"}` and `{"$uuid": "…"}`
/// stand for values that JSON lacks.
///
/// ```
/// let frame = wire::mongo::json::find("shop.items", r#"{"_id": 42}"#, None);
/// assert!(frame.is_ok());
/// ```
///
/// # Errors
/// The text is not of this form.
pub fn find(namespace: &str, filter: &str, projection: Option<&str>) -> Result<Vec<u8>, String> {
    let (database, collection) = namespace
        .split_once('.')
        .filter(|(database, collection)| !database.is_empty() && !collection.is_empty())
        .ok_or_else(|| format!("`{namespace}`: expected database.collection, as in shop.items"))?;
    let mut options = vec![("filter", fields(filter)?)];
    if let Some(projection) = projection {
        options.push(("projection", fields(projection)?));
    }
    let mut body = Vec::new();
    Writer::write(&mut body, |command| {
        command.str("find", collection);
        for (name, fields) in &options {
            command.nested(name, |document| write_fields(fields, document));
        }
        command.str("$db", database);
    });
    let mut frame = Vec::new();
    message::write(&mut frame, 1, 0, &body);
    Ok(frame)
}

type Fields = Vec<(String, Json)>;

fn fields(text: &str) -> Result<Fields, String> {
    match serde_json::from_str(text) {
        Ok(Json::Fields(fields)) => Ok(fields),
        Ok(_) => Err(format!("`{text}`: expected a JSON object, as in {{\"_id\": 42}}")),
        Err(error) => {
            Err(format!("`{text}`: expected a JSON object, as in {{\"_id\": 42}}: {error}"))
        }
    }
}

/// A value whose fields keep their order, which matters in an embedded document.
#[derive(Debug)]
enum Json {
    Null,
    Bool(bool),
    Integer(i64),
    Double(f64),
    Text(String),
    Items(Vec<Json>),
    Fields(Fields),
    /// A value that JSON lacks, by its bytes.
    Other(Kind, Vec<u8>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Double(value as f64), Json::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Double(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element()? {
            read.push(item);
        }
        Ok(Json::Items(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Json, A::Error> {
        let mut read: Fields = Vec::new();
        while let Some(field) = fields.next_entry()? {
            read.push(field);
        }
        match read.as_slice() {
            [(name, value)] => match extended(name, value) {
                Some(Ok((kind, bytes))) => Ok(Json::Other(kind, bytes)),
                Some(Err(expected)) => {
                    Err(A::Error::custom(format_args!("{name}: expected {expected}")))
                }
                None => Ok(Json::Fields(read)),
            },
            _ => Ok(Json::Fields(read)),
        }
    }
}

/// The value that a field of this name stands for, or what is expected in it; `None` if it is an
/// ordinary field.
fn extended(name: &str, value: &Json) -> Option<Result<(Kind, Vec<u8>), &'static str>> {
    let text = if let Json::Text(text) = value { text.as_str() } else { "" };
    let number = match value {
        Json::Integer(number) => Some(*number),
        Json::Other(Kind::Int64, bytes) => {
            bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes))
        }
        _ => text.parse().ok(),
    };
    Some(match name {
        "$oid" => match hexadecimal(text) {
            Some(id) if id.len() == 12 => Ok((Kind::ObjectId, id)),
            _ => Err("24 hexadecimal digits"),
        },
        "$uuid" => match hexadecimal(&text.replace('-', "")) {
            // Binary data of subtype 4.
            Some(id) if id.len() == 16 => Ok((Kind::Binary, [&[16, 0, 0, 0, 4], &*id].concat())),
            _ => Err("32 hexadecimal digits, with or without dashes"),
        },
        "$numberLong" => number
            .map(|number| (Kind::Int64, number.to_le_bytes().to_vec()))
            .ok_or("a whole number in quotes"),
        "$date" => number
            .map(|number| (Kind::DateTime, number.to_le_bytes().to_vec()))
            .ok_or("milliseconds since 1970"),
        _ => return None,
    })
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect(),
    )
}

fn write_fields(fields: &[(String, Json)], out: &mut Writer<'_>) {
    for (name, value) in fields {
        write(name, value, out);
    }
}

fn write(name: &str, value: &Json, out: &mut Writer<'_>) {
    match value {
        Json::Null => out.fixed(Kind::Null, name, &[]),
        Json::Bool(value) => out.bool(name, *value),
        Json::Integer(value) => match i32::try_from(*value) {
            Ok(value) => out.i32(name, value),
            Err(_) => out.i64(name, *value),
        },
        Json::Double(value) => out.f64(name, *value),
        Json::Text(value) => out.str(name, value),
        Json::Items(items) => out.array(name, |array| {
            for item in items {
                array.push(|out, name| write(name, item, out));
            }
        }),
        Json::Fields(fields) => out.nested(name, |document| write_fields(fields, document)),
        Json::Other(kind, bytes) => out.fixed(*kind, name, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::find;
    use crate::mongo::{
        bson::Kind,
        frame::{Limits, decode},
        request::Request,
    };

    #[test]
    fn what_is_written_is_what_a_driver_sends() {
        let filter = r#"{"_id": {"b": 1, "a": [true, null, 1.5, "x", 4294967296]}}"#;
        let frame = find("shop.items.old", filter, Some(r#"{"name": 1}"#)).unwrap();
        let (frame, length) = decode(&frame, &Limits::default()).unwrap().unwrap();
        assert_eq!(length, frame.bytes().len());
        let request = Request::parse(&frame).unwrap().unwrap();
        let namespace = request.namespace;
        assert_eq!((namespace.database, namespace.collection), ("shop", Some("items.old")));
        let filter = request.body.element("filter").unwrap().unwrap().document().unwrap();
        let id = filter.element("_id").unwrap().unwrap().document().unwrap();
        let names: Vec<_> = id.elements().map(|field| field.unwrap().name()).collect();
        assert_eq!(names, [b"b", b"a"], "the order is kept");
        let items = id.element("a").unwrap().unwrap().array().unwrap();
        let kinds: Vec<_> = items.elements().map(|item| item.unwrap().kind()).collect();
        assert_eq!(kinds, [Kind::Bool, Kind::Null, Kind::Double, Kind::String, Kind::Int64]);
    }

    #[test]
    fn values_that_json_lacks_have_names() {
        for (value, kind, bytes) in [
            (r#"{"$oid": "0102030405060708090a0b0c"}"#, Kind::ObjectId, 12),
            (r#"{"$uuid": "00112233-4455-6677-8899-aabbccddeeff"}"#, Kind::Binary, 21),
            (r#"{"$numberLong": "7"}"#, Kind::Int64, 8),
            (r#"{"$date": 1700000000000}"#, Kind::DateTime, 8),
            (r#"{"$date": {"$numberLong": "-1"}}"#, Kind::DateTime, 8),
        ] {
            let frame = find("shop.items", &format!("{{\"_id\": {value}}}"), None).unwrap();
            let (frame, _) = decode(&frame, &Limits::default()).unwrap().unwrap();
            let request = Request::parse(&frame).unwrap().unwrap();
            let filter = request.body.element("filter").unwrap().unwrap().document().unwrap();
            let id = filter.element("_id").unwrap().unwrap();
            assert_eq!((id.kind(), id.value().len()), (kind, bytes), "{value}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_what_is_expected() {
        for (namespace, filter, expected) in [
            ("items", "{}", "database.collection"),
            (".items", "{}", "database.collection"),
            ("shop.items", "[]", "a JSON object"),
            ("shop.items", "{_id: 1}", "a JSON object"),
            ("shop.items", r#"{"_id": {"$oid": "01"}}"#, "24 hexadecimal digits"),
            ("shop.items", r#"{"_id": {"$date": "today"}}"#, "milliseconds"),
        ] {
            let error = find(namespace, filter, None).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
