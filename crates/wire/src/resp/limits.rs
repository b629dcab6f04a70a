//! What the codec accepts at most.

/// The longest bulk string a server takes unless configured otherwise (`proto-max-bulk-len`).
const BULK_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Room for the header, the key and the options that stand beside one bulk string of full length.
const SLACK_BYTES: usize = 1024 * 1024;

/// Upper bounds a codec refuses to pass. No memory is taken because a length was declared; these
/// bound what a caller has to buffer until a frame is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// One request from its first byte to its last, in bytes.
    pub request_bytes_max: usize,
    /// One bulk string inside a request, in bytes (the server's `proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// Arguments of one request, its name included.
    pub arguments_max: usize,
    /// One inline command; also all blank lines and empty commands ahead of one request, in bytes.
    pub inline_bytes_max: usize,
    /// One reply decoded whole, in bytes. A [`Scanner`](super::Scanner) does not buffer and does
    /// not look at it.
    pub reply_bytes_max: usize,
    /// Aggregates inside aggregates inside one reply, in levels.
    pub nesting_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes_max: BULK_BYTES_MAX + SLACK_BYTES,
            bulk_bytes_max: BULK_BYTES_MAX,
            arguments_max: 1024 * 1024,
            inline_bytes_max: 64 * 1024,
            reply_bytes_max: BULK_BYTES_MAX + SLACK_BYTES,
            nesting_max: 128,
        }
    }
}
