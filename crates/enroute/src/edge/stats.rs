//! What the edge did, counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn count(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// So far.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Declares the counters, with what each means to people and to Prometheus.
macro_rules! counters {
    ($($name:ident: $help:literal,)*) => {
        /// What the edge did since its start.
        #[derive(Debug, Default)]
        pub struct Stats {
            $(#[doc = $help] pub $name: Counter,)*
        }

        impl Stats {
            /// Name, meaning and value of each counter.
            pub fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $help, self.$name.value()),)*]
            }
        }
    };
}

counters! {
    accepted: "Connections accepted.",
    handshakes_full: "Full TLS handshakes: each asked the key once.",
    handshakes_resumed: "TLS handshakes that went on with a session of before: no key was asked.",
    handshakes_failed: "TLS handshakes that failed on the client's side.",
    handshakes_without_key: "TLS handshakes that failed because the key could not be used.",
    requests: "Requests.",
    hits: "Requests answered from storage.",
    hits_stale: "Those of them answered while being made fresh (stale-while-revalidate).",
    errors_covered: "Requests answered from storage because the origin failed (stale-if-error).",
    misses: "Requests whose target was not stored.",
    revalidations: "Stored responses the origin was asked about again.",
    not_modified: "Those of them it said were still right.",
    passed: "Requests handed to the origin as they were: not to be stored, or of another method.",
    coalesced: "Requests that waited for another one's answer from the origin, whether or not they got it.",
    fills: "Responses stored.",
    invalidations: "Targets forgotten because of a request that changes them.",
    misdirected: "Requests for a host other than their connection's.",
    uncopied: "Requests answered by the origin because there was no memory for a copy of what is stored.",
    no_room: "Requests refused because too much was on its way already.",
    origin_failures: "Requests the origin did not answer.",
}
