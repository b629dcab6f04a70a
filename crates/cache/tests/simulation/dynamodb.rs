//! A minimal DynamoDB: six items of one table, three access keys, of which the cache knows two.

use std::sync::Arc;

use cache::filter::dynamodb::{DynamoDb as Filter, Settings, Tables};
use wire::{
    dynamodb::{
        batch::BatchGetItem,
        item::{GetItem, Which, Written, writes},
        reply::{Reply, Scanner, checksum},
        request,
        value::{Attributes, Value as Attribute, number},
    },
    http1::Limits,
};

use crate::{
    origin::{KEYS, KeyNumber, Origin, Value},
    protocol::{Ask, Asking, Protocol, rules},
    random::Random,
};

#[path = "../dynamodb/signed.rs"]
mod signed;

pub(crate) struct DynamoDb;

#[derive(Debug, Default)]
pub(crate) struct Client;

#[derive(Debug, Default)]
pub(crate) struct Server;

/// Who signs; the place is the form of the answer to a read.
const SIGNERS: [&str; 3] = ["A", "B", "other"];
/// Added to the form of a read of several items.
const MANY: usize = 10;
/// Added to the form of a read of the whole table.
const PAGE: usize = 20;
/// How clients spell a number.
const SPELLINGS: [&str; 3] = ["", ".0", "0e-1"];

impl Protocol for DynamoDb {
    type Filter = Filter;
    type Client = Client;
    type Server = Server;

    fn filter(_: &mut Random) -> Filter {
        Filter::new(Arc::new(Settings {
            keys: rules(),
            credentials: Arc::new(signed::credentials().into()),
            clock: signed::CLOCK,
            caches_queries: true,
            tables: Arc::new(Tables::new(true)),
            ..Settings::default()
        }))
    }

    fn ask(_: &mut Client, asking: &mut Asking<'_>, out: &mut Vec<u8>) -> Vec<Ask> {
        let choice = asking.choose(24, 8, 4);
        let (value, other) = (asking.value(), asking.value());
        let random = &mut *asking.random;
        let (first, second) = (random.below(KEYS), random.below(KEYS));
        let form = [0, 0, 0, 1, 2][random.below(5)];
        let (key, next) = (key_of(first, random), key_of(second, random));
        let item = |key: &str, value: u32| format!("{{{key},\"v\":{{\"N\":\"{value}\"}}}}");
        let (operation, body) = match choice {
            0..8 => {
                let mut keys = vec![first];
                for key in (0..random.below(4)).map(|_| random.below(KEYS)) {
                    if !keys.contains(&key) {
                        keys.push(key);
                    }
                }
                let named: Vec<_> =
                    keys.iter().map(|&key| format!("{{{}}}", key_of(key, random))).collect();
                let named = named.join(",");
                let body = format!("{{\"RequestItems\":{{\"t\":{{\"Keys\":[{named}]}}}}}}");
                out.extend(signed::request(SIGNERS[form], "BatchGetItem", &body));
                return vec![Ask::Read { keys, form: MANY + form }];
            }
            22..24 => {
                let members = ["\"TableName\":\"t\"", "\"Limit\":9"];
                let [one, other] = if random.one_in(2) { [0, 1] } else { [1, 0] };
                let body = format!("{{{},{}}}", members[one], members[other]);
                out.extend(signed::request(SIGNERS[form], "Scan", &body));
                return vec![Ask::Read { keys: (0..KEYS).collect(), form: PAGE + form }];
            }
            8..22 => {
                let consistent = random.one_in(10);
                let options = format!("\"ConsistentRead\":{consistent}");
                let body = format!("{{\"TableName\":\"t\",\"Key\":{{{key}}},{options}}}");
                out.extend(signed::request(SIGNERS[form], "GetItem", &body));
                return vec![Ask::Read { keys: vec![first], form }];
            }
            24..27 => {
                let filler = if random.one_in(20) { "x".repeat(17_000) } else { String::new() };
                let item = item(&key, value);
                let more = format!("\"ClientRequestToken\":\"{filler}\"");
                ("PutItem", format!("{{\"TableName\":\"t\",\"Item\":{item},{more}}}"))
            }
            27 => ("DeleteItem", format!("{{\"TableName\":\"t\",\"Key\":{{{key}}}}}")),
            28 | 29 => {
                // Its value is in the place of an expression.
                let set = format!("\"UpdateExpression\":\"{value}\"");
                ("UpdateItem", format!("{{\"TableName\":\"t\",\"Key\":{{{key}}},{set}}}"))
            }
            30 => {
                let put = format!("{{\"PutRequest\":{{\"Item\":{}}}}}", item(&key, value));
                let delete = format!("{{\"DeleteRequest\":{{\"Key\":{{{next}}}}}}}");
                ("BatchWriteItem", format!("{{\"RequestItems\":{{\"t\":[{put},{delete}]}}}}"))
            }
            31 => {
                let part = |item| format!("{{\"Put\":{{\"TableName\":\"t\",\"Item\":{item}}}}}");
                let parts = [part(item(&key, value)), part(item(&next, other))];
                ("TransactWriteItems", format!("{{\"TransactItems\":[{}]}}", parts.join(",")))
            }
            32 => ("DeleteTable", "{\"TableName\":\"t\"}".to_owned()),
            _ => ("ExecuteStatement", format!("{{\"Statement\":\"DELETE {first}\"}}")),
        };
        out.extend(signed::request(SIGNERS[form], operation, &body));
        vec![Ask::Other]
    }

    fn reply(_: &mut Client, bytes: &mut Vec<u8>, reply: &mut Vec<u8>) -> bool {
        let progress = Scanner::default().advance(bytes, false, &Limits::default());
        let progress = progress.expect("well-formed");
        if progress.complete {
            reply.clear();
            reply.extend(bytes.drain(..progress.consumed));
        }
        progress.complete
    }

    fn is_answer(
        _: &Client,
        form: usize,
        keys: &[KeyNumber],
        values: &[Vec<Value>],
        reply: &[u8],
    ) -> Option<bool> {
        let reply = Reply::parse(reply, &Limits::default()).expect("a reply");
        if reply.head.status != 200 {
            return None;
        }
        let body = std::str::from_utf8(&reply.body).expect("text");
        if let Some(form) = form.checked_sub(PAGE) {
            let found = |key| {
                let (_, value) = body.split_once(&item_of(SIGNERS[form], key))?;
                Some(value.split('"').next()?.parse().expect("a value"))
            };
            let count = body.matches("\"id\"").count();
            let all = keys.iter().zip(values);
            let right = all.clone().all(|(&key, values)| values.contains(&found(key)));
            return Some(right && count == all.filter_map(|(&key, _)| found(key)).count());
        }
        if let Some(form) = form.checked_sub(MANY) {
            return Some(is_combined(SIGNERS[form], keys, values, body));
        }
        Some(values[0].iter().any(|value| answer(SIGNERS[form], *value) == body))
    }

    fn serve(
        _: &mut Server,
        bytes: &mut Vec<u8>,
        origin: &mut Origin,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> bool {
        let all = std::mem::take(bytes);
        let decoded = request::decode(&all, &Limits::default()).expect("well-formed");
        let Some((message, length)) = decoded else {
            *bytes = all;
            return false;
        };
        bytes.extend_from_slice(&all[length..]);
        let (operation, body) = (message.operation(), &*message.body);
        let signed = message.request.head.one("authorization").expect("signed");
        let signed = std::str::from_utf8(signed).expect("text");
        let signer = SIGNERS.into_iter().find(|name| signed.contains(&format!("={name}/")));
        let signer = signer.expect("one of them");
        if let Some(get) = GetItem::parse(body).filter(|_| operation == "GetItem") {
            let value = origin.value(number_of(&get.key));
            write("200 OK", &answer(signer, value), random, out);
            return true;
        }
        if let Some(batch) = BatchGetItem::parse(body).filter(|_| operation == "BatchGetItem") {
            // The cache has signed it again if it asks for a part.
            let text = std::str::from_utf8(body).expect("text");
            let right = signed::request(signer, operation, text);
            assert_eq!(right.escape_ascii().to_string(), all[..length].escape_ascii().to_string());
            let body = answer_many(signer, &batch, origin, random);
            write("200 OK", &body, random, out);
            return true;
        }
        if operation == "Scan" {
            let value = |key| Some(format!("{}{}\"}}}}", item_of(signer, key), origin.value(key)?));
            let items: Vec<_> = (0..KEYS).filter_map(value).collect();
            write("200 OK", &format!("{{\"Items\":[{}]}}", items.join(",")), random, out);
            return true;
        }
        match random.below(12) {
            0 => {
                const ERROR: &str = "{\"__type\":\"a#ConditionalCheckFailedException\"}";
                write("400 Bad Request", ERROR, random, out);
            }
            // An error that does not tell whether the write was executed.
            which @ 1..3 => {
                if which == 1 {
                    run(operation, body, origin);
                }
                write("500 Error", "{\"__type\":\"a#InternalServerError\"}", random, out);
            }
            _ => {
                run(operation, body, origin);
                write("200 OK", "{}", random, out);
            }
        }
        true
    }
}

/// Executes a write.
fn run(operation: &str, body: &[u8], origin: &mut Origin) {
    let text = std::str::from_utf8(body).expect("text");
    let value_of = |item: &Attributes<'_>| match item.one(b"v") {
        Some(Attribute::Number(value)) => Some(value.0.parse().expect("a number")),
        _ => None,
    };
    match operation {
        "DeleteTable" => (0..KEYS).for_each(|key| origin.put(key, None, None)),
        "ExecuteStatement" => {
            let (_, number) = text.split_once("DELETE ").expect("a statement");
            origin.put(number[..1].parse().expect("a number"), None, None);
        }
        _ => {
            for Written { item, .. } in writes(operation, body).expect("valid") {
                match item {
                    Which::Item(item) => origin.put(number_of(&item), value_of(&item), None),
                    Which::Key(key) if operation == "UpdateItem" => {
                        let (_, value) = text.split_once("Expression\":\"").expect("a value");
                        let value = value.split('"').next().expect("a value");
                        origin.put(number_of(&key), Some(value.parse().expect("a value")), None);
                    }
                    Which::Key(key) => origin.put(number_of(&key), None, None),
                }
            }
        }
    }
}

fn key_of(key: KeyNumber, random: &mut Random) -> String {
    let spelling = SPELLINGS[random.below(3)];
    format!("\"id\":{{\"N\":\"{key}{spelling}\"}}")
}

fn number_of(key: &Attributes<'_>) -> KeyNumber {
    let Some(Attribute::Number(text)) = key.one(b"id") else { panic!("a number") };
    let canonical = number(&text.0).expect("a number");
    canonical.split('e').next().expect("digits").parse().expect("a key")
}

/// The answer to a read by `signer`: it tells which access key has asked.
fn answer(signer: &str, value: Value) -> String {
    let value = value.map_or(String::new(), |value| format!("\"v\":{value}"));
    format!("{{\"{signer}\":{{{value}}}}}")
}

/// An item in the answer to a read of several, up to its value.
fn item_of(signer: &str, key: KeyNumber) -> String {
    format!("{{\"id\":{{\"N\":\"{key}\"}},\"{signer}\":{{\"N\":\"")
}

/// The answer to a read of several items by `signer`: in any order, and not always of all.
fn answer_many(
    signer: &str,
    batch: &BatchGetItem<'_>,
    origin: &Origin,
    random: &mut Random,
) -> String {
    let table = &batch.tables[0];
    let (mut items, mut left) = (Vec::new(), Vec::new());
    for place in 0..table.keys() {
        let mut key = Vec::new();
        assert!(table.write_key(place, &mut key));
        // Behind table, names, type and length.
        let digit = usize::from(key[10] - b'0');
        if random.one_in(8) {
            left.push(format!("{{{}}}", key_of(digit, random)));
        } else if let Some(value) = origin.value(digit) {
            let at = random.below(items.len() + 1);
            items.insert(at, format!("{}{value}\"}}}}", item_of(signer, digit)));
        }
    }
    let left = match left.as_slice() {
        [] => String::new(),
        left => format!("\"t\":{{\"Keys\":[{}]}}", left.join(",")),
    };
    let items = items.join(",");
    format!("{{\"Responses\":{{\"t\":[{items}]}},\"UnprocessedKeys\":{{{left}}}}}")
}

/// Whether `body` answers a read of several items, each of which held one of its `values`.
fn is_combined(signer: &str, keys: &[KeyNumber], values: &[Vec<Value>], body: &str) -> bool {
    let Some((items, left)) = body.split_once("\"UnprocessedKeys\":") else { return false };
    let mut count = 0;
    let all_right = keys.iter().zip(values).all(|(&key, values)| {
        let is_left = |spelling| left.contains(&format!("\"{key}{spelling}\""));
        let found = items.split_once(&item_of(signer, key)).map(|(_, value)| {
            count += 1;
            value.split('"').next().and_then(|value| value.parse().ok()).expect("a value")
        });
        match SPELLINGS.into_iter().any(is_left) {
            true => found.is_none(),
            false => values.contains(&found),
        }
    });
    all_right && items.matches("\"id\"").count() == count
}

fn write(status: &str, body: &str, random: &mut Random, out: &mut Vec<u8>) {
    let mut more = String::new();
    if random.one_in(2) {
        more = format!("x-amz-crc32:{}\r\n", checksum(body.as_bytes()));
    }
    let kind = "Content-Type:application/x-amz-json-1.0\r\n";
    let length = body.len();
    out.extend(
        format!("HTTP/1.1 {status}\r\n{kind}{more}Content-Length:{length}\r\n\r\n{body}").bytes(),
    );
}
