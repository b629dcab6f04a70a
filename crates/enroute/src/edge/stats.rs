//! Counters and latencies of the edge.

use std::time::Instant;

use telemetry::{Latencies, SharedCounter};

/// Latencies of anything that several threads do.
pub type SharedLatencies = Latencies<SharedCounter>;

/// Counts the time since `began`.
pub(super) fn time(latencies: &SharedLatencies, began: Instant) {
    latencies.record(began.elapsed(), 1);
}

/// Declares the counters, with what each means to people and to Prometheus.
macro_rules! counters {
    ($($name:ident: $help:literal,)*) => {
        /// What the edge has counted since its start.
        #[derive(Debug, Default)]
        pub struct Stats {
            $(#[doc = $help] pub $name: SharedCounter,)*
            /// From receiving the head of a request until its answer was found in storage.
            pub hit_latency: SharedLatencies,
            /// From asking an origin, its queue included, until the head of its answer or a
            /// failure.
            pub origin_latency: SharedLatencies,
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
