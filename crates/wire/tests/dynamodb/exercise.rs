//! One body for two callers: the test `dynamodb_corpus_never_panics` and the fuzz target
//! `dynamodb`.

use std::time::Duration;

use wire::dynamodb::{
    batch::{BatchGetItem, TableNames, are_plain, stored},
    item::{self, GetItem},
    query::Query,
    reply::{Reply, Scanner, checksum, comparable},
    request, streams,
    value::{Names, write_key, write_key_of},
};
use wire::{
    http1::Limits,
    sigv4::{Credentials, Verifier},
};

/// The access key of the seeds.
const KEYS: &str = "aws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = secret";

/// Puts bytes through everything that reads them, as requests and as replies. The first byte says
/// where a chunk ends. Panics if a law of the codec is broken.
pub(crate) fn exercise(input: &[u8]) {
    let Some((&chunk_bytes, bytes)) = input.split_first() else { return };
    let limits = Limits { head_bytes_max: 600, body_bytes_max: 2_000, content_bytes_max: 4_000 };
    let chunk_bytes = usize::from(chunk_bytes).max(1);
    let whole = requests(bytes, bytes.len().max(1), &limits);
    assert_eq!(whole, requests(bytes, chunk_bytes, &limits));
    passed(bytes, &whole, chunk_bytes, &limits);
    for to_head in [false, true] {
        let whole = replies(bytes, bytes.len().max(1), to_head, &limits);
        assert_eq!(whole, replies(bytes, chunk_bytes, to_head, &limits), "{to_head}");
        let starts = [0].into_iter().chain(whole.iter().copied());
        for (start, end) in starts.zip(&whole) {
            if let Some(reply) = Reply::parse(&bytes[start..*end], &limits) {
                assert!(reply.body.len() <= end - start);
                let answer = reply.answer(&limits);
                assert!(!reply.is_refusal(&limits) || answer.is_none());
                assert!(answer.is_none_or(|(content, sum)| {
                    content.len() <= limits.content_bytes_max && sum == checksum(&content)
                }));
                split(&reply.body);
                read_of_streams(&reply.body);
            }
        }
    }
}

/// The ends of the requests.
fn requests(bytes: &[u8], chunk_bytes: usize, limits: &Limits) -> Vec<usize> {
    let (mut ends, mut start, mut end) = (Vec::new(), 0, 0);
    while end < bytes.len() {
        end = (end + chunk_bytes).min(bytes.len());
        loop {
            match request::decode(&bytes[start..end], limits) {
                Ok(Some((message, taken))) => {
                    assert!(taken > 0 && message.body.len() <= taken);
                    let _ = (message.is_usual(), message.request.head.keeps_alive());
                    read(message.operation(), &message.body);
                    let mut verifier = Verifier::default();
                    let now = Duration::from_secs(1_369_353_600);
                    let keys = Credentials::parse(KEYS).expect("valid");
                    let (request, body) = (&message.request, &message.body);
                    let verified = verifier.verify(request, body, "dynamodb", &keys, now);
                    assert!(verified.is_err(), "no seed is signed");
                    start += taken;
                    ends.push(start);
                }
                Ok(None) => break,
                Err(_) => return ends,
            }
        }
    }
    ends
}

/// Reads a body as each kind of request. A key names its attributes, and an item has the key of
/// those.
fn read(operation: &str, body: &[u8]) {
    let operations = ["PutItem", "UpdateItem", "BatchWriteItem", "TransactWriteItems", operation];
    for operation in operations {
        let _ = (item::writes(operation, body), item::only_selects(operation, body));
    }
    let _ = (item::table(body), comparable(body));
    read_many(body);
    read_page(body);
    let Some(get) = GetItem::parse(body) else { return };
    let (mut key, mut same) = (Vec::new(), Vec::new());
    let _ = (get.wants_capacity(), get.write_projection(&mut Vec::new()));
    if write_key(&get.table_name.0, &get.key, &mut key) {
        let (table, names) = Names::of_key(&key).expect("a key");
        assert_eq!(table, get.table_name.0.as_bytes());
        assert!(write_key_of(&get.table_name.0, names, &get.key, &mut same) && key == same);
    }
}

/// The canonical form of a request is its own, and no longer than the request.
fn read_page(body: &[u8]) {
    let Some(query) = Query::parse(body) else { return };
    let _ = (query.table(), query.is_consistent(), query.wants_capacity());
    let (mut canonical, mut again) = (Vec::new(), Vec::new());
    if query.write(&mut canonical).is_some() {
        let query = Query::parse(&canonical).expect("a request");
        query.write(&mut again).expect("the same");
        assert_eq!(canonical.escape_ascii().to_string(), again.escape_ascii().to_string());
    }
}

/// Reads a body as each reply of DynamoDB Streams. What is asked next is a request in JSON.
fn read_of_streams(body: &[u8]) {
    let mut calls = Vec::new();
    let listed = streams::Streams::parse(body);
    let after = listed.as_ref().and_then(|page| page.last_evaluated_stream_arn.as_ref());
    calls.push(streams::Call::ListStreams { after: after.map(|arn| &*arn.0) });
    let described = streams::Description::parse(body);
    for shard in described.iter().flat_map(|page| &page.shards) {
        let (arn, shard) = (&*shard.shard_id.0, &*shard.shard_id.0);
        let start = streams::Start::After(shard);
        calls.push(streams::Call::GetShardIterator { arn, shard, start });
    }
    let iterator = streams::iterator(body);
    calls.extend(iterator.iter().map(|it| streams::Call::GetRecords { iterator: &it.0 }));
    for call in calls {
        let body = call.body();
        assert!(body.starts_with("{\"") && body.ends_with('}'), "{body}");
    }
    let Some(records) = streams::Records::parse(body) else { return };
    assert_eq!(records.changes().count(), records.count());
    for change in records.changes() {
        let mut key = Vec::new();
        if write_key("table", &change.keys, &mut key) {
            assert_eq!(Names::of_key(&key).expect("a key").0, b"table");
        }
    }
}

/// A request for a part of the keys reads these keys.
fn read_many(body: &[u8]) {
    let Some(batch) = BatchGetItem::parse(body).filter(|batch| are_plain(&batch.tables)) else {
        return;
    };
    let keys = keys_of(&batch);
    let part: Vec<_> = keys.iter().step_by(2).cloned().collect();
    let mut text = Vec::new();
    batch.write_part(part.iter().map(Vec::as_slice), &mut text);
    assert!(text.len() <= body.len() + 100);
    // Of keys that are there twice, the first is asked for.
    let again = BatchGetItem::parse(&text).expect("a request");
    assert!(keys_of(&again).iter().all(|key| part.contains(key)));
    let names = TableNames::of(&batch);
    split_by(&names, &keys, body);
}

fn keys_of(batch: &BatchGetItem<'_>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for table in &batch.tables {
        let _ = (table.is_consistent(), table.write_projection(&mut Vec::new()));
        for place in 0..table.keys() {
            let mut key = Vec::new();
            keys.extend(table.write_key(place, &mut key).then_some(key));
        }
    }
    keys
}

/// Cuts the body of a reply into the parts for the keys of the seeds.
fn split(body: &[u8]) {
    const REQUEST: &str = r#"{"RequestItems":{"t":{"Keys":[{"id":{"S":"a"}},{"id":{"S":"b"}}]},
                             "u":{"Keys":[{"id":{"N":"1"}}]}}}"#;
    let batch = BatchGetItem::parse(REQUEST.as_bytes()).expect("valid");
    split_by(&TableNames::of(&batch), &keys_of(&batch), body);
}

/// There is a part for each key, and what is combined of them has the same parts.
fn split_by(names: &TableNames, keys: &[Vec<u8>], body: &[u8]) {
    let split = |body: &[u8]| names.split(body, keys.iter().map(Vec::as_slice));
    let parts = split(body);
    assert_eq!(parts.len(), keys.len());
    let Some(combined) = names.combine(&parts.concat()) else {
        assert!(parts.iter().all(|part| stored(part).is_none()));
        return;
    };
    if !keys.is_empty() {
        assert_eq!(split(&combined), parts, "{}", combined.escape_ascii());
    }
}

/// Requests end at the same places if their bodies pass as they arrive.
fn passed(bytes: &[u8], ends: &[usize], chunk_bytes: usize, limits: &Limits) {
    let mut start = 0;
    for &end in ends {
        let (_, taken, mut passing) =
            request::begin(&bytes[start..], limits).expect("valid").expect("a whole head");
        let (mut at, mut seen) = (start + taken, start + taken);
        loop {
            // Bytes that do not pass, the beginning of a line for example, come again with more.
            let passed = passing.advance(&bytes[at..seen]).expect("valid");
            at += passed.bytes;
            if passed.ends {
                break;
            }
            assert!(seen < bytes.len(), "stuck at {at}");
            seen = (seen + chunk_bytes).min(bytes.len());
        }
        assert_eq!(at, end);
        start = end;
    }
}

/// The ends of the replies.
fn replies(bytes: &[u8], chunk_bytes: usize, to_head: bool, limits: &Limits) -> Vec<usize> {
    let (mut ends, mut start, mut end) = (Vec::new(), 0, 0);
    let mut scanner = Scanner::default();
    while end < bytes.len() {
        end = (end + chunk_bytes).min(bytes.len());
        loop {
            let Ok(progress) = scanner.advance(&bytes[start..end], to_head, limits) else {
                return ends;
            };
            start += progress.consumed;
            if !progress.complete {
                break;
            }
            ends.push(start);
        }
    }
    ends
}
