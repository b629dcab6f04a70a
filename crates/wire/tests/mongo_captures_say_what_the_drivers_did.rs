//! Captures of real drivers, plain and compressed, decode to the commands that the drivers sent.

#[path = "captures/mongo.rs"]
mod captures;

use wire::mongo::frame::{Body, Limits, decode};
use wire::mongo::request::Request;
use wire::mongo::response::Response;
use wire::mongo::touch::{Touch, touches};

/// A capture's frames; compressed ones inflated.
fn inflated(name: &str) -> Vec<Vec<u8>> {
    let all = captures::all();
    let (_, stream) = all.iter().find(|(found, _)| found == name).unwrap();
    captures::frames(stream)
        .into_iter()
        .map(|bytes| {
            let (frame, _) = decode(&bytes, &Limits::default()).unwrap().unwrap();
            let Body::Compressed(compressed) = frame.body() else { return bytes.clone() };
            let mut out = Vec::new();
            compressed.inflate(&Limits::default(), &mut out).unwrap();
            out
        })
        .collect()
}

/// Each request as a line: command, namespace, and the targets of its writes.
fn requests(name: &str) -> Vec<String> {
    inflated(name)
        .iter()
        .map(|bytes| {
            let (frame, _) = decode(bytes, &Limits::default()).unwrap().unwrap();
            let request = Request::parse(&frame).unwrap().unwrap();
            assert!(request.command.is_some(), "{} is not in the table", request.name);
            let mut line = format!("{} {}", request.name, request.namespace.database);
            if let Some(collection) = request.namespace.collection {
                line = format!("{line}.{collection}");
            }
            touches(&request, &mut |touch| {
                line.push_str(match touch {
                    Touch::Document { .. } => " document",
                    Touch::Filter { .. } => " filter",
                    Touch::Collection(_) => " collection",
                    Touch::Database(_) => " database",
                    Touch::Everything => " everything",
                });
            })
            .unwrap();
            if !request.acknowledged() {
                line.push_str(" unacknowledged");
            }
            line
        })
        .collect()
}

const CRUD: [&str; 36] = [
    "ismaster admin",
    "ismaster admin",
    "insert shop.items document",
    "insert shop.items document document document document document",
    "find shop.items",
    "find shop.items",
    "find shop.items",
    "find shop.items",
    "find shop.items",
    "getMore shop.items",
    "getMore shop.items",
    "getMore shop.items",
    "update shop.items filter",
    "update shop.items filter",
    "findAndModify shop.items filter",
    "update shop.items filter",
    "delete shop.items filter",
    "aggregate shop.items",
    "count shop.items",
    "distinct shop.items",
    "aggregate shop.items collection",
    "insert shop.items document unacknowledged",
    "insert shop.items document",
    "insert shop.items document",
    "update shop.items filter",
    "delete shop.items filter",
    "find shop.items",
    "ismaster admin",
    "find shop.items",
    "ismaster admin",
    "createIndexes shop.items collection",
    "ping shop",
    "renameCollection shop.items collection collection",
    "drop shop.renamed collection",
    "dropDatabase shop database",
    "endSessions admin",
];

#[test]
fn pymongo_plain_and_with_every_compressor() {
    assert_eq!(requests("pymongo-crud.client.bin"), CRUD);
    for compressor in ["snappy", "zlib", "zstd"] {
        assert_eq!(requests(&format!("pymongo-{compressor}.client.bin")), CRUD, "{compressor}");
    }
}

#[test]
fn pymongo_bulk_write_and_transaction() {
    assert_eq!(
        requests("pymongo-bulkwrite.client.bin")[2],
        "bulkWrite admin document filter filter"
    );
    let transaction = requests("pymongo-transaction.client.bin");
    assert_eq!(transaction[2..4], ["insert shop.items document", "abortTransaction admin"]);
}

#[test]
fn node_with_its_legacy_handshake() {
    let plain = requests("node-crud.client.bin");
    assert_eq!(plain[0], "ismaster admin");
    assert_eq!(plain[5], "insert shop.items document document");
    assert_eq!(plain[11], "aggregate shop.items collection");
    let compressed = requests("node-zlib.client.bin");
    assert!(compressed.contains(&"insert shop.items document document".to_owned()));
}

#[test]
fn replies_answer_requests_and_cursors_count_their_documents() {
    for (client, server) in [
        ("pymongo-crud.client.bin", "pymongo-crud.server.bin"),
        ("pymongo-java.client.bin", "pymongo-java.server.bin"),
        ("pymongo-snappy.client.bin", "pymongo-snappy.server.bin"),
        ("pymongo-zlib.client.bin", "pymongo-zlib.server.bin"),
        ("pymongo-zstd.client.bin", "pymongo-zstd.server.bin"),
        ("node-crud.client.bin", "node-crud.server.bin"),
    ] {
        let asked: Vec<_> = inflated(client)
            .iter()
            .map(|bytes| decode(bytes, &Limits::default()).unwrap().unwrap().0.header().request_id)
            .collect();
        let mut counts = Vec::new();
        let mut write_errors = 0;
        for bytes in inflated(server) {
            let (frame, _) = decode(&bytes, &Limits::default()).unwrap().unwrap();
            let response = Response::parse(&frame).unwrap().unwrap();
            assert!(asked.contains(&response.header.response_to), "{server}");
            assert_eq!(response.ok, response.failure.message.is_empty(), "{server}");
            write_errors += usize::from(response.write_errors);
            if let Some(cursor) = response.cursor {
                counts.push((cursor.first, cursor.document_count().unwrap(), cursor.id != 0));
            }
        }
        if client.starts_with("pymongo") {
            // Three find_one, one of them without a result; a sorted page; six documents in batches
            // of two.
            let expected = [(true, 1, false), (true, 1, false), (true, 0, false), (true, 2, false)];
            assert_eq!(counts[..4], expected, "{server}");
            assert_eq!(counts[4], (true, 2, true), "{server}");
            // mongo-java-server closed the connection before its reply to the duplicate key.
            let duplicates = usize::from(!client.contains("java"));
            assert_eq!(write_errors, duplicates, "{server}");
        }
    }
}
