//! Counters of events.

use telemetry::{Counter, Latencies};

use crate::key::Scope;

pub mod busiest;
mod line;

use busiest::Busiest;
pub use line::line;

/// Reasons why a read was not answered from storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNot {
    /// Not stored: never read, evicted, expired or invalidated.
    NotStored,
    /// A write to the key, or to something above it, is not settled.
    WritePending,
    /// The answer to such a write was lost, and its quarantine is not over.
    Quarantine,
    /// Population is `hot` and the key is not.
    NotHot,
    /// Too many namespaces are in use at once.
    NamespaceLimit,
    /// The namespace is a view, has a collation or is a time series.
    Derived,
    /// Excluded by the include and exclude rules of the configuration.
    Excluded,
    /// The read does not name its records by key.
    NotByKey,
    /// The command's answer is never stored (random, time, administrative).
    Command,
    /// An option of the read changes its meaning.
    Option,
    /// A projection or filter computes something.
    Expression,
    /// Inside a transaction.
    Transaction,
    /// A read concern that only the origin can give (linearizable, snapshot).
    ReadConcern,
    /// A causally consistent read names an operation time.
    Causal,
    /// The read may go to a secondary.
    ReadPreference,
    /// The read opens, continues or tails a cursor.
    Cursor,
    /// The client watches keys, or tracks them for its own cache.
    Watched,
    /// The connection has turned into a stream (subscription, replication, monitor).
    Stream,
    /// The connection is changing its user, database or protocol.
    Unsettled,
    /// The origin has not reported the rights of this connection within the lease.
    Unproven,
    /// The user may not run PTTL.
    Expiry,
    /// The client's TLS is relayed unread; counted once for each connection.
    PassThrough,
    /// Was a hit, and was asked at the origin too, to compare the two.
    Verified,
    /// Reads are only observed: nothing is stored.
    Observed,
    /// Another process of the cache is starting or ending beside this one.
    Upgrading,
}

impl WhyNot {
    /// Every reason, in the order of [`Stats::why_not`].
    pub const ALL: [Self; 25] = [
        Self::NotStored,
        Self::WritePending,
        Self::Quarantine,
        Self::NotHot,
        Self::NamespaceLimit,
        Self::Derived,
        Self::Excluded,
        Self::NotByKey,
        Self::Command,
        Self::Option,
        Self::Expression,
        Self::Transaction,
        Self::ReadConcern,
        Self::Causal,
        Self::ReadPreference,
        Self::Cursor,
        Self::Watched,
        Self::Stream,
        Self::Unsettled,
        Self::Unproven,
        Self::Expiry,
        Self::PassThrough,
        Self::Verified,
        Self::Observed,
        Self::Upgrading,
    ];

    /// The reason's name in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotStored => "not-stored",
            Self::WritePending => "write-pending",
            Self::Quarantine => "quarantine",
            Self::NotHot => "not-hot",
            Self::NamespaceLimit => "namespace-limit",
            Self::Derived => "derived",
            Self::Excluded => "excluded",
            Self::NotByKey => "not-by-key",
            Self::Command => "command",
            Self::Option => "option",
            Self::Expression => "expression",
            Self::Transaction => "transaction",
            Self::ReadConcern => "read-concern",
            Self::Causal => "causal",
            Self::ReadPreference => "read-preference",
            Self::Cursor => "cursor",
            Self::Watched => "watched",
            Self::Stream => "stream",
            Self::Unsettled => "unsettled",
            Self::Unproven => "unproven",
            Self::Expiry => "expiry",
            Self::PassThrough => "pass-through",
            Self::Verified => "verified",
            Self::Observed => "observed",
            Self::Upgrading => "upgrading",
        }
    }
}

/// Reasons why the reply of a missed read was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFilled {
    /// A write came between the read and its reply.
    Revoked,
    /// The reply is an error.
    ErrorReply,
    /// The reply is longer than the largest value.
    TooLarge,
    /// The reply leaves a cursor open, is partial or has more than one record.
    Incomplete,
    /// The record is not the one that was asked for (a collation, most likely).
    OtherKey,
    /// The namespace is a view, has a collation or is a time series, or the origin does not report
    /// it.
    Derived,
    /// The origin did not report when the key expires, or it has expired.
    Expiry,
    /// The memory refused it.
    Refused,
    /// The replacement policy keeps what is stored instead.
    NotAdmitted,
    /// The origin has not reported the rights of the connection.
    Unproven,
    /// Reads are only observed: nothing is stored.
    Observed,
    /// The origin was not yet asked to report writes of the key.
    Untracked,
}

impl NotFilled {
    /// Every reason, in the order of [`Stats::not_filled`].
    pub const ALL: [Self; 12] = [
        Self::Revoked,
        Self::ErrorReply,
        Self::TooLarge,
        Self::Incomplete,
        Self::OtherKey,
        Self::Derived,
        Self::Expiry,
        Self::Refused,
        Self::NotAdmitted,
        Self::Unproven,
        Self::Observed,
        Self::Untracked,
    ];

    /// The reason's name in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::ErrorReply => "error-reply",
            Self::TooLarge => "too-large",
            Self::Incomplete => "incomplete",
            Self::OtherKey => "other-key",
            Self::Derived => "derived",
            Self::Expiry => "expiry",
            Self::Refused => "refused",
            Self::NotAdmitted => "not-admitted",
            Self::Unproven => "unproven",
            Self::Observed => "observed",
            Self::Untracked => "untracked",
        }
    }
}

/// Counters of one handle on storage. It shares no cache line with that of another worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Stats {
    /// Reads answered from storage.
    pub hits: Counter,
    /// Reads that waited for another client's fill instead of going to the origin.
    pub coalesced: Counter,
    /// Hits that were asked at the origin too and compared with its reply.
    pub verified: Counter,
    /// The number of these that differed from it.
    pub differed: Counter,
    /// Replies stored.
    pub fills: Counter,
    /// Writes seen, by how much they could touch: a key, a collection, a database, everything of
    /// their origin.
    pub writes: [Counter; 4],
    /// Invalidations that a feed named.
    pub fed: Counter,
    /// Writes that the origin refused: the stored entries are served again.
    pub writes_refused: Counter,
    /// Writes whose reply was lost.
    pub writes_lost: Counter,
    /// Reads not answered from storage, by [`WhyNot`].
    pub why_not: [Counter; WhyNot::ALL.len()],
    /// Replies not stored, by [`NotFilled`].
    pub not_filled: [Counter; NotFilled::ALL.len()],
    /// Requests forwarded for connections that are not logged in: the origin refuses them.
    pub refused_logins: Counter,
    /// Frames refused because they break the protocol or a limit.
    pub refused_frames: Counter,
    /// Time from reading a request until its answer from storage was written; hits that waited for
    /// the reply to an earlier request, or for another client's fill, are left out.
    pub hit_latency: Latencies,
    /// Time from forwarding a read by key until the last byte of its reply has arrived.
    pub miss_latency: Latencies,
    /// The keys that are read most.
    pub busiest: Busiest,
}

impl Stats {
    /// Counts a read that was not answered from storage.
    pub fn why_not(&self, reason: WhyNot) {
        if let Some(counter) = self.why_not.get(reason as usize) {
            counter.add(1);
        }
    }

    /// Counts a reply that was not stored.
    pub fn not_filled(&self, reason: NotFilled) {
        if let Some(counter) = self.not_filled.get(reason as usize) {
            counter.add(1);
        }
    }

    /// Counts a write by how much it can touch.
    pub fn wrote(&self, scope: Scope<'_>) {
        let [key, collection, database, everything] = &self.writes;
        let counter = match scope {
            Scope::Key(_) => key,
            Scope::Collection(_) => collection,
            Scope::Database { .. } => database,
            Scope::Origin(_) => everything,
        };
        counter.add(1);
    }

    /// Reads not answered from storage.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.why_not.iter().map(Counter::value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{NotFilled, WhyNot};

    #[test]
    fn reasons_stand_at_their_own_place() {
        for (place, reason) in WhyNot::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{}", reason.name());
        }
        for (place, reason) in NotFilled::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{}", reason.name());
        }
    }
}
