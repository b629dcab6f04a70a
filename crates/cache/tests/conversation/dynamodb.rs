//! Notation of DynamoDB conversations.
//!
//! ```text
//! GetItem {"TableName": ...}      a request with this body, signed by the access key A
//! B: GetItem {...}                signed by the access key B
//! C: GetItem {...}                signed by the access key C, or D, which are in the group "A"
//! T: GetItem {...}                signed by the temporary access key T, with its token
//! other: GetItem {...}            signed by an access key that the cache does not know
//! forged: GetItem {...}           signed as A, with another secret
//! pair: GetItem {...}             signed by A with version 4A; pairs: for a set of regions
//! late: GetItem {...}             signed by A, 20 minutes ago
//! west: GetItem {...}             signed by A, for another region
//! unsigned: GetItem {...}         without a signature
//! close: GetItem {...}            signed by A, with `Connection: close`
//! digest: GetItem {...}           signed by A, with a digest of its body in another header
//! gzip: GetItem {...}             signed by A, with `Accept-Encoding: gzip, deflate`
//! only: GetItem {...}             the same with `gzip, identity;q=0`
//! br: GetItem {...}               the same with `gzip, br`
//! coded: GetItem {...}            signed by A, with `Content-Encoding: gzip`
//! get ITEM [OPTIONS]              GetItem of the item with this `id` in table t; members of JSON
//! many ITEM,ITEM [OPTIONS]        BatchGetItem of items in table t; members of JSON of the table
//! items ITEM,ITEM                 a reply to it that has these items and left nothing out
//! hit-items ITEM,ITEM             the same as a reply of the cache
//! put ITEM [BYTES]                PutItem of it, with a value of this length
//! begin REQUEST                   all but the last ten bytes of a request
//! end REQUEST                     its last ten bytes
//! 200 {...}                       a reply with this body
//! 400 NAME                        an error
//! gzip 200 {...}                  the same, or an error, with `Content-Encoding: gzip`
//! bomb MIB                        the same with `{` and this many MiB of blanks
//! hit {...}                       a reply of the cache, which has headers of its own
//! failed NAME                     an error of the cache
//! raw TEXT                        these bytes; \r and \n are escapes
//! ```

use std::{io::Write as _, sync::Arc};

use cache::{
    filter::dynamodb::{DynamoDb as Filter, Settings, Streams, Tables},
    rules::{Followed, Rules},
};
use flate2::{Compression, write::GzEncoder};
use wire::{
    dynamodb::reply::{Reply, checksum},
    http1::Limits,
};

use crate::conversation::{Config, Speech};

#[path = "../dynamodb/signed.rs"]
mod signed;

pub(crate) struct DynamoDb;

impl Speech for DynamoDb {
    type Filter = Filter;

    type Settings = Settings;

    fn settings(config: &Config) -> Settings {
        let mut settings = Settings { origin: "dynamodb".to_owned(), ..Settings::default() };
        settings.keys = config.rules();
        if let Some(table) = config.word("feed") {
            let followed = Some(Followed::Tables([table.to_owned()].into()));
            let rules = Rules { followed, ..(*settings.keys.current()).clone() };
            settings.keys = Arc::new(rules.into());
            let region = "eu-central-1".to_owned();
            settings.streams = Some(Streams { region, ..Streams::default() });
        }
        settings.clock = signed::CLOCK;
        settings.caches_queries = config.word("queries") == Some("cached");
        settings.tables = Arc::new(Tables::new(settings.caches_queries));
        if config.word("credentials") != Some("none") {
            settings.credentials = Arc::new(signed::credentials().into());
        }
        settings
    }

    fn open(settings: &Arc<Settings>) -> (Self, Filter) {
        (Self, Filter::new(Arc::clone(settings)))
    }

    fn opening(&mut self) -> (Vec<u8>, Vec<u8>) {
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), reply.to_vec())
    }

    fn polite(&mut self, _: &[u8]) -> Option<(usize, Vec<u8>)> {
        None
    }

    fn client(&mut self, text: &str) -> Vec<u8> {
        let cut = |text: &str| {
            let mut request = request(text);
            let end = request.split_off(request.len() - 10);
            (request, end)
        };
        match text.split_once(' ') {
            Some(("begin", text)) => cut(text).0,
            Some(("end", text)) => cut(text).1,
            _ => raw(text).unwrap_or_else(|| request(text)),
        }
    }

    fn origin(&mut self, text: &str) -> Vec<u8> {
        raw(text).unwrap_or_else(|| reply(text))
    }

    fn to_origin(&mut self, text: &str, _: &[u8]) -> Vec<u8> {
        self.client(text)
    }

    fn to_client(&mut self, text: &str, leaving: &[u8]) -> Vec<u8> {
        let (kind, what) = text.split_once(' ').unwrap_or((text, ""));
        let (kind, what) = match kind {
            "hit-items" => ("hit", items(what)),
            _ => (kind, what.to_owned()),
        };
        if kind != "hit" && kind != "failed" {
            return self.origin(text);
        }
        let found = Reply::parse(leaving, &Limits::default()).expect("a reply");
        assert!(found.head.head.all("content-encoding").next().is_none());
        let head = &found.head.head;
        let stated = head.one("x-amz-crc32").expect("a checksum");
        assert_eq!(stated, checksum(&found.body).to_string().as_bytes());
        assert_eq!(head.one("content-type"), Some(&b"application/x-amz-json-1.0"[..]));
        assert_eq!(head.one("x-amzn-requestid").expect("an id").len(), 32);
        let is_right = match kind {
            "hit" => found.head.status == 200 && *found.body == *what.as_bytes(),
            _ => found.head.status >= 400 && String::from_utf8_lossy(&found.body).contains(&what),
        };
        // What differs is shown by the harness.
        if is_right { leaving.to_vec() } else { text.as_bytes().to_vec() }
    }
}

fn raw(text: &str) -> Option<Vec<u8>> {
    let raw = text.strip_prefix("raw ")?;
    Some(raw.replace("\\r", "\r").replace("\\n", "\n").into_bytes())
}

fn request(text: &str) -> Vec<u8> {
    let (signer, call) = match text.split_once(": ") {
        Some((signer, call)) if signer.chars().all(char::is_alphanumeric) => (signer, call),
        _ => ("A", text),
    };
    let (operation, rest) = call.split_once(' ').unwrap_or((call, ""));
    let (operation, body) = match operation {
        "get" => {
            let (item, options) = rest.split_once(' ').unwrap_or((rest, ""));
            let options = if options.is_empty() { String::new() } else { format!(",{options}") };
            let key = format!("\"Key\":{{\"id\":{{\"S\":\"{item}\"}}}}");
            ("GetItem", format!("{{\"TableName\":\"t\",{key}{options}}}"))
        }
        "many" => {
            let (items, options) = rest.split_once(' ').unwrap_or((rest, ""));
            let options = if options.is_empty() { String::new() } else { format!(",{options}") };
            let keys = listed(items);
            let body = format!("{{\"RequestItems\":{{\"t\":{{\"Keys\":[{keys}]{options}}}}}}}");
            ("BatchGetItem", body)
        }
        "put" => {
            let (item, bytes) = rest.split_once(' ').unwrap_or((rest, "0"));
            let value = "x".repeat(bytes.parse().expect("a length"));
            let item = format!("{{\"v\":{{\"S\":\"{value}\"}},\"id\":{{\"S\":\"{item}\"}}}}");
            ("PutItem", format!("{{\"TableName\":\"t\",\"Item\":{item}}}"))
        }
        _ => (operation, rest.to_owned()),
    };
    signed::request(signer, operation, &body)
}

/// Keys, or items that have no other attribute.
fn listed(items: &str) -> String {
    let listed = items.split(',').filter(|item| !item.is_empty());
    let listed: Vec<_> = listed.map(|item| format!("{{\"id\":{{\"S\":\"{item}\"}}}}")).collect();
    listed.join(",")
}

/// The body of a reply to BatchGetItem.
fn items(items: &str) -> String {
    format!("{{\"Responses\":{{\"t\":[{}]}},\"UnprocessedKeys\":{{}}}}", listed(items))
}

fn reply(text: &str) -> Vec<u8> {
    let (text, coding) = match text.strip_prefix("gzip ") {
        Some(text) => (text.to_owned(), "Content-Encoding: gzip\r\n"),
        None => (text.to_owned(), ""),
    };
    let (text, coding) = match text.strip_prefix("bomb ") {
        Some(count) => {
            let blanks = " ".repeat(count.parse::<usize>().expect("a number") << 20);
            (format!("200 {{{blanks}}}"), "Content-Encoding: gzip\r\n")
        }
        None => (text, coding),
    };
    let (status, what) = text.split_once(' ').unwrap_or((&text, ""));
    let (status, body) =
        if status == "items" { ("200", items(what)) } else { (status, what.into()) };
    let body = match status {
        "200" => body,
        _ => format!("{{\"__type\":\"com.amazonaws.dynamodb.v20120810#{what}\"}}"),
    };
    let body = if coding.is_empty() { body.into_bytes() } else { zipped(body.as_bytes()) };
    let head = format!(
        "HTTP/1.1 {status} Status\r\nServer: origin\r\nContent-Type: application/x-amz-json-1.0\r\n\
         {coding}x-amz-crc32: {}\r\nContent-Length: {}\r\n\r\n",
        checksum(&body),
        body.len()
    );
    [head.into_bytes(), body].concat()
}

fn zipped(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}
