//! Reasons and scopes in words.

use crate::stats::WhyNot;

/// What `reason` means; `fed`: whether the origin reports writes that bypass the cache.
pub(super) fn of(reason: WhyNot, fed: bool) -> &'static str {
    match reason {
        WhyNot::NotStored => "never read, evicted, expired or dropped by a write",
        WhyNot::WritePending if fed => {
            "a write to the key or to a scope above it is unanswered, or the feed is down"
        }
        WhyNot::WritePending => "a write to the key or to a scope above it is unanswered",
        WhyNot::Quarantine => {
            "the reply to a write was lost; `quarantine_causes` in /stats name it"
        }
        WhyNot::NotHot => "population is `hot`, and the key is read too rarely",
        WhyNot::NamespaceLimit => "too many collections are in use at once",
        WhyNot::Derived => "a view, a time series, a capped collection or one with a collation",
        WhyNot::Excluded => {
            "excluded by `include`, `exclude`, or a database or table without a feed"
        }
        WhyNot::NotByKey => "it names its record by no unique field; see `unique_fields`",
        WhyNot::Command => "answers to this command are not stored",
        WhyNot::Option => "an option or the length of the command changes its answer",
        WhyNot::Expression => "the projection computes something",
        WhyNot::Cursor => "it opens or continues a cursor",
        WhyNot::ReadConcern => "only the origin can give this read concern",
        WhyNot::Causal => "it names an operation time",
        WhyNot::ReadPreference => "it may be answered by a secondary",
        WhyNot::Transaction => "it is inside a transaction",
        WhyNot::Watched => "the client watches or tracks keys",
        WhyNot::Stream => "the connection has turned into a stream",
        WhyNot::Unsettled => "the connection is changing its user, database or protocol",
        WhyNot::Unproven => "the origin has not reported the rights of the connection",
        WhyNot::Expiry => "the user may not run PTTL",
        WhyNot::Verified => "it was asked at the origin too, to compare the two (`verify`)",
        WhyNot::Observed => "reads are only observed, and nothing is stored (`observe`)",
        WhyNot::Upgrading => {
            "an upgrade is in progress, and two processes share the port (SIGUSR2)"
        }
        WhyNot::PassThrough => "the TLS of the connection ends at the origin",
    }
}

/// The writes that drop an entry of a Redis database.
pub(super) fn redis() -> &'static str {
    "a write to the key or to the whole database (FLUSHDB); FLUSHALL; a script, unless `scripts` \
     limits it to declared keys; a command that is not known"
}

/// The writes that drop an entry of a MongoDB collection.
pub(super) fn mongo(by_field: bool) -> &'static str {
    if by_field {
        "any write to the collection, because it can change the field; a write to the database; a \
         command that is not known"
    } else {
        "a write whose filter or document has this _id; a write to the collection by anything else; \
         a write to the database; a command that is not known"
    }
}

/// The writes that drop an entry of a memcached server.
pub(super) fn memcached() -> &'static str {
    "a write to the key; flush_all; a command that is not known"
}
