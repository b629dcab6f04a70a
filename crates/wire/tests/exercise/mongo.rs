//! Applies the whole codec to untrusted bytes; shared by the fuzz target and the corpus test.

use wire::mongo::bson::Document;
use wire::mongo::frame::{Body, Frame, Limits, decode};
use wire::mongo::handshake::{Compression, compressors, rewrite};
use wire::mongo::key;
use wire::mongo::request::Request;
use wire::mongo::response::Response;
use wire::mongo::touch::{Touch, output, touches};

/// Small, so that short inputs reach the limits.
const LIMITS: Limits = Limits { frame_bytes_max: 1 << 16, inflated_bytes_max: 1 << 16 };

/// Decodes `stream` frame by frame and reads each frame in full. Nothing may panic, and the results
/// must be consistent.
pub(crate) fn exercise(stream: &[u8]) {
    let mut rest = stream;
    while let Ok(Some((frame, length))) = decode(rest, &LIMITS) {
        assert_eq!(frame.bytes(), &rest[..length]);
        assert_eq!(frame.header().length, length);
        look(&frame);
        rest = &rest[length..];
    }
}

fn look(frame: &Frame<'_>) {
    match frame.body() {
        Body::Compressed(body) => {
            let mut inflated = Vec::new();
            if body.inflate(&LIMITS, &mut inflated).is_ok() {
                assert!(inflated.len() <= LIMITS.inflated_bytes_max);
                // A frame that was compressed twice is refused, so the recursion ends.
                if let Ok(Some((inner, length))) = decode(&inflated, &LIMITS) {
                    assert_eq!(length, inflated.len());
                    assert!(!matches!(inner.body(), Body::Compressed(_)));
                    look(&inner);
                }
            }
        }
        Body::Msg(message) => {
            question(message.body());
            message.sequences().flat_map(|sequence| sequence.documents()).for_each(question);
        }
        Body::Query(query) => question(query.query),
        Body::Reply(reply) => reply.documents.for_each(question),
        Body::Opaque => {}
    }
    if let Ok(Some(request)) = Request::parse(frame) {
        let _ = output(&request);
        let _ = touches(&request, &mut |touch| match touch {
            Touch::Document { document, .. } => question(document),
            Touch::Filter { filter, .. } => question(filter),
            Touch::Collection(namespace) => assert!(namespace.collection.is_some()),
            Touch::Database(_) | Touch::Everything => {}
        });
    }
    if let Ok(Some(response)) = Response::parse(frame)
        && let Some(cursor) = response.cursor
    {
        let counted = cursor.document_count();
        let _ = cursor.document_first();
        assert!(counted.is_err() || cursor.documents().count() == counted.unwrap());
    }
    let mut rewritten = Vec::new();
    if rewrite(frame, &|_| Some("cache:1".to_owned()), Compression::Strip, &mut rewritten).is_ok() {
        let limits = Limits { frame_bytes_max: usize::MAX, ..LIMITS };
        let (again, length) = decode(&rewritten, &limits).unwrap().unwrap();
        assert_eq!(length, rewritten.len());
        assert_eq!(again.header().opcode, frame.header().opcode);
    }
}

fn question(document: Document<'_>) {
    let mut bytes = Vec::new();
    let keyed = key::append_document(document, &mut bytes);
    assert!(keyed.is_ok() || bytes.is_empty());
    let _ = document.any(&mut |element| element.str() == Some("$$NOW"));
    let _ = compressors(&document).map(Iterator::count);
    for element in document.elements().flatten() {
        let _ = (element.integer(), element.is_true(), element.timestamp(), element.binary());
        let _ = (element.str(), element.bool(), element.f64(), element.i32(), element.i64());
    }
}
