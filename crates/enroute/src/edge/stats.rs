//! Counters of the edge.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn count(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Current value.
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Declares the counters, with what each means to people and to Prometheus.
macro_rules! counters {
    ($($name:ident: $help:literal,)*) => {
        /// Counters of the edge since its start.
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
    handshakes_full: "Full TLS handshakes; each used the private key once.",
    handshakes_resumed: "Resumed TLS handshakes; they used no private key.",
    handshakes_failed: "TLS handshakes that failed on the client's side.",
    handshakes_without_key: "TLS handshakes that failed because the key could not be used.",
    requests: "Requests.",
    hits: "Requests answered from storage.",
    hits_stale: "Hits answered while the response was being revalidated (stale-while-revalidate).",
    errors_covered: "Requests answered from storage because the origin failed (stale-if-error).",
    misses: "Requests whose target was not stored.",
    revalidations: "Stored responses that were revalidated at the origin.",
    not_modified: "Revalidations answered with 304.",
    passed: "Requests forwarded to the origin unchanged: not storable, or of another method.",
    coalesced: "Requests that waited for the fetch of another request, whether or not they could \
                use its response.",
    fills: "Responses stored.",
    invalidations: "Targets dropped because of a request that changes them.",
    misdirected: "Requests for a host other than that of their connection.",
    uncopied: "Requests answered by the origin because there was no memory for a copy of what is stored.",
    no_room: "Requests rejected because too much data was in transit.",
    origin_failures: "Requests the origin did not answer.",
}
