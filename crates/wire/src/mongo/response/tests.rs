use super::*;
use crate::mongo::fixture::{body, decoded, document, message as framed, pair, parsed};

fn found(batch: &str, id: i64) -> Vec<u8> {
    let documents = [pair("_id", 1), pair("_id", 2)];
    let time = pair("t", 1);
    document(|reply| {
        reply.nested("cursor", |cursor| {
            cursor.array(batch, |items| {
                documents.iter().for_each(|document| items.document(parsed(document)));
            });
            cursor.bool("partialResultsReturned", true);
            cursor.i64("id", id);
            cursor.str("ns", "shop.items");
        });
        reply.f64("ok", 1.0);
        reply.timestamp("operationTime", 5 << 32);
        reply.document("$clusterTime", parsed(&time));
    })
}

#[test]
fn a_reply_written_is_the_reply_read() {
    let body = found("firstBatch", 0);
    let mut bytes = vec![0xAA];
    reply(&mut bytes, 3, 42, &body);
    let frame = decoded(&bytes[1..]);
    let response = Response::parse(&frame).unwrap().unwrap();
    assert_eq!((response.header.request_id, response.header.response_to), (3, 42));
    assert!(response.ok && !response.legacy && !response.write_errors);
    assert_eq!(response.operation_time, Some(5 << 32));
    assert_eq!(response.cluster_time.unwrap().bytes(), pair("t", 1));
    let cursor = response.cursor.unwrap();
    assert!(cursor.first && cursor.partial_results);
    assert_eq!((cursor.id, cursor.namespace), (0, "shop.items"));
    assert_eq!(cursor.document_count(), Ok(2));
    assert_eq!(cursor.document_first().unwrap().unwrap().bytes(), pair("_id", 1));
}

#[test]
fn a_next_batch_is_not_a_first_one() {
    let bytes = framed(0, &[body(&found("nextBatch", 9))]);
    let cursor = Response::parse(&decoded(&bytes)).unwrap().unwrap().cursor.unwrap();
    assert_eq!((cursor.first, cursor.id), (false, 9));
}

#[test]
fn an_error_says_what_and_why() {
    let mut bytes = Vec::new();
    error(&mut bytes, 1, 2, 26, "NamespaceNotFound", "ns does not exist");
    let response = Response::parse(&decoded(&bytes)).unwrap().unwrap();
    assert!(!response.ok);
    let failure =
        Failure { code: 26, code_name: "NamespaceNotFound", message: "ns does not exist" };
    assert_eq!(response.failure, failure);
}

#[test]
fn failed_writes_show() {
    let failed = pair("index", 0);
    let read = |document: &[u8]| {
        let bytes = framed(0, &[body(document)]);
        let response = Response::parse(&decoded(&bytes)).unwrap().unwrap();
        (response.ok, response.write_errors, response.write_concern_error)
    };
    let errors = document(|reply| {
        reply.i32("ok", 1);
        reply.array("writeErrors", |errors| errors.document(parsed(&failed)));
        reply.document("writeConcernError", parsed(&failed));
    });
    assert_eq!(read(&errors), (true, true, true));
    let none = document(|reply| {
        reply.bool("ok", true);
        reply.array("writeErrors", |_| {});
        reply.i32("nErrors", 0);
    });
    assert_eq!(read(&none), (true, false, false));
    assert_eq!(read(&pair("nErrors", 1)), (false, true, false));
}

#[test]
fn a_legacy_reply_has_one_document() {
    let mut bytes = Vec::new();
    legacy_reply(&mut bytes, 1, 2, &pair("ok", 1));
    let response = Response::parse(&decoded(&bytes)).unwrap().unwrap();
    assert!(response.legacy && response.ok);
    assert_eq!(response.body.bytes(), pair("ok", 1));
}

#[test]
fn a_malformed_cursor_is_an_error() {
    let mut document = found("firstBatch", 0);
    let at = document.windows(4).position(|window| window == b"\x10_id").unwrap();
    document[at] = 0x99;
    let bytes = framed(0, &[body(&document)]);
    let response = Response::parse(&decoded(&bytes)).unwrap().unwrap();
    // The batch is read only when asked for.
    assert!(response.cursor.unwrap().document_first().unwrap().is_some());
    let first = response.cursor.unwrap().document_first().unwrap().unwrap();
    assert!(first.elements().any(|element| element.is_err()));
    let at = document.windows(3).position(|window| window == b"\x02ns").unwrap();
    document[at] = 0x99;
    let bytes = framed(0, &[body(&document)]);
    assert!(Response::parse(&decoded(&bytes)).is_err());
}
