//! HTTP/1.1 messages in a stream: heads, and where bodies end (RFC 9112).
//!
//! Strict, because two readers of one stream must agree where a message ends: a bare line feed,
//! folded lines, two lengths, and codings other than `chunked` are errors.
//!
//! **Read first:** [`head`].

pub mod body;
mod coding;
pub mod head;

pub use body::{Framing, Progress, Scanner};
pub use coding::content;
pub use head::{Head, ReplyHead, RequestHead};

/// Limits of one message.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Largest head: first line and headers. Default: 16 KiB.
    pub head_bytes_max: usize,
    /// Largest body, as it is sent. Default: 64 MiB.
    pub body_bytes_max: u64,
    /// Longest content of a body that is compressed. Default: 32 MiB. The longest reply of DynamoDB
    /// has 16 MB of items, and binary values are a third longer in JSON.
    pub content_bytes_max: usize,
}

impl Limits {
    /// The default limits, with another one for bodies if it is given.
    #[must_use]
    pub fn of_body(bytes_max: Option<usize>) -> Self {
        let default = Self::default();
        let body_bytes_max = bytes_max.map_or(default.body_bytes_max, |bytes| bytes as u64);
        Self { body_bytes_max, ..default }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { head_bytes_max: 16 << 10, body_bytes_max: 64 << 20, content_bytes_max: 32 << 20 }
    }
}

const PROTOCOL: &str = "HTTP/1.1";

#[cfg(test)]
mod tests;
