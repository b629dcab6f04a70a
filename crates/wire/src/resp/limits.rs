//! Limits on the input of the codec.

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
    /// Aggregates inside aggregates inside one reply that is decoded, in levels.
    pub nesting_max: usize,
    /// The sender has not logged in yet; errors about its requests say so.
    pub before_login: bool,
}

/// Arguments of one request, and bytes of each, that Redis accepts before a client has logged in.
const ARGUMENTS_BEFORE_LOGIN_MAX: usize = 10;
const BULK_BYTES_BEFORE_LOGIN_MAX: usize = 16 * 1024;

impl Limits {
    /// Limits for a client that has not logged in: those of Redis for such clients, but never more
    /// than `self` allows. The largest request takes 161 KiB.
    #[must_use]
    pub fn before_login(&self) -> Self {
        let arguments_max = self.arguments_max.min(ARGUMENTS_BEFORE_LOGIN_MAX);
        let bulk_bytes_max = self.bulk_bytes_max.min(BULK_BYTES_BEFORE_LOGIN_MAX);
        // Beside each bulk string its length; 64 KiB of blanks and inline commands have a limit of
        // their own.
        let request_bytes_max = arguments_max * (bulk_bytes_max + 64);
        Self {
            request_bytes_max: self.request_bytes_max.min(request_bytes_max),
            bulk_bytes_max,
            arguments_max,
            before_login: true,
            ..self.clone()
        }
    }
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
            before_login: false,
        }
    }
}
