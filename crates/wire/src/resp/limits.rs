//! Limits on the input of the codec.

/// Maximum bulk string of a server by default (`proto-max-bulk-len`).
const BULK_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Space for the header, the key and the options beside one bulk string of maximum length.
const SLACK_BYTES: usize = 1024 * 1024;

/// Limits of a codec. A declared length allocates no memory; these limits bound what a caller must
/// buffer until a frame is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// One request from its first byte to its last, in bytes.
    pub request_bytes_max: usize,
    /// One bulk string inside a request, in bytes (the server's `proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// Arguments of one request, including its name.
    pub arguments_max: usize,
    /// One inline command; also all blank lines and empty commands before one request, in bytes.
    pub inline_bytes_max: usize,
    /// One reply that is decoded as a whole, in bytes. A [`Scanner`](super::Scanner) does not
    /// buffer replies and ignores this limit.
    pub reply_bytes_max: usize,
    /// Nesting depth of aggregates in one decoded reply.
    pub nesting_max: usize,
    /// The sender has not logged in yet; errors about its requests say so.
    pub before_login: bool,
}

/// Arguments of one request, and bytes of each, that Redis accepts before a client has logged in.
const ARGUMENTS_BEFORE_LOGIN_MAX: usize = 10;
const BULK_BYTES_BEFORE_LOGIN_MAX: usize = 16 * 1024;

impl Limits {
    /// The default limits, with another one for requests and replies if it is given.
    #[must_use]
    pub fn of_messages(bytes_max: Option<usize>) -> Self {
        let default = Self::default();
        Self {
            request_bytes_max: bytes_max.unwrap_or(default.request_bytes_max),
            reply_bytes_max: bytes_max.unwrap_or(default.reply_bytes_max),
            ..default
        }
    }

    /// Limits for a client that has not logged in: those of Redis for such clients, but at most
    /// those of `self`. The largest request takes 161 KiB.
    #[must_use]
    pub fn before_login(&self) -> Self {
        let arguments_max = self.arguments_max.min(ARGUMENTS_BEFORE_LOGIN_MAX);
        let bulk_bytes_max = self.bulk_bytes_max.min(BULK_BYTES_BEFORE_LOGIN_MAX);
        // Each bulk string has a length line. Blanks and inline commands (64 KiB) have a separate
        // limit.
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
