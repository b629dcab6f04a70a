//! Change streams: the writes that an event reports, and the position of a stream.

use super::bson::{Document, Element};
use super::reader::malformed;
use super::request::Namespace;
use super::touch::{self, Touch};
use crate::Result;

/// Calls `visit` for everything that `event` reports as written. An unknown or incomplete event is
/// a write to everything. Returns whether the stream continues.
///
/// # Errors
/// The event is malformed; the caller must take it for a write to everything.
pub fn touches<'a>(event: &Document<'a>, visit: &mut dyn FnMut(Touch<'a>)) -> Result<bool> {
    let (mut operation, mut namespace, mut to, mut key) = ("", None, None, None);
    for element in event.elements() {
        let element = element?;
        match element.name() {
            b"operationType" => operation = element.str().unwrap_or_default(),
            b"ns" => namespace = named(&element)?,
            b"to" => to = named(&element)?,
            b"documentKey" => key = element.document(),
            _ => {}
        }
    }
    let whole = |namespace: Option<Namespace<'a>>| namespace.filter(|n| n.collection.is_some());
    let visit = &mut |touch| visit(touch::widen(touch));
    match (operation, whole(namespace)) {
        ("insert" | "update" | "replace" | "delete", Some(namespace)) => {
            let id = key.map(|key| key.element("_id")).transpose()?.flatten();
            visit(match key.filter(|_| id.is_some()) {
                Some(document) => Touch::Document { namespace, document },
                None => Touch::Collection(namespace),
            });
        }
        (
            "create"
            | "createIndexes"
            | "drop"
            | "dropIndexes"
            | "modify"
            | "refineCollectionShardKey"
            | "reshardCollection"
            | "shardCollection",
            Some(namespace),
        ) => visit(Touch::Collection(namespace)),
        ("rename", Some(from)) => match whole(to) {
            // The former collection of the new name is gone.
            Some(to) => [from, to].into_iter().for_each(|name| visit(Touch::Collection(name))),
            None => visit(Touch::Everything),
        },
        ("dropDatabase", _) => {
            let database = namespace.map(|namespace| Touch::Database(namespace.database));
            visit(database.unwrap_or(Touch::Everything));
        }
        _ => visit(Touch::Everything),
    }
    Ok(operation != "invalidate")
}

/// `{db: "database", coll: "collection"}`; of a whole database without `coll`.
fn named<'a>(element: &Element<'a>) -> Result<Option<Namespace<'a>>> {
    let Some(document) = element.document() else { return Ok(None) };
    let text = |name| Ok::<_, crate::Error>(document.element(name)?.and_then(|name| name.str()));
    let collection = text("coll")?;
    Ok(text("db")?.map(|database| Namespace { database, collection }))
}

/// The time in a resume token, as [`Element::timestamp`] reads times: of the event that the token
/// belongs to, or, of a token without an event, the time up to which there is none.
///
/// # Errors
/// The token is of a form that no server since MongoDB 4.2 has.
pub fn token_time(token: &Document<'_>) -> Result<u64> {
    // A key string that begins with a timestamp: its type, then eight bytes, all in hexadecimal.
    const TIMESTAMP: &str = "82";
    const DIGITS: usize = 16;
    let data = token.element("_data")?.and_then(|data| data.str()).unwrap_or_default();
    data.strip_prefix(TIMESTAMP)
        .and_then(|rest| rest.get(..DIGITS))
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| malformed(token.offset(), "a resume token that begins with a time", data))
}

#[cfg(test)]
mod tests {
    use super::{super::fixture::document, Touch, token_time, touches};
    use crate::mongo::bson::{Document, Writer};

    fn event(operation: &str, fill: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        document(|event| {
            event.str("operationType", operation);
            fill(event);
        })
    }

    fn place(event: &mut Writer<'_>, name: &str, collection: Option<&str>) {
        event.nested(name, |place| {
            place.str("db", "shop");
            collection.into_iter().for_each(|collection| place.str("coll", collection));
        });
    }

    fn told(bytes: &[u8]) -> String {
        let mut told = Vec::new();
        let mut visit = |touch: Touch<'_>| {
            told.push(match touch {
                Touch::Document { namespace, document } => {
                    let id = document.element("_id").unwrap().unwrap();
                    format!("{}: {}", namespace.collection.unwrap(), id.integer().unwrap())
                }
                Touch::Collection(namespace) => namespace.collection.unwrap().to_owned(),
                Touch::Database(database) => format!("all of {database}"),
                Touch::Everything => "everything".to_owned(),
                Touch::Filter { .. } => unreachable!("an event has no filter"),
            });
        };
        if !touches(&Document::parse(bytes).unwrap(), &mut visit).unwrap() {
            told.push("over".to_owned());
        }
        told.join(", ")
    }

    #[test]
    fn an_event_names_what_it_changed() {
        for operation in ["insert", "update", "replace", "delete"] {
            let bytes = event(operation, |event| {
                place(event, "ns", Some("users"));
                event.nested("documentKey", |key| {
                    key.i32("zone", 3);
                    key.i32("_id", 7);
                });
            });
            assert_eq!(told(&bytes), "users: 7");
        }
        for operation in ["create", "drop", "dropIndexes", "modify", "reshardCollection"] {
            let bytes = event(operation, |event| place(event, "ns", Some("users")));
            assert_eq!(told(&bytes), "users");
        }
        let bytes = event("rename", |event| {
            place(event, "ns", Some("users"));
            place(event, "to", Some("people"));
        });
        assert_eq!(told(&bytes), "users, people");
        let bytes = event("dropDatabase", |event| place(event, "ns", None));
        assert_eq!(told(&bytes), "all of shop");
        assert_eq!(told(&event("invalidate", |_| {})), "everything, over");
        let bytes = event("insert", |event| place(event, "ns", Some("system.buckets.c")));
        assert_eq!(told(&bytes), "all of shop");
    }

    #[test]
    fn what_is_not_known_or_not_whole_may_have_changed_everything() {
        for bytes in [
            event("frobnicate", |event| place(event, "ns", Some("users"))),
            event("insert", |event| place(event, "ns", None)),
            event("drop", |_| {}),
            event("rename", |event| place(event, "ns", Some("users"))),
            event("dropDatabase", |_| {}),
            document(|event| place(event, "ns", Some("users"))),
            document(|_| {}),
        ] {
            assert_eq!(told(&bytes), "everything");
        }
        let bytes = event("delete", |event| place(event, "ns", Some("users")));
        assert_eq!(told(&bytes), "users", "without a key");
    }

    #[test]
    fn a_token_begins_with_its_time() {
        let time = |data: &str| {
            let bytes = document(|token| token.str("_data", data));
            token_time(&Document::parse(&bytes).unwrap())
        };
        assert_eq!(time("8263A1B2C3000000052B0229296E04"), Ok(0x63A1_B2C3_0000_0005));
        for wrong in [
            "",
            "82",
            "8263A1B2C300",
            "0163A1B2C3000000052B",
            "8263A1B2C3z00000052B",
            "82é3A1B2C30000000",
        ] {
            time(wrong).unwrap_err();
        }
    }
}
