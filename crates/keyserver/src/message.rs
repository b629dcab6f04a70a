//! The signed messages, built from the parts of a handshake and from nothing else.

use wire::ski::{Params, RANDOM_BYTES, TranscriptHash};

/// Text before the transcript hash when a TLS 1.3 *server* signs (RFC 8446 §4.4.3).
const SERVER_CONTEXT: &[u8] = b"TLS 1.3, server CertificateVerify";
/// Spaces in front of the context.
const PADDING: [u8; 64] = [0x20; 64];

/// Returns the message that a TLS 1.2 server signs for its ECDHE exchange (RFC 8422 §5.4).
pub fn server_key_exchange(
    client_random: &[u8; RANDOM_BYTES],
    server_random: &[u8; RANDOM_BYTES],
    params: &Params,
) -> Vec<u8> {
    [client_random, server_random, params.bytes()].concat()
}

/// Returns the message that a TLS 1.3 server signs for the handshake. The client's context cannot
/// occur here.
pub fn certificate_verify(transcript_hash: &TranscriptHash) -> Vec<u8> {
    [&PADDING, SERVER_CONTEXT, &[0], transcript_hash.bytes()].concat()
}
