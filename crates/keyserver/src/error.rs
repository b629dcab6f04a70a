//! Why a key, a record or a log was refused. No variant carries key material.

/// Errors of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a private key this service can use.
    #[error(
        "expected a private key in PKCS #8, PEM or DER: RSA 2048 to 4096, ECDSA P-256 or P-384, \
         Ed25519; got {got}. `openssl pkcs8 -topk8 -nocrypt` converts other forms"
    )]
    Key {
        /// A description of what was found; never its content.
        got: &'static str,
    },
    /// Not a key-encryption key.
    #[error("key-encryption key {number}: expected 64 hexadecimal digits, got {got}")]
    Kek {
        /// Which one of the file, from 1.
        number: usize,
        /// A description of what was found; never its content.
        got: String,
    },
    /// No key-encryption key at all.
    #[error(
        "expected a key-encryption key, one line of 64 hexadecimal digits, got none; \
         `openssl rand -hex 32` makes one"
    )]
    NoKek,
    /// A sealed record that fails verification.
    #[error("record of key {id}: {reason}")]
    Record {
        /// Whose record it should be.
        id: wire::ski::KeyId,
        /// The reason.
        reason: &'static str,
    },
    /// A server name no certificate can carry.
    #[error("server name {0:?}: expected a DNS name, at most 253 bytes")]
    ServerName(String),
    /// An audit log that was changed, or that is none.
    #[error("audit log: line {line}: expected {expected}, got {got}")]
    Audit {
        /// Which line, from 1.
        line: u64,
        /// The expected value.
        expected: String,
        /// The value found.
        got: String,
    },
    /// A record that is there already.
    #[error(
        "the database has a record of this key already ({0}), perhaps with other server names or \
         under another key-encryption key: see `enroute keyserver list`, and give --replace to \
         overwrite it"
    )]
    Exists(wire::ski::KeyId),
    /// An error reply of the database.
    #[error("the database replied with an error: {0}")]
    Database(String),
    /// A reply of the database of another kind.
    #[error("{command}: expected {expected}, got another reply")]
    Reply {
        /// The command.
        command: &'static str,
        /// What its reply is.
        expected: &'static str,
    },
    /// The cryptographic library failed.
    #[error("the cryptographic library failed to {0}")]
    Library(&'static str),
}

/// The result of fallible functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
