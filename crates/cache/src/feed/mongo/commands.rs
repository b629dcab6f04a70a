//! The commands that a feed sends, without `$db`.

use std::time::Duration;

use wire::mongo::{
    bson::{Document, Writer},
    scram,
};

const COMMENT: &str = "enroute: feed";

pub(super) fn hello(body: &mut Writer<'_>) {
    body.i32("hello", 1);
    body.str("comment", COMMENT);
}

pub(super) fn sasl_start(first: &str, body: &mut Writer<'_>) {
    body.i32("saslStart", 1);
    body.str("mechanism", scram::MECHANISM);
    body.binary("payload", first.as_bytes());
    body.nested("options", |options| options.bool("skipEmptyExchange", true));
}

pub(super) fn sasl_continue(conversation: i32, answer: &str, body: &mut Writer<'_>) {
    body.i32("saslContinue", 1);
    body.i32("conversationId", conversation);
    body.binary("payload", answer.as_bytes());
}

/// Opens the stream, or resumes it after `token`. Only the fields that name the record are
/// requested, so that no event is too large to be reported.
pub(super) fn open(token: Option<Document<'_>>, expands: bool, body: &mut Writer<'_>) {
    body.i32("aggregate", 1);
    body.array("pipeline", |stages| {
        stages.push(|stages, index| {
            stages.nested(index, |stage| {
                stage.nested("$changeStream", |stream| {
                    stream.bool("allChangesForCluster", true);
                    if expands {
                        stream.bool("showExpandedEvents", true);
                    }
                    token.into_iter().for_each(|token| stream.document("resumeAfter", token));
                });
            });
        });
        stages.push(|stages, index| {
            stages.nested(index, |stage| {
                stage.nested("$project", |project| {
                    for name in ["operationType", "ns", "to", "documentKey"] {
                        project.i32(name, 1);
                    }
                });
            });
        });
    });
    body.nested("cursor", |_| {});
    body.str("comment", COMMENT);
}

/// Asks for the next events, and waits for them for up to `patience`.
pub(super) fn get_more(id: i64, collection: &str, patience: Duration, body: &mut Writer<'_>) {
    body.i64("getMore", id);
    body.str("collection", collection);
    body.i64("maxTimeMS", i64::try_from(patience.as_millis()).unwrap_or(i64::MAX));
}
