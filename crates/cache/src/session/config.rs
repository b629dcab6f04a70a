//! Limits of one session.

use std::{sync::Arc, time::Duration};

pub use super::verify::Verify;

/// Limits of one session: what one client can claim of memory and time.
#[derive(Debug, Clone)]
pub struct Config {
    /// Maximum number of outstanding requests; above it, the client is not read.
    pub pipeline_max: usize,
    /// Maximum number of bytes waiting to be written to one side; above it, the other side is not
    /// read.
    pub buffered_bytes_max: usize,
    /// Largest reply that is kept aside to be stored.
    pub captured_bytes_max: usize,
    /// Largest reply that is withheld until it is complete, because it must be read or changed
    /// before it is forwarded; a larger one ends the session. This is the maximum that a client can
    /// claim by one request.
    pub withheld_bytes_max: usize,
    /// A longer request is not held: it passes as it arrives and is interpreted by its beginning;
    /// its writes invalidate the collection or a wider scope.
    pub request_held_bytes_max: usize,
    /// The same for a client that the origin has not accepted yet.
    pub stranger_held_bytes_max: usize,
    /// Maximum number of writes held back by MULTI; more count as one write to everything.
    pub held_writes_max: usize,
    /// Longest wait for another client's fill.
    pub coalesce_wait_max: Duration,
    /// Validity of the rights that the origin reported for a connection.
    pub authorization_lease: Duration,
    /// Which hits are asked at the origin too, and compared.
    pub verify: Option<Arc<Verify>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pipeline_max: 4_096,
            buffered_bytes_max: 1 << 20,
            captured_bytes_max: 1 << 20,
            withheld_bytes_max: 513 << 20,
            request_held_bytes_max: 1 << 20,
            stranger_held_bytes_max: 16 << 10,
            held_writes_max: 1_024,
            coalesce_wait_max: Duration::from_secs(2),
            authorization_lease: Duration::from_secs(10),
            verify: None,
        }
    }
}
